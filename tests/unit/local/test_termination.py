"""A pod that is asked to end: its handler, SIGTERM, its sidecar last, and SIGKILL after its grace.

As the kubelet does it, with small programs, since e2e tests of drains stand on it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.local.kubelet import RunningPod, Sandbox
from tools.local.pods import Container, Exec, Pod, Sleep

PROGRAM = """\
import pathlib, signal, sys, time

name, deaf = sys.argv[1], sys.argv[2] == "deaf"

def end(*_):
    pathlib.Path(name + ".asked").write_text(repr(time.time()))
    if not deaf:
        sys.exit(0)

signal.signal(signal.SIGTERM, end)
pathlib.Path(name + ".began").touch()
while True:
    time.sleep(0.05)
"""

HANDLER = """\
import os, pathlib, sys, time

assert os.environ["MINE"] == "yes"
pathlib.Path("handler.began").write_text(repr(time.time()))
time.sleep(float(sys.argv[1]))
pathlib.Path("handler.ended").write_text(repr(time.time()))
"""


def _container(
    name: str, *, how: str = "", sidecar: bool = False, pre_stop: Exec | Sleep | None = None
) -> Container:
    return Container(
        name=name,
        argv=(sys.executable, "-c", PROGRAM, name, how),
        environment={"MINE": "yes"},
        mounts={},
        sidecar=sidecar,
        init=False,
        ports={},
        startup=None,
        readiness=None,
        liveness=None,
        pre_stop=pre_stop,
    )


def _handler(seconds: float) -> Exec:
    return Exec((sys.executable, "-c", HANDLER, str(seconds)))


@contextmanager
def _running(folder: Path, *containers: Container, grace: float) -> Iterator[RunningPod]:
    states: list[bool] = []
    pod = Pod(
        name="pod",
        namespace="n",
        labels={},
        containers=containers,
        volumes={},
        grace_seconds=grace,
        template={},
    )
    running = RunningPod(
        pod,
        address="127.99.8.1",
        sandbox=Sandbox(folder=folder, environment={}, seconds=60),
        changed=lambda changed: states.append(changed.ending),
    )
    try:
        running.start(seconds=10)
        deadline = time.monotonic() + 20
        while not all((folder / f"{one.name}.began").exists() for one in containers):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield running
        assert states[-1] is True, "whoever watches pods is told"
        assert running.containers == {}
    finally:
        running.stop()


def _at(folder: Path, what: str) -> float:
    return float((folder / what).read_text())


def _seconds(running: RunningPod) -> float:
    begun = time.monotonic()
    running.terminate()
    return time.monotonic() - begun


def test_handler_then_engine_then_sidecar(tmp_path: Path) -> None:
    server = _container("server", sidecar=True)
    engine = _container("engine", pre_stop=_handler(0.3))
    with _running(tmp_path, server, engine, grace=30) as running:
        assert _seconds(running) < 15
    order = [_at(tmp_path, name) for name in ("handler.began", "handler.ended")]
    order += [_at(tmp_path, name) for name in ("engine.asked", "server.asked")]
    assert order == sorted(order)


def test_a_handler_has_the_grace_and_no_more(tmp_path: Path) -> None:
    engine = _container("engine", pre_stop=_handler(30))
    with _running(tmp_path, engine, grace=1) as running:
        assert 1 <= _seconds(running) < 10
    assert not (tmp_path / "handler.ended").exists()
    assert (tmp_path / "engine.asked").exists(), "SIGTERM comes all the same"


@pytest.mark.parametrize("pre_stop", [None, Sleep(0.5)])
def test_a_program_that_ignores_it_is_killed_after_the_grace(
    tmp_path: Path, pre_stop: Sleep | None
) -> None:
    engine = _container("engine", how="deaf", pre_stop=pre_stop)
    with _running(tmp_path, engine, grace=3) as running:
        assert 3 <= _seconds(running) < 12
