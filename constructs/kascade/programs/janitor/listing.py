"""One pass over the directory: sums, and the oldest files, in little memory."""

from __future__ import annotations

import heapq
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from .report import Report
from .settings import JanitorSettings

KEPT: Final = 20_000
"""Oldest files that one pass remembers, about 7 MB with names as LMCache makes them. What does not
fit is found by another pass, so memory does not grow with the directory."""

_NANOSECONDS: Final = 1_000_000_000


class Pace:
    """Rests after each page, and lets the watcher hear that something moves.

    Curvine's master has one lock over the whole directory tree, so neither a listing nor a
    deletion may keep it busy for long.
    """

    def __init__(self, settings: JanitorSettings, say: Callable[[], None]) -> None:
        """Begin.

        Args:
            settings: Size of a page, and the pause.
            say: Told about once a second.
        """
        self._page, self._pause, self._say = settings.page, settings.pause_seconds, say
        self._steps, self._said = 0, time.monotonic()

    def step(self) -> None:
        """Count one system call that has returned."""
        self._steps += 1
        if self._steps % self._page == 0:
            time.sleep(self._pause)
        if time.monotonic() - self._said > 1:
            self._said = time.monotonic()
            self._say()


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A file, ordered by age: the oldest is the smallest."""

    mtime_ns: int
    name: str
    size: int


class Oldest:
    """The oldest of many files.

    Attributes:
        dropped: Whether there were more than it keeps.
    """

    def __init__(self, limit: int = KEPT) -> None:
        """Keep so many."""
        self.dropped = False
        self._limit = limit
        # Its top is the youngest of those kept. Tuples, because they are half as large as objects.
        self._heap: list[tuple[int, str, int]] = []

    def add(self, name: str, mtime_ns: int, size: int) -> None:
        """Consider one file."""
        entry = (-mtime_ns, name, size)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        else:
            self.dropped = True
            heapq.heappushpop(self._heap, entry)

    def in_order(self) -> list[Found]:
        """Return them, the oldest first; none is kept any longer."""
        self._heap.sort(reverse=True)
        kept, self._heap = self._heap, []
        return [Found(-negative, name, size) for negative, name, size in kept]


@dataclass(slots=True, kw_only=True)
class Listing:
    """What a pass found.

    Attributes:
        oldest: Files that may be deleted.
        temp_names: Pods' directories.
        temp_directories: Those that are no longer fresh.
    """

    oldest: Oldest
    files: int = 0
    used_bytes: int = 0
    spared_files: int = 0
    temp_names: set[str] = field(default_factory=set)
    temp_directories: list[str] = field(default_factory=list)


def list_directory(  # noqa: PLR0913 - three of them optional
    directory: int,
    settings: JanitorSettings,
    *,
    report: Report,
    pace: Pace,
    see: Callable[[Found], None] = lambda _: None,
    measure: Callable[[Found], None] = lambda _: None,
    limit: int = KEPT,
) -> Listing:
    """Look at every entry once.

    Args:
        directory: The opened directory.
        settings: What is a cached file, and what is fresh.
        report: Where errors are counted.
        pace: Told of each entry.
        see: Shown each file that is not fresh.
        measure: Shown each file.
        limit: Oldest files to keep.

    Raises:
        OSError: The directory itself cannot be listed.
    """
    listing = Listing(oldest=Oldest(limit))
    youngest = time.time_ns() - int(settings.fresh_seconds * _NANOSECONDS)
    with os.scandir(directory) as entries:
        for entry in entries:
            pace.step()
            is_file = entry.name.endswith(settings.suffix)
            if not is_file and not entry.name.startswith(settings.temp_prefix):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # evicted by its engine, or another janitor was quicker
            except OSError:
                report.errors["stat"] += 1
                continue
            fresh = found.st_mtime_ns > youngest
            if stat.S_ISDIR(found.st_mode) and entry.name.startswith(settings.temp_prefix):
                listing.temp_names.add(entry.name)
                if not fresh:
                    listing.temp_directories.append(entry.name)
            elif stat.S_ISREG(found.st_mode) and is_file:
                listing.files += 1
                listing.used_bytes += found.st_size
                listing.spared_files += fresh
                shown = Found(found.st_mtime_ns, entry.name, found.st_size)
                measure(shown)
                if not fresh:
                    listing.oldest.add(entry.name, found.st_mtime_ns, found.st_size)
                    see(shown)
    return listing
