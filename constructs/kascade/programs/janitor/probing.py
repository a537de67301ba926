"""Finds files whose blocks are gone: Curvine still lists them, and a read is an error.

A worker that is lost takes its blocks with it, while the metadata of each file stays until its time
to live. A worker that merely restarts looks the same for a minute. So a file is deleted when it
could not be read twice, with a long time in between.
"""

from __future__ import annotations

import errno
import os
import time
import zlib
from typing import Final

from .deleting import delete_file
from .listing import Found, Pace
from .report import Order, Report

PROBE_SECONDS: Final = 10.0
"""Longest that a round reads for: a read that fails may take as long as the client waits."""


def is_unreadable(directory: int, name: str) -> bool:
    """Say whether reading a file's first byte is an I/O error.

    Raises:
        FileNotFoundError: It is gone.
    """
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.pread(opened, 1, 0)
        finally:
            os.close(opened)
    except FileNotFoundError:
        raise
    except OSError as error:
        # Whatever else it says (no right, no connection) is not the file's own fault.
        return error.errno == errno.EIO
    return False


class Prober:
    """Reads a byte of some files; in as many rounds as there are parts, of each file once."""

    def __init__(self, directory: int, order: Order, report: Report) -> None:
        """Begin a round."""
        self._directory, self._order, self._report = directory, order, report
        self._known = {*order.known, *order.ripe}
        self._left = PROBE_SECONDS

    def see(self, found: Found) -> None:
        """Read a byte of a file if it is its turn."""
        order, report = self._order, self._report
        turn = zlib.crc32(found.name.encode()) % order.parts == order.part % order.parts
        if not turn or report.probed_files >= order.probes or self._left <= 0:
            return
        if found.name in self._known:
            return
        try:
            if self._is_unreadable(found.name):
                report.unreadable.append(found.name)
        except FileNotFoundError:
            return

    def settle(self, pace: Pace) -> None:
        """Try once more what could not be read long ago, and delete what still cannot."""
        for name in self._order.ripe:
            if self._left <= 0:
                return
            pace.step()
            try:
                found = os.stat(name, dir_fd=self._directory, follow_symlinks=False)
                bad = self._is_unreadable(name)
            except FileNotFoundError:
                self._report.cleared.append(name)
                continue
            except OSError:
                self._report.errors["stat"] += 1
                continue
            seen = Found(found.st_mtime_ns, name, found.st_size)
            if not bad or delete_file(
                self._directory, seen, reason="unreadable", report=self._report
            ):
                self._report.cleared.append(name)

    def _is_unreadable(self, name: str) -> bool:
        begun = time.monotonic()
        self._report.probed_files += 1
        try:
            return is_unreadable(self._directory, name)
        finally:
            self._left -= time.monotonic() - begun
