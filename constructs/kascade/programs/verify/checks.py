"""What is judged, and how: measurements in, lines of the table out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .client import UnreachableError, get_text
from .control_tenant import judge_control_tenant
from .counters import await_stored, engine_page, settled_pages
from .diagnosis import diagnose
from .facts import Facts
from .metrics import parse
from .prompt import whole_chunks
from .reading import EXTERNAL_HITS, LOCAL_HITS, PROMPT_TOKENS, Look, Reading, Seen, delta
from .report import FAILED, OK, OPEN, Check, Diagnosis, Report
from .target import Target
from .verification import Verification, VerifyOptions

STAYING: Final = frozenset({"cache_aware"})
"""Policies of vllm-router that send a prompt where it was before. ``consistent_hash`` does so by a
session id, which a prompt does not carry."""


RENDERING: Final = STAYING
"""Those that ask each engine to render a prompt, to know its tokens."""

UNKNOWN_PREFIXES: Final = "vllm_router_prefix_routing_decisions_total"


def verify(
    target: Target, settings: VerifyOptions, *, look: Look | None, say: Callable[[str], None]
) -> Report:
    """Prove that each replica answers from what its neighbour computed.

    The replicas stand in a ring: each one writes for the next, so all of them store and all of them
    read.

    Args:
        target: The engine.
        settings: How to verify.
        look: Lists the directory of L2 as a replica sees it, or None where nobody can.
        say: Tells a waiting person what happens.

    Raises:
        UnusableError: The verification cannot begin.
    """
    verification = Verification(target, settings, look=look, say=say)
    verification.warm_up()
    checks = [_caches(tuple(verification.facts.values()))]
    diagnoses = []
    ring = target.replicas
    for writer, reader in zip(ring, ring[1:] + ring[:1], strict=True):
        reading = verification.read_what_was_written(writer, reader)
        checks += judge(reading, settings)
        causes = diagnose(reading)
        if causes:
            diagnoses.append(Diagnosis(writer=writer.name, reader=reader.name, causes=causes))
    if target.router_url is not None:
        checks += _router(verification, target.router_url)
    if target.control_tenant is not None:
        checks += judge_control_tenant(verification, target.control_tenant)
    return Report(
        engine=target.engine,
        seed=settings.seed,
        prompt_tokens=verification.prompt_tokens,
        checks=tuple(checks),
        diagnoses=tuple(diagnoses),
    )


def judge(reading: Reading, settings: VerifyOptions) -> Iterator[Check]:
    """Judge one reading.

    Args:
        reading: What was measured.
        settings: How to verify.
    """
    pair = f"{reading.writer.name} > {reading.reader.name}"
    stored = reading.stored
    yield Check(
        name=f"{pair}: stored in L2",
        measured="no answer" if stored is None else f"{stored.completed} chunks",
        wanted=f"{reading.chunks} chunks",
        verdict=_verdict(stored is not None and stored.completed >= reading.chunks),
    )
    if reading.seen is not None:
        yield _one_directory(pair, reading, reading.seen)
    if reading.read is None:
        yield Check(name=f"{pair}: answer", measured="none", wanted="one", verdict=FAILED)
        return
    yield Check(
        name=f"{pair}: taken from L2",
        measured=f"{reading.external_hits} tokens"
        + (", and others' requests" if reading.disturbed else ""),
        wanted=f"{reading.wanted_tokens} tokens",
        # With requests of others among them, the counters say nothing about this one.
        verdict=_verdict(reading.hit and not reading.disturbed),
    )
    equal = sum(
        a == b for a, b in zip(reading.wrote.token_ids, reading.read.token_ids, strict=False)
    )
    yield Check(
        name=f"{pair}: same answer",
        measured=f"{equal} equal token ids",
        wanted=f"{len(reading.wrote.token_ids)}",
        verdict=_verdict(reading.same_tokens),
    )
    first, second = reading.wrote.ttft_seconds, reading.read.ttft_seconds
    limit = settings.ttft_ratio if reading.hit else None
    yield Check(
        name=f"{pair}: first token",
        measured=f"{second:.2f} s / {first:.2f} s = {second / first:.2f}",
        wanted=f"below {limit:g}" if limit else "(not judged)" if reading.hit else "(no hit)",
        verdict=OPEN if limit is None else _verdict(second / first < limit),
    )


def _verdict(passed: bool) -> str:
    return OK if passed else FAILED


def _caches(everyone: tuple[Facts, ...]) -> Check:
    """Judge whether every LMCache server answers, is healthy, and has its engine."""
    fine = [f.name for f in everyone if f.cache and f.cache.healthy and f.cache.engines]
    return Check(
        name="LMCache servers with their engine",
        measured=f"{len(fine)} healthy",
        wanted=f"{len(everyone)}",
        verdict=_verdict(len(fine) == len(everyone)),
    )


def _one_directory(pair: str, reading: Reading, seen: Seen) -> Check:
    """Judge whether the writer's files appear where the reader looks.

    Beside them must be the directory that the writer publishes them from. Those of other servers
    are shown only: they expire where nothing was stored for long.
    """
    tmp_dir = reading.writer.cache.tmp_dir if reading.writer.cache else ""
    new, servers = seen.new_chunks, len(seen.after.tmp_dirs)
    return Check(
        name=f"{pair}: one directory",
        measured=f"{new} new files, {servers} servers",
        wanted=f"{reading.chunks} new files",
        verdict=_verdict(new >= reading.chunks and tmp_dir in seen.after.tmp_dirs),
    )


@dataclass(frozen=True, slots=True)
class _Landing:
    """Where a request through the router went, and how much of it was cached there."""

    replica: str
    cached: int
    tokens: int


def _router(verification: Verification, url: str) -> Iterator[Check]:
    """Send one prompt through the router twice."""
    policy = verification.settings.router_policy
    name = f"router ({policy})" if policy else "router"
    try:
        prompt = verification.fresh_prompt()
        first = _land(verification, url, prompt)
        for replica in verification.target.replicas:
            if replica.name == first.replica:
                # LMCache stores after the answer; only then may another replica be expected to
                # find it.
                await_stored(
                    replica,
                    None,
                    0,
                    seconds=verification.settings.store_seconds,
                    say=verification.say,
                )
        second = _land(verification, url, prompt)
    except UnreachableError as error:
        yield Check(name=f"{name}: answer", measured=str(error), wanted="two", verdict=FAILED)
        return
    if policy in RENDERING and verification.target.router_metrics_url is not None:
        yield _known(verification, url, name, verification.target.router_metrics_url)
    chunk = verification.target.chunk_size
    wanted = whole_chunks(second.tokens, chunk) * chunk
    staying = policy in STAYING
    yield Check(
        name=f"{name}: a prompt stays",
        measured=f"{first.replica}, {second.replica}",
        wanted="one replica" if staying else "(not expected)" if policy else "(policy unknown)",
        verdict=_verdict(first.replica == second.replica) if staying else OPEN,
    )
    yield Check(
        name=f"{name}: its repeat is cached",
        measured=f"{second.cached} tokens",
        wanted=f"{wanted} tokens",
        verdict=_verdict(second.cached >= wanted),
    )


def _known(verification: Verification, url: str, name: str, metrics_url: str) -> Check:
    """Judge whether the router learns the tokens of a chat.

    Where it does not, it sends every prompt to the least loaded replica, and a quiet system's is
    always the same one: so that prompts stay does not show it.
    """
    title, wanted = f"{name}: it knows a chat's tokens", "missing_tokens 0"
    try:
        before = _unknown(metrics_url)
        verification.say("sending a chat through the router")
        verification.chat(url)
        missing = _unknown(metrics_url) - before
    except UnreachableError as error:
        return Check(name=title, measured=str(error), wanted=wanted, verdict=FAILED)
    measured = f"missing_tokens {missing:g}"
    if missing:
        measured += "; do engines answer 403 to /render, without --enable-scale-out?"
    return Check(name=title, measured=measured, wanted=wanted, verdict=_verdict(missing == 0))


def _unknown(metrics_url: str) -> float:
    return parse(get_text(metrics_url)).total(UNKNOWN_PREFIXES, outcome="missing_tokens")


def _land(verification: Verification, url: str, prompt: str) -> _Landing:
    """Send a prompt through the router, and find the replica whose counters moved by it."""
    replicas = verification.target.replicas
    before = {replica.name: engine_page(replica) for replica in replicas}
    verification.say("sending a prompt through the router")
    answer = verification.ask(url, prompt)
    pages = settled_pages(replicas, before, answer.prompt_tokens)
    name = max(pages, key=lambda each: delta(before[each], pages[each], PROMPT_TOKENS))
    cached = sum(delta(before[name], pages[name], which) for which in (LOCAL_HITS, EXTERNAL_HITS))
    return _Landing(name, cached, answer.prompt_tokens)
