"""One round, in a process of its own: look, delete what is too much, tell."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from typing import Final

from .deleting import MOST_FAILURES, delete_file, delete_oldest, delete_temp_directory
from .keeping import keep_directory
from .listing import KEPT, Found, Listing, Pace, list_directory
from .mount import WrongDirectoryError, open_directory
from .pods import UnknownPodsError, living_pods
from .probing import Prober
from .report import Order, Report
from .settings import JanitorSettings
from .wholeness import Wholeness

MOST_PASSES: Final = 50
"""Of one round: a million files, with what a pass remembers. Writers that are quicker than the
janitor must not keep it in one round for ever."""

DISK_STEP: Final = 0.05
DISK_FLOOR: Final = 0.5
"""A full file system costs 5 % of the directory a round, and never more than half of its low mark.

What Curvine says about its own size has been wrong (issues 1460 and 1610), deleted blocks are freed
late, and the file system may be full of other directories' files. So this trigger needs two
rounds that agree, takes little at a time, and cannot empty a cache that is not at fault."""

Living = Callable[[], frozenset[str]]


class Round:
    """One round."""

    def __init__(  # noqa: PLR0913 - two of them optional
        self,
        directory: int,
        settings: JanitorSettings,
        order: Order,
        *,
        living: Living,
        say: Callable[[Report], None] = lambda _: None,
        limit: int = KEPT,
    ) -> None:
        """Prepare it.

        Args:
            directory: The opened directory.
            settings: What to keep to.
            order: What the rounds before found.
            living: Names the pods there are, or raises ``UnknownPodsError``.
            say: Told about once a second how far it is.
            limit: Oldest files to remember in one pass.
        """
        self.report = Report()
        self._directory, self._settings, self._order = directory, settings, order
        self._living, self._limit = living, limit
        self._pace = Pace(settings, lambda: say(self.report))
        self._gone: set[str] = set()

    def run(self) -> Report:
        """Do it.

        Raises:
            OSError: The directory cannot be listed.
        """
        settings, report, order = self._settings, self.report, self._order
        prober = Prober(self._directory, order, report)
        sizes = Wholeness(order.whole, settings.object_bytes)
        listing = self._list(prober, sizes)
        # Living pods are asked for after their directories were seen: one that starts meanwhile
        # cannot be taken for dead.
        self._look_after_pods(listing)
        self._remove_short(sizes)
        prober.settle(self._pace)
        self._look_at_disk()
        if report.used_bytes > settings.high_bytes:
            self._trim(listing)
        elif report.disk_full and order.disk_was_full:
            self._give_way(listing)
        report.peak_rss_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report.done = True
        return report

    def _list(self, prober: Prober | None, sizes: Wholeness | None = None) -> Listing:
        report = self.report
        listing = list_directory(
            self._directory,
            self._settings,
            report=report,
            pace=self._pace,
            see=(lambda _: None) if prober is None else prober.see,
            measure=(lambda _: None) if sizes is None else sizes.see,
            limit=self._limit,
        )
        report.files, report.used_bytes = listing.files, listing.used_bytes
        report.spared_files = listing.spared_files
        report.temp_directories = len(listing.temp_names)
        return listing

    def _trim(self, listing: Listing) -> None:
        """Delete the oldest files down to the low mark, in as many passes as it takes."""
        report, low = self.report, self._settings.low_bytes
        for _ in range(MOST_PASSES):
            gone = delete_oldest(
                self._directory,
                self._oldest(listing),
                excess=report.used_bytes - low,
                reason="mark",
                report=report,
                pace=self._pace,
            )
            more = listing.oldest.dropped and report.errors["unlink"] < MOST_FAILURES
            if report.used_bytes <= low or not gone or not more:
                return
            listing = self._list(None)

    def _oldest(self, listing: Listing) -> list[Found]:
        """Return the oldest files without those that this round has deleted and counted."""
        return [found for found in listing.oldest.in_order() if found.name not in self._gone]

    def _look_at_disk(self) -> None:
        found = os.fstatvfs(self._directory)
        if 0 <= found.f_bavail <= found.f_blocks and found.f_blocks:
            self.report.disk_used = 1 - found.f_bavail / found.f_blocks
        full_at = self._settings.disk_full_at
        self.report.disk_full = full_at < 1 and self.report.disk_used >= full_at

    def _give_way(self, listing: Listing) -> None:
        report = self.report
        floor = int(self._settings.low_bytes * DISK_FLOOR)
        delete_oldest(
            self._directory,
            self._oldest(listing),
            excess=min(int(report.used_bytes * DISK_STEP), report.used_bytes - floor),
            reason="disk",
            report=report,
            pace=self._pace,
        )

    def _remove_short(self, sizes: Wholeness) -> None:
        """Delete what two rounds in a row saw short; a reader far away may see a size late."""
        report, order = self.report, self._order
        report.whole = sizes.learned()
        for found in sizes.short:
            self._pace.step()
            seen_before = order.short.get(found.name) == found.mtime_ns
            if seen_before and delete_file(
                self._directory, found, reason="incomplete", report=report
            ):
                self._gone.add(found.name)
            else:
                report.short[found.name] = found.mtime_ns

    def _look_after_pods(self, listing: Listing) -> None:
        """Delete what dead pods left, and keep what living pods write into."""
        if not self._settings.selector:
            return
        try:
            living = self._living()
        except UnknownPodsError as error:
            self.report.errors["api"] += 1
            print(error, file=sys.stderr, flush=True)  # noqa: T201 - the pod's log
            return
        prefix = self._settings.temp_prefix
        for name in listing.temp_directories:
            self._pace.step()
            if name.removeprefix(prefix) not in living:
                delete_temp_directory(self._directory, name, report=self.report, pace=self._pace)
            else:
                keep_directory(self._directory, name, "renewed", report=self.report)
        for pod in sorted(living):
            if f"{prefix}{pod}" not in listing.temp_names:
                self._pace.step()
                keep_directory(self._directory, f"{prefix}{pod}", "made", report=self.report)


def one_round(settings: JanitorSettings, order: Order, say: Callable[[Report], None]) -> Report:
    """Do a round, and say in the report what kept it from being one."""
    refused = Report(done=True)
    try:
        directory = open_directory(
            settings.directory, filesystem=settings.filesystem, marker=settings.marker
        )
    except WrongDirectoryError as error:
        refused.refused, refused.errors["guard"] = str(error), 1
        return refused
    except OSError as error:
        refused.refused, refused.errors["mount"] = str(error), 1
        return refused
    making = Round(directory, settings, order, living=lambda: living_pods(settings), say=say)
    try:
        return making.run()
    except OSError as error:
        # Such as "Transport endpoint is not connected": what was deleted before still counts.
        making.report.refused, making.report.done = str(error), True
        making.report.errors["mount"] += 1
        return making.report
    finally:
        os.close(directory)
