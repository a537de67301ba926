"""The pool itself: a directory of a real disk, and what Curvine makes of calls on it.

It knows nothing of FUSE; an ``OSError`` is what the caller is told. Age limits are extended
attributes of the real files, so that they move with them and others can look at them.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.pool.manners import Manners

TTL_ATTRIBUTE = "user.kascade.ttl"


@dataclass
class _Open:
    """A file somebody has open; what is not flushed yet stands in ``kept``."""

    real: Path
    descriptor: int
    writes: bool
    kept: int = 0
    failed: bool = False


class Pool:
    """One mount's view of it."""

    def __init__(
        self, folder: Path, manners: Callable[[], Manners], *, sleep: Callable[[float], None]
    ) -> None:
        """Serve a folder.

        Args:
            folder: Where the bytes lie.
            manners: Tells what to do wrong now.
            sleep: Waits for a time limit.
        """
        self._folder, self._manners, self._sleep = folder, manners, sleep
        self._numbers = itertools.count(1)
        self._open: dict[int, _Open] = {}
        self._lock = threading.Lock()
        self._failed_closes = 0

    # --- names -----------------------------------------------------------------------------

    def stat(self, path: str) -> os.stat_result:
        """Look at a file or directory."""
        return os.lstat(self._named(path))

    def names(self, path: str) -> list[str]:
        """Return a directory's names."""
        return sorted(entry.name for entry in self._named(path).iterdir())

    def make_directory(self, path: str, mode: int) -> None:
        """Make one, with the age limit of whatever is made through a mount."""
        real = self._named(path)
        real.mkdir(mode=mode)
        self._stamp(real)

    def remove_directory(self, path: str) -> None:
        """Remove an empty one."""
        self._named(path).rmdir()

    def remove(self, path: str) -> None:
        """Delete a file."""
        self._named(path).unlink()

    def rename(self, old: str, new: str) -> None:
        """Rename on the master alone: it succeeds whatever became of the blocks."""
        self._stall("rename")
        self._named(old).rename(self._named(new))

    def set_mode(self, path: str, mode: int) -> None:
        """Change permissions."""
        self._named(path).chmod(mode)

    def set_times(self, path: str, times: tuple[int, int] | None) -> None:
        """Change times, in nanoseconds; now unless given."""
        real = self._named(path)
        if times is None:
            os.utime(real)
        else:
            os.utime(real, ns=times)

    # --- bytes -----------------------------------------------------------------------------

    def open(self, path: str, *, writes: bool, makes: bool = False, mode: int = 0o644) -> int:
        """Open a file; one that is written to reserves a block until it is closed."""
        if makes:
            self._stall("open")
        real = self._named(path)
        flags = os.O_RDWR if writes else os.O_RDONLY
        if makes:
            flags |= os.O_CREAT | os.O_TRUNC
        fresh = makes and not real.exists()
        opened = _Open(real, os.open(real, flags, mode), writes)
        if fresh:
            self._stamp(real)
        with self._lock:
            number = next(self._numbers)
            self._open[number] = opened
        return number

    def read(self, number: int, size: int, offset: int) -> bytes:
        """Read from the worker that has the file."""
        opened = self._open[number]
        self._reach_worker(opened.real)
        return os.pread(opened.descriptor, size, offset)

    def write(self, number: int, data: bytes, offset: int) -> int:
        """Keep back a little; whatever is more goes to a worker, which may reject it."""
        self._stall("write")
        opened = self._open[number]
        opened.kept += len(data)
        if opened.kept > self._manners().buffer_bytes:
            self._reach_worker(opened.real)
            if not self._has_room():
                opened.failed = True
                # Never ENOSPC.
                raise OSError(errno.EIO, "no worker with room for a block")
        return os.pwrite(opened.descriptor, data, offset)

    def flush(self, number: int) -> None:
        """Commit what was written: ``close()`` is where a client hears of a failure before it."""
        opened = self._open[number]
        if not opened.writes or not opened.kept:
            return
        self._stall("close")
        kept, opened.kept = opened.kept, 0
        small = kept <= self._manners().buffer_bytes
        failing = opened.failed or self._closes_badly() or (small and not self._has_room())
        if failing or self._is_away(opened.real):
            # The name stays, and nothing is in it.
            os.ftruncate(opened.descriptor, 0)
            if self._is_away(opened.real):
                self._reach_worker(opened.real)
            raise OSError(errno.EIO, "a worker failed before the file was complete")

    def truncate(self, path: str, size: int) -> None:
        """Cut a file."""
        os.truncate(self._named(path), size)

    def release(self, number: int) -> None:
        """Forget an open file and what it reserved."""
        with self._lock:
            opened = self._open.pop(number)
        os.close(opened.descriptor)

    # --- the whole -------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        """Return capacity and what is free of it, reservations taken off."""
        manners = self._manners()
        if not manners.capacity_bytes:
            found = os.statvfs(self._folder)
            return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
        return manners.capacity_bytes, max(0, manners.capacity_bytes - self._taken())

    def expire(self) -> list[str]:
        """Delete what is older than its age limit: a directory goes with all that is in it."""
        gone = []
        for real in self._expiring():
            if real.is_dir():
                shutil.rmtree(real, ignore_errors=True)
            else:
                real.unlink(missing_ok=True)
            gone.append(f"/{real.relative_to(self._folder)}")
        return gone

    def _expiring(self) -> Iterator[Path]:
        now = time.time()
        for top, folders, files in os.walk(self._folder):
            for name in [*folders, *files]:
                real = Path(top, name)
                try:
                    limit = float(os.getxattr(real, TTL_ATTRIBUTE))
                    old = real.stat().st_mtime + limit < now
                except OSError:
                    continue
                if old:
                    if name in folders:
                        folders.remove(name)
                    yield real

    def _stamp(self, real: Path) -> None:
        if limit := self._manners().ttl_seconds:
            os.setxattr(real, TTL_ATTRIBUTE, f"{limit}".encode())

    def _named(self, path: str) -> Path:
        """Ask the master for a name."""
        manners = self._manners()
        if manners.master_away:
            self._sleep(manners.timeout_seconds)
            raise OSError(errno.EIO, "the master does not answer")
        return self._folder / path.lstrip("/")

    def _worker_of(self, real: Path) -> int:
        return zlib.crc32(real.name.encode()) % self._manners().workers

    def _is_away(self, real: Path) -> bool:
        manners = self._manners()
        return self._worker_of(real) in {*manners.silent, *manners.lost}

    def _reach_worker(self, real: Path) -> None:
        if self._is_away(real):
            manners = self._manners()
            if self._worker_of(real) in manners.silent:
                self._sleep(manners.timeout_seconds)
            raise OSError(errno.EIO, "no worker has this block")

    def _stall(self, step: str) -> None:
        manners = self._manners()
        if manners.stalling == step:
            self._sleep(manners.timeout_seconds)

    def _closes_badly(self) -> bool:
        with self._lock:
            wanted = self._manners().failing_closes
            self._failed_closes = self._failed_closes + 1 if wanted else 0
            return 0 < self._failed_closes <= wanted

    def _has_room(self) -> bool:
        manners = self._manners()
        return not manners.capacity_bytes or self._taken() <= manners.capacity_bytes

    def _taken(self) -> int:
        """Bytes of closed files, and a block for each that is being written."""
        with self._lock:
            writing = {opened.real for opened in self._open.values() if opened.writes}
        closed = sum(
            path.stat().st_size
            for path in self._folder.rglob("*")
            if path.is_file() and path not in writing
        )
        return closed + self._manners().block_bytes * len(writing)


@contextmanager
def opened(pool: Pool, path: str) -> Iterator[int]:
    """Open a new file as ``open(path, "w")`` does; closing tells what ``close()`` tells."""
    number = pool.open(path, writes=True, makes=True)
    try:
        yield number
        pool.flush(number)
    finally:
        pool.release(number)
