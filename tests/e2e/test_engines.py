"""Engines that are killed, and everything with them: an error or a recompute, then hits again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

from tests.e2e.replicas import (
    HIT_TOKENS,
    Outcome,
    attempt,
    compute_and_store,
    container,
    generated,
    generating,
    hits_of,
    in_background,
    prompt,
    was_down,
    worst,
)
from tests.e2e.routed import home_of, post, string
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]


def test_an_engine_killed_in_mid_answer_is_an_error_and_others_go_on(
    system: LocalSystem, measured: Measure
) -> None:
    """Its own prefix, too, is answered at once: as a stream by the one, by the other without."""
    router = system.target.router_url
    assert router is not None
    text = prompt("killed engine", 2600)
    known = home_of(system, string, text)
    before = generated(system)
    pool, (pending,) = in_background([partial(attempt, system, router, text, tokens=3000)])
    with pool:
        home = generating(system, before)
        assert home == known, "by its prefix"
        container(system, home, "vllm").signal_all(signal.SIGKILL)
        turns = [attempt(system, router, f"{text} turn 0")]
        turns += [whole(system, router, f"{text} turn {n}") for n in range(1, 3)]
        turns.append(attempt(system, router, f"{text} turn 3"))
        lost = pending.result()
        assert lost.answer is None
        meanwhile = [attempt(system, router, prompt(f"meanwhile {n}", 300)) for n in range(6)]
    assert [outcome.error for outcome in turns] == [""] * 4
    assert [outcome.error for outcome in meanwhile] == [""] * 6
    was_down(system, "vllm", home)
    measured(
        "engine killed, its own prefix asked at once, with and without streaming",
        f"4 of 4 answered, {worst(turns):.1f} s at most",
    )
    measured("engine killed, its client has an error after", f"{lost.seconds:.1f} s")
    measured(
        "engine killed, others through the router",
        f"6 of 6 answered, {worst(meanwhile):.1f} s at most",
    )


def whole(system: LocalSystem, url: str, text: str) -> Outcome:
    """Ask without streaming, with an error for what comes to no answer."""
    begun = time.monotonic()
    error = ""
    try:
        post(system, url, string, text)
    except OSError as failure:
        error = str(failure)
    return Outcome(answer=None, error=error, seconds=time.monotonic() - begun)


def test_everything_restarted_still_hits(local: LocalSystem, measured: Measure) -> None:
    """What L2 holds outlives every process; an engine that is just dying does not matter."""
    alive = next(r for r in local.target.replicas if local.pods[r.name].ready)
    text = prompt("before the restart")
    computed = compute_and_store(local, alive, text)
    local.restart()
    for replica in local.target.replicas:
        answer, hits = hits_of(local, replica, text)
        assert hits == HIT_TOKENS, f"the first prompt of {replica.name} hits"
        assert answer.token_ids == computed.token_ids
    measured("everything restarted", f"first prompt {hits:.0f} of {HIT_TOKENS} tokens from L2")
