"""What all rounds together came to, as Prometheus reads it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from .report import ERRORS, KEEPING, REASONS, Report
from .settings import JanitorSettings

RESULTS: Final = ("success", "failed", "stuck")
"""How a round may end: as it should, with a mount that is not there or does not answer properly,
or not within its time."""


def _zeros(names: tuple[str, ...]) -> dict[str, int]:
    return dict.fromkeys(names, 0)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums over all rounds, and the last one's figures.

    Attributes:
        stuck: Whether a process is there that was given up.
        suspects: Files that could not be read and wait for their second try.
        beat: When the watcher last went round; the clock that never jumps.
    """

    settings: JanitorSettings
    last: Report = field(default_factory=Report)
    rounds: dict[str, int] = field(default_factory=lambda: _zeros(RESULTS))
    deleted_files: dict[str, int] = field(default_factory=lambda: _zeros(REASONS))
    deleted_bytes: dict[str, int] = field(default_factory=lambda: _zeros(REASONS))
    errors: dict[str, int] = field(default_factory=lambda: _zeros(ERRORS))
    kept_directories: dict[str, int] = field(default_factory=lambda: _zeros(KEEPING))
    probed_files: int = 0
    round_seconds: float = 0.0
    success_timestamp: float = 0.0
    peak_rss_kib: int = 0
    stuck: bool = False
    suspects: int = 0
    beat: float = field(default_factory=time.monotonic)

    def add(self, report: Report, *, result: str, seconds: float) -> None:
        """Add a round that has ended, however it did."""
        for sums, counts in (
            (self.deleted_files, report.deleted_files),
            (self.deleted_bytes, report.deleted_bytes),
            (self.errors, report.errors),
            (self.kept_directories, report.kept_directories),
        ):
            for name, count in counts.items():
                sums[name] += count
        self.rounds[result] += 1
        self.probed_files += report.probed_files
        self.round_seconds = seconds
        self.peak_rss_kib = max(self.peak_rss_kib, report.peak_rss_kib)
        if result == "success":
            self.last = report
            self.success_timestamp = time.time()

    def page(self) -> str:
        """Write the page of metrics."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        last, settings = self.last, self.settings
        gauges: tuple[tuple[str, str, float], ...] = (
            ("bytes", "Size of all cached files after the last good round.", last.used_bytes),
            ("files", "Cached files after the last good round.", last.files),
            ("spared_files", "Of those, too young to be deleted.", last.spared_files),
            ("temp_directories", "Directories of pods.", last.temp_directories),
            ("high_bytes", "Above this the oldest files are deleted.", settings.high_bytes),
            ("low_bytes", "Down to this.", settings.low_bytes),
            ("disk_used_ratio", "Use of the file system, by its own word.", last.disk_used),
            ("suspect_files", "Files that could not be read once.", self.suspects),
            ("short_files", "Files that were not whole once.", len(last.short)),
            ("stuck", "1 while a round is there that was given up.", int(self.stuck)),
            ("round_seconds", "How long the last round took.", self.round_seconds),
            (
                "last_success_timestamp_seconds",
                "When the last good round ended; 0 before it.",
                self.success_timestamp,
            ),
            ("round_peak_rss_bytes", "Most memory of one round.", self.peak_rss_kib * 1024),
        )
        for name, words, value in gauges:
            yield from _family(name, "gauge", words, {"": value})
        yield from _family("probed_files_total", "counter", "Read.", {"": self.probed_files})
        counters: tuple[tuple[str, str, str, Mapping[str, int]], ...] = (
            ("rounds_total", "result", "Rounds by how they ended.", self.rounds),
            ("deleted_files_total", "reason", "Files deleted.", self.deleted_files),
            ("deleted_bytes_total", "reason", "Bytes deleted.", self.deleted_bytes),
            ("errors_total", "kind", "What went wrong in rounds.", self.errors),
            (
                "kept_directories_total",
                "how",
                "Living pods' own directories that were renewed or made.",
                self.kept_directories,
            ),
        )
        for name, label, words, counts in counters:
            labelled = {f'{{{label}="{one}"}}': count for one, count in counts.items()}
            yield from _family(name, "counter", words, labelled)


def _family(name: str, kind: str, words: str, values: Mapping[str, float]) -> Iterator[str]:
    full = f"kascade_janitor_{name}"
    yield f"# HELP {full} {words}"
    yield f"# TYPE {full} {kind}"
    for labels, value in values.items():
        yield f"{full}{labels} {value}"
