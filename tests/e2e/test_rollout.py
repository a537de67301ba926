"""Engines that are replaced one after the other, as rendered: no request is lost, none waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.e2e.replicas import generated, generating, prompt
from tests.e2e.rollout import answer_of, clients
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

LONG_TOKENS = 500

SOON_SECONDS = 25.0
"""For the notice, a short answer and two programs' ends on two busy cores; the grace is 635."""


def test_a_rollout_under_load_loses_nothing(system: LocalSystem, measured: Measure) -> None:
    before = generated(system)
    long = partial(answer_of, system, prompt("long answer", 600), tokens=LONG_TOKENS, stream=True)
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending = pool.submit(long)
        busy = generating(system, before)
        with clients(system, count=2, tokens=24) as tally:
            first = system.roll(busy.name)
            assert pending.done(), "its engine ended before its answer"
            (other,) = (one.name for one in system.target.replicas if one.name != busy.name)
            second = system.roll(other)
        assert pending.result() == LONG_TOKENS
    assert tally.lost == []
    assert tally.answered > 20, tally
    assert second < SOON_SECONDS < system.pods[other].pod.grace_seconds
    measured("roll-out under load, requests lost", f"0 of {tally.answered + 1}")
    measured(f"roll-out, engine with a stream of {LONG_TOKENS} tokens gone after", f"{first:.1f} s")
    measured("roll-out, engine with short answers gone after", f"{second:.1f} s")
