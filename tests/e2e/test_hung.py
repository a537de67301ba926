"""A disk that answers nobody: what waits for it is held until the router's deadline, no longer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from kascade.programs.verify.client import UnreachableError
from kascade.programs.verify.target import Replica
from tests.e2e.disk import chunk_files
from tests.e2e.replicas import (
    attempt,
    compute_and_store,
    counter,
    healthy_engines,
    hits_of,
    in_background,
    prompt,
    wait_for_restart,
    worst,
)
from tests.e2e.routed import home_of, string
from tools.local.kubelet import RunningContainer
from tools.local.pods import Container
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

REQUESTS = 3

DEADLINE_SECONDS = 15
"""In place of the hour that a request may take by default."""


def test_a_hung_read_is_held_until_the_routers_deadline(
    system: LocalSystem, measured: Measure
) -> None:
    router = system.target.router_url
    assert router is not None
    with impatient_router(system):
        # An idle router that knows nothing of a prompt sends it there, where it has to be read.
        other = home_of(system, string, prompt("where do ties go to?", 600))
        (one,) = (replica for replica in system.target.replicas if replica.name != other.name)
        known = chunk_files(system)
        text = prompt("hung read", 2600)
        computed = compute_and_store(system, one, text)
        with hanging(min(chunk_files(system) - known)):
            pool, pending = in_background([partial(attempt, system, router, text)] * REQUESTS)
            with pool:
                system.wait_for(lambda: reads(other) >= 1, "a read is seen to be open", seconds=10)
                meanwhile = [
                    attempt(system, replica.engine_url, prompt(f"beside {replica.name}", 600))
                    for replica in (one, other)
                ]
                outcomes = [request.result() for request in pending]
    served = [outcome.answer for outcome in outcomes if outcome.answer is not None]
    held = [outcome.seconds for outcome in outcomes if outcome.answer is None]
    assert held
    assert all(answer.token_ids == computed.token_ids for answer in served)
    assert DEADLINE_SECONDS <= min(held) <= max(held) < DEADLINE_SECONDS + 10
    assert [outcome.error for outcome in meanwhile] == ["", ""]
    measured("a read hangs, its client has an error after", f"{max(held):.1f} s")
    measured("a read hangs, others meanwhile", f"2 of 2, {worst(meanwhile):.1f} s at most")

    # The read has ended, and that replica takes blocks from L2 as before.
    text = prompt("after the hung read", 2600)
    computed = compute_and_store(system, one, text)
    answer, hits = hits_of(system, other, text)
    assert answer.token_ids == computed.token_ids
    chunk = system.target.chunk_size
    assert hits == len(text) // chunk * chunk
    measured("a read hung, taken from L2 by that replica afterwards", f"{hits:.0f} tokens")


def reads(replica: Replica) -> float:
    """Loads from L2 that have not come to an end."""
    return counter(replica.lmcache_url, "lmcache_mp_active_prefetch_jobs")


@contextmanager
def impatient_router(system: LocalSystem) -> Iterator[None]:
    """Let the router give no request long."""
    (router,) = (
        pod.containers["router"] for pod in system.pods.values() if "router" in pod.containers
    )
    rendered = router.container
    flag = "--request-timeout-secs"
    kept = [word for word in rendered.argv if word.partition("=")[0] != flag]
    assert len(kept) == len(rendered.argv) - 1
    _run(system, router, replace(rendered, argv=(*kept, f"{flag}={DEADLINE_SECONDS}")))
    try:
        yield
    finally:
        _run(system, router, rendered)


def _run(system: LocalSystem, router: RunningContainer, container: Container) -> None:
    restarts = router.restarts
    router.replace(container)
    wait_for_restart(system, router, restarts)
    system.wait_for(partial(_knows_both, system), "the router knows both engines", seconds=30)


def _knows_both(system: LocalSystem) -> bool:
    """Whether it would send a request to either; it is ready as soon as it knows one."""
    try:
        return healthy_engines(system) == len(system.engines)
    except UnreachableError:
        return False


@contextmanager
def hanging(path: Path) -> Iterator[None]:
    """Let whoever opens a file wait until the end: a pipe that nobody writes to is in its place."""
    kept = path.with_suffix(".kept")
    path.rename(kept)
    os.mkfifo(path)
    try:
        yield
    finally:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        kept.replace(path)
