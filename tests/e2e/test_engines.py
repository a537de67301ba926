"""Engines that are killed, and everything with them: an error or a recompute, then hits again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

from tests.e2e.replicas import (
    HIT_TOKENS,
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
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]


def test_an_engine_killed_in_mid_answer_is_an_error_and_others_go_on(
    system: LocalSystem, measured: Measure
) -> None:
    router = system.target.router_url
    assert router is not None
    text = prompt("killed engine", 2600)
    before = generated(system)
    pool, (pending,) = in_background([partial(attempt, system, router, text, tokens=3000)])
    with pool:
        home = generating(system, before)
        container(system, home, "vllm").signal_all(signal.SIGKILL)
        lost = pending.result()
        assert lost.answer is None
        meanwhile = [attempt(system, router, prompt(f"meanwhile {n}", 300)) for n in range(6)]
    assert [outcome.error for outcome in meanwhile] == [""] * 6
    was_down(system, "vllm", home)
    measured("engine killed, its client has an error after", f"{lost.seconds:.1f} s")
    measured(
        "engine killed, others through the router",
        f"6 of 6 answered, {worst(meanwhile):.1f} s at most",
    )


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
