"""Asks the replicas of the running deployment, within a deadline, and reads their counters."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from kascade.programs.verify.client import Answer, UnreachableError, complete, get_text
from kascade.programs.verify.metrics import parse
from kascade.programs.verify.target import Replica
from tools.local.kubelet import RunningContainer
from tools.local.system import LocalSystem

DEADLINE_SECONDS = 90.0
"""Until every request must have an answer or an error, whatever is broken."""

HIT_TOKENS = 5888
"""Whole chunks of 256 tokens in a prompt of 6000."""

PROMPT_TOKENS = 6000


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the table that a run ends with."""

    what: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one request ended: with an answer or with an error, after so many seconds."""

    answer: Answer | None
    error: str
    seconds: float


def prompt(name: str, tokens: int = PROMPT_TOKENS) -> str:
    """Return a text of so many tokens that no other name gives: the tokenizer has one a letter."""
    chance = random.Random(name)  # noqa: S311 - not for secrets
    return "".join(chance.choices(string.ascii_lowercase + "     ", k=tokens))


def ask(system: LocalSystem, url: str, text: str, *, tokens: int = 8) -> Answer:
    """Ask for a completion that has to succeed."""
    return complete(
        url, model=system.target.model, prompt=text, tokens=tokens, seconds=DEADLINE_SECONDS
    )


def attempt(system: LocalSystem, url: str, text: str, *, tokens: int = 8) -> Outcome:
    """Ask for a completion that may fail, but has to end within the deadline."""
    begun = time.monotonic()
    try:
        answer, error = ask(system, url, text, tokens=tokens), ""
    except UnreachableError as failure:
        answer, error = None, str(failure)
    seconds = time.monotonic() - begun
    assert seconds < DEADLINE_SECONDS, f"no end within the deadline: {error}"
    return Outcome(answer=answer, error=error, seconds=seconds)


def in_background(
    asks: Sequence[Callable[[], Outcome]],
) -> tuple[ThreadPoolExecutor, list[Future[Outcome]]]:
    """Begin some requests at once."""
    pool = ThreadPoolExecutor(max_workers=len(asks))
    return pool, [pool.submit(one) for one in asks]


def counter(url: str, name: str, **labels: str) -> float:
    """Read one counter of a metrics page."""
    return parse(get_text(f"{url}/metrics")).total(name, **labels)


def external_hits(replica: Replica) -> float:
    """Tokens that vLLM took from LMCache so far."""
    return counter(replica.engine_url, "vllm:external_prefix_cache_hits_total")


def stored_chunks(replica: Replica) -> float:
    """Chunks that an LMCache server has written to L2 so far."""
    return counter(replica.lmcache_url, "lmcache_mp_l2_store_completed_objects_chunks_total")


def compute_and_store(system: LocalSystem, replica: Replica, text: str) -> Answer:
    """Let a replica compute a prompt, and wait until all its whole chunks lie in L2."""
    before = stored_chunks(replica)
    answer = ask(system, replica.engine_url, text)
    chunks = len(text) // system.target.chunk_size
    system.wait_for(
        lambda: stored_chunks(replica) - before >= chunks,
        f"{replica.name} has stored {chunks} chunks",
        seconds=30,
    )
    return answer


def hits_of(system: LocalSystem, replica: Replica, text: str) -> tuple[Answer, float]:
    """Ask a replica, and say how many tokens it took from LMCache for it."""
    before = external_hits(replica)
    answer = ask(system, replica.engine_url, text)
    return answer, external_hits(replica) - before


def wait_for_hits(system: LocalSystem, replica: Replica, name: str) -> float:
    """Wait until a replica takes prompts that another one stored; return the seconds.

    An engine finds a restarted LMCache server by its next heartbeat, so the first prompts may still
    be recomputed.
    """
    other = next(one for one in system.target.replicas if one.name != replica.name)
    begun = time.monotonic()
    for number in range(30):
        text = prompt(f"{name} {number}", 700)
        compute_and_store(system, other, text)
        if hits_of(system, replica, text)[1] > 0:
            return time.monotonic() - begun
        time.sleep(1)
    msg = f"{replica.name} takes nothing that {other.name} stored"
    raise AssertionError(msg)


def container(system: LocalSystem, replica: Replica, name: str) -> RunningContainer:
    """Return a running container of a replica."""
    return system.pods[replica.name].containers[name]


def wait_for_restart(system: LocalSystem, running: RunningContainer, before: int) -> None:
    """Wait until a container has been started again and its startup probe succeeds."""
    what = f"{running.container.name} is up again"
    system.wait_for(lambda: running.restarts > before and running.started, what, seconds=120)
