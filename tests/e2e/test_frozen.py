"""An engine that is there and answers nobody; the last tests, since they leave one starting."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

import psutil

from kascade.programs.verify.client import get_text
from tests.e2e.replicas import (
    ask,
    attempt,
    container,
    generated,
    generating,
    healthy_engines,
    in_background,
    prompt,
    was_down,
    worst,
)
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

LEFT_OUT_SECONDS = 60.0


def test_a_frozen_core_is_left_out_and_its_engine_restarted(
    system: LocalSystem, measured: Measure
) -> None:
    """Its API server goes on answering, as vLLM's own health check would for ever."""
    router = system.target.router_url
    assert router is not None
    before = generated(system)
    pool, (pending,) = in_background(
        [partial(attempt, system, router, prompt("frozen core", 600), tokens=3000)]
    )
    with pool:
        home = generating(system, before)
        engine = container(system, home, "vllm")
        restarts = engine.restarts
        (core,) = (
            child
            for child in psutil.Process(engine.pid).children(recursive=True)
            if "EngineCore" in " ".join((child.name(), *child.cmdline()))
        )
        core.suspend()
        frozen_at = time.monotonic()
        assert "vllm:num_requests_running" in get_text(f"{home.engine_url}/metrics")
        system.wait_for(
            lambda: healthy_engines(system) == 1,
            "the router leaves it out",
            seconds=LEFT_OUT_SECONDS,
        )
        left_out = time.monotonic() - frozen_at
        meanwhile = [attempt(system, router, prompt(f"core {n}", 300)) for n in range(5)]
        system.wait_for(
            lambda: engine.restarts > restarts, "its container is restarted", seconds=60
        )
        restarted = time.monotonic() - frozen_at
        held = pending.result()
    assert [outcome.error for outcome in meanwhile] == [""] * 5
    assert held.answer is None
    assert "/health failed" in engine.reasons[-1]
    measured("core frozen, left out by the router after", f"{left_out:.1f} s")
    measured("core frozen, its container restarted after", f"{restarted:.1f} s")
    measured("core frozen, others from then on", f"5 of 5, {worst(meanwhile):.1f} s at most")


def test_a_frozen_engine_is_left_out_and_ended(system: LocalSystem, measured: Measure) -> None:
    router = system.target.router_url
    assert router is not None
    text = prompt("frozen engine", 2600)
    before = generated(system)
    expected = ask(system, router, text)
    home = generating(system, before)
    engine = container(system, home, "vllm")
    engine.signal_all(signal.SIGSTOP)
    frozen_at = time.monotonic()
    pool, (pending,) = in_background([partial(attempt, system, router, text)])
    with pool:
        system.wait_for(
            lambda: healthy_engines(system) == 1, "the router leaves it out", seconds=30
        )
        left_out = time.monotonic() - frozen_at
        meanwhile = [attempt(system, router, prompt(f"thaw {n}", 300)) for n in range(5)]
        held = pending.result()
    assert [outcome.error for outcome in meanwhile] == [""] * 5
    assert held.seconds > left_out, "it was the frozen one that had taken it"
    if held.answer is not None:
        assert held.answer.token_ids == expected.token_ids
    assert "/health failed" in engine.reasons[-1]
    was_down(system, "vllm", home)
    ended = "the right answer" if held.answer is not None else "an error"
    measured("engine frozen, what it had taken", f"{ended} after {held.seconds:.1f} s")
    measured("engine frozen, left out by the router after", f"{left_out:.1f} s")
    measured("engine frozen, others from then on", f"5 of 5, {worst(meanwhile):.1f} s at most")
