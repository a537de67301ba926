"""Asks the replicas of the running deployment, within a deadline, and reads their counters."""

from __future__ import annotations

import random
import string
import time
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kascade.programs.verify.client import Answer, UnreachableError, complete, get_json, get_text
from kascade.programs.verify.metrics import parse
from kascade.programs.verify.target import Replica
from tools.local.kubelet import RunningContainer
from tools.local.pods import Container
from tools.local.system import LocalSystem

DEADLINE_SECONDS = 90.0
"""Until every request must have an answer or an error, whatever is broken."""

HIT_TOKENS = 5888
"""Whole chunks of 256 tokens in a prompt of 6000."""

PROMPT_TOKENS = 6000

SETTLE_SECONDS = 1.0
"""Until a writer that has stored all leaves the cores to the reader; without it reading took 1.0
instead of 0.4 s on two cores."""


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


def local_hits(replica: Replica) -> float:
    """Tokens that vLLM found in L0 so far."""
    return counter(replica.engine_url, "vllm:prefix_cache_hits_total")


def stored_chunks(replica: Replica) -> float:
    """Chunks that an LMCache server has written to L2 so far."""
    return counter(replica.lmcache_url, "lmcache_mp_l2_store_completed_objects_chunks_total")


def compute_and_store(
    system: LocalSystem, replica: Replica, text: str, *, settle: bool = False
) -> Answer:
    """Let a replica compute a prompt, and wait until all its whole chunks lie in L2.

    Args:
        system: The running deployment.
        replica: Who computes.
        text: The prompt.
        settle: Wait a moment longer, where the reader is timed: here it shares the writer's cores.
    """
    before = stored_chunks(replica)
    answer = ask(system, replica.engine_url, text)
    chunks = len(text) // system.target.chunk_size
    system.wait_for(
        lambda: stored_chunks(replica) - before >= chunks,
        f"{replica.name} has stored {chunks} chunks",
        seconds=30,
    )
    if settle:
        time.sleep(SETTLE_SECONDS)
    return answer


def hits_of(system: LocalSystem, replica: Replica, text: str) -> tuple[Answer, float]:
    """Ask a replica, and say how many tokens it took from LMCache for it."""
    before = external_hits(replica)
    answer = ask(system, replica.engine_url, text)
    return answer, external_hits(replica) - before


def wait_for_hits(system: LocalSystem, replica: Replica, name: str) -> float:
    """Wait until a replica takes prompts that another one stored; return the seconds.

    An engine finds a restarted LMCache server by its next heartbeats.
    """
    for one in system.target.replicas:
        wait_until_registered(system, one)
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


def wait_until_registered(system: LocalSystem, replica: Replica) -> None:
    """Wait until a replica's LMCache server knows its engine."""

    def known() -> bool:
        status = get_json(f"{replica.lmcache_url}/status")
        return bool(status["worker_liveness"]["tracked_instances"])

    system.wait_for(known, f"the engine of {replica.name} is registered", seconds=60)


def container(system: LocalSystem, replica: Replica, name: str) -> RunningContainer:
    """Return a running container of a replica."""
    return system.pods[replica.name].containers[name]


def as_rendered(system: LocalSystem, replica: Replica, name: str) -> Container:
    """Return a container as the manifest wants it, whatever runs in its place now."""
    return system.pods[replica.name].pod.container(name)


def wait_for_restart(system: LocalSystem, running: RunningContainer, before: int) -> None:
    """Wait until a container has been started again and its startup probe succeeds."""
    what = f"{running.container.name} is up again"
    system.wait_for(lambda: running.restarts > before and running.started, what, seconds=120)


def asked_prometheus(system: LocalSystem, query: str) -> list[dict[str, Any]]:
    """Return the samples of a query."""
    words = urllib.parse.urlencode({"query": query})
    answer = get_json(f"{system.prometheus_url}/api/v1/query?{words}")
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def prometheus(system: LocalSystem, query: str) -> float | None:
    """Return the value of a query that has one sample, or None where it has none."""
    found = asked_prometheus(system, query)
    return float(found[0]["value"][1]) if found else None


def was_down(system: LocalSystem, job: str, replica: Replica) -> None:
    """Check that Prometheus has seen a scrape fail."""
    query = f'min_over_time(up{{job="{job}",pod="{replica.name}"}}[3m])'
    system.wait_for(lambda: prometheus(system, query) == 0, f"{query} is 0", seconds=20)


def generated(system: LocalSystem) -> dict[str, float]:
    """Tokens that each engine has generated so far."""
    name = "vllm:generation_tokens_total"
    return {r.name: counter(r.engine_url, name) for r in system.target.replicas}


def generating(system: LocalSystem, before: dict[str, float]) -> Replica:
    """Wait until one replica has generated tokens since; return it."""
    found: list[Replica] = []

    def one_is() -> bool:
        now = generated(system)
        found[:] = [
            replica
            for replica in system.target.replicas
            if now[replica.name] > before[replica.name]
        ]
        return bool(found)

    system.wait_for(one_is, "an engine generates tokens", seconds=60)
    return found[0]


def healthy_engines(system: LocalSystem) -> int:
    """Return how many engines the router would send a request to."""
    body = get_json(f"{system.target.router_url}/readiness")
    return int(body["healthy_workers"])


def worst(outcomes: list[Outcome]) -> float:
    """Seconds of the slowest."""
    return max(outcome.seconds for outcome in outcomes)
