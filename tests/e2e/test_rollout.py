"""Engines that are replaced one after the other, as rendered: no request is lost, none waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.e2e.replicas import generated, generating, prompt
from tests.e2e.rollout import answer_of, clients
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

LONG_SECONDS = 20.0
"""Of an answer that its engine has to end: several times the notice."""

SOON_SECONDS = 60.0
"""For the notice, a short answer and the ends of two programs on two busy cores. vLLM alone took 10
to 15 s from SIGTERM on; the grace is 635."""


def test_a_rollout_under_load_loses_nothing(system: LocalSystem, measured: Measure) -> None:
    begun = time.monotonic()
    answer_of(system, prompt("how quick", 300), tokens=40, stream=True)
    tokens = max(40, int(40 * LONG_SECONDS / (time.monotonic() - begun)))
    before = generated(system)
    long = partial(answer_of, system, prompt("long answer", 600), tokens=tokens, stream=True)
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending = pool.submit(long)
        ended: list[float] = []
        pending.add_done_callback(lambda _: ended.append(time.monotonic()))
        busy = generating(system, before)
        with clients(system, count=2, tokens=24) as tally:
            asked = time.monotonic()
            first = system.roll(busy.name)
            (other,) = (one.name for one in system.target.replicas if one.name != busy.name)
            second = system.roll(other)
        assert pending.result() == tokens
        notice = system.deployment.plan.engines[0].notice_seconds
        assert ended[0] - asked > notice, "its engine was asked to end long before"
    assert tally.lost == []
    assert tally.answered > 20, tally
    assert second < SOON_SECONDS < system.pods[other].pod.grace_seconds
    measured("roll-out under load, requests lost", f"0 of {tally.answered + 1}")
    measured(f"roll-out, engine with a stream of {tokens} tokens gone after", f"{first:.1f} s")
    measured("roll-out, engine with short answers gone after", f"{second:.1f} s")
