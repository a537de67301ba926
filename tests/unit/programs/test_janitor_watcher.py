"""The process that never touches the mount: what it does about one that hangs, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

import kascade.programs.janitor
from kascade.programs.janitor import watcher as watcher_module
from kascade.programs.janitor.process import RoundProcess
from kascade.programs.janitor.report import Order, Report
from kascade.programs.janitor.server import serve
from kascade.programs.janitor.settings import JanitorSettings
from kascade.programs.janitor.watcher import Watcher
from kascade.programs.verify.client import UnreachableError, get_text
from kascade.programs.verify.metrics import parse
from tests.unit.programs.shared_directory import MARKER, Shared
from tools.janitor_soak import Load, soak
from tools.servers import free_ports

PROGRAMS = Path(kascade.programs.janitor.__file__).parents[1]


def arguments(directory: Path, **flags: object) -> list[str]:
    given = {
        "directory": directory,
        "marker": MARKER,
        "high_bytes": 1000,
        "low_bytes": 500,
        "interval_seconds": 0.1,
        "step_seconds": 3,
        **flags,
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]


def watching(directory: Path, **flags: object) -> Watcher:
    from kascade.programs.janitor.settings import settings

    words = arguments(directory, **flags)
    return Watcher(settings(words), words)


def until(watcher: Watcher, fact: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, watcher.tally.page()
        watcher.step()
        time.sleep(0.02)


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def slow(shared: Shared, **flags: object) -> Watcher:
    """A round that rests for seconds after each entry, and can be stopped meanwhile."""
    for number in range(5):
        shared.file(f"{number}.data")
    return watching(shared.path, page=1, pause_seconds=0.5, **flags)


@pytest.fixture
def stopped(shared: Shared) -> Iterator[Watcher]:
    """A watcher whose round stands still, as on a mount that does not answer."""
    watcher = slow(shared)
    until(watcher, lambda: watcher.running is not None)
    running = watcher.running
    assert running is not None
    os.kill(running.pid, signal.SIGSTOP)
    yield watcher
    watcher.stop()
    psutil.Process(running.pid).wait(5) if psutil.pid_exists(running.pid) else None


def test_rounds_follow_one_another(shared: Shared) -> None:
    for number in range(11):
        shared.file(f"{number}.data")
    watcher = watching(shared.path)
    until(watcher, lambda: watcher.tally.rounds["success"] >= 2)
    watcher.stop()
    page = parse(watcher.tally.page())
    assert page.total("kascade_janitor_bytes") == 500
    assert page.total("kascade_janitor_deleted_files_total", reason="mark") == 6
    assert page.total("kascade_janitor_deleted_bytes_total", reason="mark") == 600
    assert page.total("kascade_janitor_last_success_timestamp_seconds") > time.time() - 60
    assert page.total("kascade_janitor_round_peak_rss_bytes") > 1_000_000
    assert page.total("kascade_janitor_rounds_total", result="failed") == 0


def test_a_round_that_stands_still_is_given_up_and_replaced(stopped: Watcher) -> None:
    until(stopped, lambda: stopped.tally.rounds["stuck"] == 1)
    until(stopped, lambda: stopped.tally.rounds["success"] == 1, 30)
    assert stopped.tally.stuck is False


def test_none_is_started_beside_one_that_cannot_be_ended(
    stopped: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even SIGKILL ends a process in an uninterruptible system call."""
    kill = RoundProcess.kill
    monkeypatch.setattr(RoundProcess, "kill", lambda _: None)
    until(stopped, lambda: stopped.tally.stuck)
    running = stopped.running
    begun = time.monotonic()
    until(stopped, lambda: time.monotonic() - begun > 3)
    assert stopped.running is running
    assert stopped.tally.rounds == {"success": 0, "failed": 0, "stuck": 1}
    assert "kascade_janitor_stuck 1\n" in stopped.tally.page()
    children = [one for one in psutil.Process().children() if "--as-a-round" in one.cmdline()]
    assert [one.pid for one in children] == [running.pid if running else None]
    assert running is not None
    kill(running)
    until(stopped, lambda: not stopped.tally.stuck)
    assert stopped.tally.rounds["stuck"] == 1


def test_a_slow_round_that_moves_is_not_stuck(shared: Shared) -> None:
    watcher = slow(shared)
    until(watcher, lambda: watcher.tally.rounds["success"] == 1)
    watcher.stop()
    assert watcher.tally.round_seconds > 2.5
    assert watcher.tally.rounds["stuck"] == 0


def test_a_round_that_dies_counts_as_failed(shared: Shared) -> None:
    watcher = slow(shared)
    until(watcher, lambda: watcher.running is not None)
    assert watcher.running is not None
    watcher.running.kill()
    until(watcher, lambda: watcher.tally.rounds["failed"] == 1)
    watcher.stop()
    assert watcher.tally.success_timestamp == 0


