from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kascade.programs.verify import counters, verification
from tests.unit.programs.fakes import FakeReplica, FakeServer, FakeSystem


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as little as a fake needs."""
    monkeypatch.setattr(counters, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(counters, "_STEADY_SECONDS", 0.03)
    for module in (counters, verification):
        monkeypatch.setattr(module, "SETTLE_SECONDS", 0.2)


@pytest.fixture
def system(quick: None) -> Iterator[Callable[..., FakeSystem]]:  # noqa: ARG001 - for its effect
    """Start two replicas; keyword arguments change the second one."""
    running: list[FakeServer] = []

    def start(*, in_turn: bool = False, learns: bool = True, **second: Any) -> FakeSystem:
        shared: set[str] = second.pop("shared", set())
        a = FakeReplica(name="pod-a", l2=shared)
        b = FakeReplica(**{"name": "pod-b", "l2": shared} | second)
        servers = [FakeServer(a), FakeServer(b)]
        router = FakeServer(a, b, in_turn=in_turn, learns=learns)
        running.extend([*servers, router])
        return FakeSystem([a, b], servers, router)

    yield start
    for server in running:
        server.end()
