"""Whether an engine keeps tenants apart: nobody without a tenant, nothing for another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .client import UnreachableError
from .counters import await_stored, engine_page, settled_pages
from .reading import EXTERNAL_HITS, LOCAL_HITS, PROMPT_TOKENS, delta
from .report import FAILED, OK, Check
from .target import Replica
from .verification import Verification

_FORBIDDEN: Final = 403
_ATTEMPTS: Final = 3
"""Requests of others move the counters too, and may hit."""


def judge_control_tenant(verification: Verification, control_tenant: str) -> Iterator[Check]:
    """Judge the engine.

    Args:
        verification: The run.
        control_tenant: A tenant other than the one that the verification asks as.
    """
    first, second, *_ = verification.target.replicas
    for replica in verification.target.replicas:
        yield _nobody(verification, replica)
    # Where it was computed lies most: in L0, L1 and L2. Elsewhere it can come from L2 alone.
    for reader in (first, second):
        yield _nothing(verification, control_tenant, first, reader)


def _nobody(verification: Verification, replica: Replica) -> Check:
    """A request of no tenant is rejected."""
    try:
        verification.ask_as(None, replica.engine_url, "nobody's")
        measured = "an answer"
    except UnreachableError as error:
        measured = str(error.status) if error.status is not None else str(error)
    return Check(
        name=f"{replica.name}: a request of no tenant",
        measured=measured,
        wanted=str(_FORBIDDEN),
        verdict=OK if measured == str(_FORBIDDEN) else FAILED,
    )


def _nothing(
    verification: Verification, control_tenant: str, writer: Replica, reader: Replica
) -> Check:
    """Of a prompt that one tenant stored, another one finds nothing."""
    name = f"{writer.name} > {reader.name}: another tenant"
    hits, others = 0, False
    try:
        for _ in range(_ATTEMPTS):
            prompt = verification.fresh_prompt()
            verification.ask(writer.engine_url, prompt)
            await_stored(
                writer, None, 0, seconds=verification.settings.store_seconds, say=verification.say
            )
            before = engine_page(reader)
            verification.say(f"{reader.name} is asked for it by another tenant")
            answer = verification.ask_as(control_tenant, reader.engine_url, prompt)
            after = settled_pages([reader], {reader.name: before}, answer.prompt_tokens)[
                reader.name
            ]
            hits = sum(delta(before, after, which) for which in (LOCAL_HITS, EXTERNAL_HITS))
            others = delta(before, after, PROMPT_TOKENS) > answer.prompt_tokens
            if not (hits and others):
                break
    except UnreachableError as error:
        return Check(name=name, measured=str(error), wanted="an answer", verdict=FAILED)
    return Check(
        name=name,
        measured=f"{hits} tokens from a cache" + (", and others' requests" if others else ""),
        wanted="0 tokens",
        verdict=FAILED if hits else OK,
    )