def test_a_wrong_directory_fails_every_round(
    shared: Shared, capfd: pytest.CaptureFixture[str]
) -> None:
    (shared.path / MARKER).unlink()
    watcher = watching(shared.path)
    until(watcher, lambda: watcher.tally.rounds["failed"] == 2)
    watcher.stop()
    assert watcher.tally.errors["guard"] == 2
    assert f"has no {MARKER}" in capfd.readouterr().err


# --- What it remembers from round to round --------------------------------------------------------


class Told:
    """Stands in for a round: notes its order, and tells a prepared report."""

    orders: ClassVar[list[Order]]
    reports: ClassVar[list[Report]]
    stuck = False
    seconds = 0.0

    def __init__(self, _: JanitorSettings, __: object, order: Order) -> None:
        self.orders.append(order)
        self.report = replace(self.reports.pop(0), done=True)

    def ended(self) -> bool:
        return True


def orders_of(monkeypatch: pytest.MonkeyPatch, *reports: Report, **flags: Any) -> list[Order]:
    fake: type[Told] = type("Fake", (Told,), {"orders": [], "reports": list(reports)})
    monkeypatch.setattr(watcher_module, "RoundProcess", fake)
    watcher = watching(Path("/nowhere"), interval_seconds=0, **flags)
    while fake.reports or watcher.running is not None:
        watcher.step()
    return fake.orders


def test_unreadable_files_ripen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Report(files=1000, unreadable=["bad"])
    young = orders_of(monkeypatch, found, found, found)
    assert [order.known for order in young] == [(), ("bad",), ("bad",)]
    assert [order.ripe for order in young] == [(), (), ()]
    ripe = orders_of(
        monkeypatch, found, Report(files=1000, cleared=["bad"]), Report(), unreadable_seconds=0
    )
    assert [order.ripe for order in ripe] == [(), ("bad",), ()]


def test_a_bad_file_makes_it_look_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = orders_of(monkeypatch, Report(files=9000, unreadable=["bad"]), Report())
    assert (first.probes, second.probes) == (200, 2000)
    assert second.parts == 5


def test_a_full_disk_is_remembered_for_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = orders_of(monkeypatch, Report(disk_full=True), Report(), Report())
    assert [order.disk_was_full for order in orders] == [False, True, False]


def test_what_a_round_saw_short_is_told_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not by one that could not look: what it did not see may be there."""
    seen = Report(short={"a": 7}, whole={"0x01000100@0": 100})
    blind = Report(refused="no mount")
    orders = orders_of(monkeypatch, seen, blind, Report(), Report())
    assert [order.short for order in orders] == [{}, {"a": 7}, {"a": 7}, {}]
    assert [order.whole for order in orders][1:3] == [{"0x01000100@0": 100}] * 2


def test_parts_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = orders_of(monkeypatch, *[Report(files=800)] * 5)
    assert {order.part % order.parts for order in orders[1:]} == {0, 1, 2, 3}


# --- The program ----------------------------------------------------------------------------------


def test_health_asks_the_watcher_and_not_the_mount() -> None:
    watcher = watching(Path("/nowhere"))
    server = serve(watcher.tally, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert get_text(f"{url}/healthz") == "ok\n"
        assert get_text(f"{url}/metrics") == watcher.tally.page()
        watcher.tally.beat -= 31
        for path in ("/healthz", "/other"):
            with pytest.raises(UnreachableError):
                get_text(f"{url}{path}")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("frozen", [False, True])
def test_it_ends_within_two_seconds(shared: Shared, frozen: bool) -> None:
    """Whatever its round does; and the round does not outlive it."""
    for number in range(5):
        shared.file(f"{number}.data")
    (port,) = free_ports(1)
    words = arguments(shared.path, page=1, pause_seconds=5, step_seconds=60, port=port)
    program = subprocess.Popen(
        [sys.executable, "-m", "janitor", *words],
        env={**os.environ, "PYTHONPATH": str(PROGRAMS)},
    )
    try:
        own = psutil.Process(program.pid)
        deadline = time.monotonic() + 15
        while not own.children():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (child,) = own.children()
        if frozen:
            child.suspend()
        time.sleep(0.3)
        assert get_text(f"http://127.0.0.1:{port}/healthz") == "ok\n"
        program.terminate()
        assert program.wait(2) == 0
        psutil.wait_procs([child], 2)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    finally:
        program.kill()


def test_writers_lose_nothing_fresh(tmp_path: Path) -> None:
    """The soak in small: real processes on a real disk; `make janitor-soak` runs it for long."""
    result = soak(
        tmp_path,
        Load(
            files=3000,
            writers=3,
            files_per_second=60,
            seconds=6,
            fresh_seconds=3,
            interval_seconds=0.5,
        ),
    )
    assert result.checked >= 100
    assert result.deleted_files > 200
    assert result.dead_directories >= 1
