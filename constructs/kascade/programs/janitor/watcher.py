"""Starts one round after another, never two, and never waits for one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final

from .process import RoundProcess
from .report import Order, Report
from .settings import JanitorSettings
from .tally import Tally

MOST_SUSPECTS: Final = 5000
"""Unreadable files to remember, about 1 MB; more are found again once these are gone."""

SEARCH: Final = 10
"""Times as many files are read of while there are suspects: a lost worker has many."""


class Watcher:
    """Keeps rounds going.

    Attributes:
        tally: What they came to.
        running: The round that runs or is stuck.
    """

    def __init__(self, settings: JanitorSettings, arguments: Sequence[str]) -> None:
        """Prepare the first round; ``step`` starts it.

        Args:
            settings: What to keep to.
            arguments: The same, as the command line has it.
        """
        self.tally = Tally(settings=settings)
        self.running: RoundProcess | None = None
        self._settings, self._arguments = settings, arguments
        self._next = time.monotonic()
        self._number = 0
        self._disk_was_full = False
        self._suspects: dict[str, float] = {}
        self._short: dict[str, int] = {}
        self._whole: dict[str, int] = {}

    def step(self) -> None:
        """Look after the running round, or start one if it is time. Returns at once."""
        self.tally.beat = time.monotonic()
        if self.running is None:
            if time.monotonic() >= self._next:
                self.running = RoundProcess(self._settings, self._arguments, self._order())
            return
        was_stuck = self.running.stuck
        if self.running.ended():
            if not was_stuck:
                self._finish(self.running)
            self.running, self.tally.stuck = None, False
            self._next = time.monotonic() + self._settings.interval_seconds
        elif self.running.stuck and not was_stuck:
            self.tally.stuck = True
            self._finish(self.running)

    def stop(self) -> None:
        """End what runs, without waiting for it."""
        if self.running is not None:
            self.running.kill()

    def _order(self) -> Order:
        probes = self._settings.probes * (SEARCH if self._suspects else 1)
        ripe_before = time.monotonic() - self._settings.unreadable_seconds
        ripe = tuple(name for name, seen in self._suspects.items() if seen <= ripe_before)
        known = tuple(name for name in self._suspects if name not in {*ripe})
        self._number += 1
        return Order(
            part=self._number,
            parts=max(1, -(-self.tally.last.files // max(1, probes))),
            probes=probes,
            ripe=ripe,
            known=known,
            disk_was_full=self._disk_was_full,
            short=self._short,
            whole=self._whole,
        )

    def _finish(self, ended: RoundProcess) -> None:
        """Take over what a round did, also of one that was stuck or died halfway."""
        report, seconds = ended.report, ended.seconds
        result = "stuck" if ended.stuck else "success" if _is_good(report) else "failed"
        self.tally.add(report, result=result, seconds=seconds)
        self._disk_was_full = report.done and report.disk_full
        if report.done and not report.refused:
            self._short, self._whole = report.short, report.whole
        for name in report.cleared:
            self._suspects.pop(name, None)
        for name in report.unreadable:
            if len(self._suspects) < MOST_SUSPECTS:
                self._suspects.setdefault(name, time.monotonic())
        self.tally.suspects = len(self._suspects)
        _tell(report, result, seconds)


def _is_good(report: Report) -> bool:
    return report.done and not report.refused


def _tell(report: Report, result: str, seconds: float) -> None:
    """Write a line where there is something to read: a round that did nothing is none."""
    deleted = {reason: count for reason, count in report.deleted_files.items() if count}
    errors = {kind: count for kind, count in report.errors.items() if count}
    if result == "success" and not deleted and not errors:
        return
    words = [f"round: {result} after {seconds:.1f} s"]
    if report.refused:
        words.append(report.refused)
    words += [f"{count} files deleted ({reason})" for reason, count in deleted.items()]
    words += [f"{count} errors ({kind})" for kind, count in errors.items()]
    words.append(f"{report.files} files with {report.used_bytes} bytes are left")
    print(", ".join(words), file=sys.stderr, flush=True)  # noqa: T201 - the pod's log
