"""The file system as a process: ``python -m tests.e2e.pool.serve FOLDER MANNERS MOUNT``.

``FUSE_LIBRARY_PATH`` names libfuse. It ends with its mount, and whoever kills it leaves a mount
that answers "Transport endpoint is not connected", as a restarted CSI driver does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mfusepy as fuse

from tests.e2e.pool.manners import Manners
from tests.e2e.pool.store import Pool

SWEEP_SECONDS = 0.5
THREADS = 400
"""More than any client has, since a call that waits for a time limit holds one."""


class Control:
    """Reads the manners again whenever their file has changed."""

    def __init__(self, path: Path) -> None:
        """Read them the first time."""
        self._path, self._read = path, Manners()
        self._seen = (0, 0)
        self()

    def __call__(self) -> Manners:
        """Return them."""
        found = self._path.stat()
        # The number alone may be that of the file before the last.
        seen = (found.st_ino, found.st_mtime_ns)
        if seen != self._seen:
            self._read, self._seen = Manners.read(self._path), seen
        return self._read


class Operations(fuse.Operations):  # type: ignore[misc]
    """The calls of FUSE, given on to the pool."""

    use_ns = True

    def __init__(self, pool: Pool) -> None:
        """Serve a pool."""
        self._pool = pool

    def getattr(self, path: str, _: Any = None) -> dict[str, int]:
        """Look at a file."""
        found = self._pool.stat(path)
        named = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
        times = {f"st_{t}time": getattr(found, f"st_{t}time_ns") for t in "amc"}
        return {**{name: getattr(found, name) for name in named}, **times}

    def readdir(self, path: str, _: int) -> list[str]:
        """List a directory."""
        return [".", "..", *self._pool.names(path)]

    def mkdir(self, path: str, mode: int) -> int:
        """Make a directory."""
        self._pool.make_directory(path, mode)
        return 0

    def rmdir(self, path: str) -> int:
        """Remove one."""
        self._pool.remove_directory(path)
        return 0

    def unlink(self, path: str) -> int:
        """Delete a file."""
        self._pool.remove(path)
        return 0

    def rename(self, old: str, new: str) -> int:
        """Rename."""
        self._pool.rename(old, new)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        """Change permissions."""
        self._pool.set_mode(path, mode)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        """Change times."""
        self._pool.set_times(path, times)
        return 0

    def truncate(self, path: str, length: int, _: Any = None) -> int:
        """Cut a file."""
        self._pool.truncate(path, length)
        return 0

    def create(self, path: str, mode: int, _: Any = None) -> int:
        """Open a new file."""
        return self._pool.open(path, writes=True, makes=True, mode=mode)

    def open(self, path: str, flags: int) -> int:
        """Open one that is there."""
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        return self._pool.open(path, writes=writes, makes=bool(flags & os.O_TRUNC))

    def read(self, _: str, size: int, offset: int, number: int) -> bytes:
        """Read."""
        return self._pool.read(number, size, offset)

    def write(self, _: str, data: bytes, offset: int, number: int) -> int:
        """Write."""
        return self._pool.write(number, data, offset)

    def flush(self, _: str, number: int) -> int:
        """Hear of what went wrong before: ``close()``."""
        self._pool.flush(number)
        return 0

    def release(self, _: str, number: int) -> int:
        """Forget an open file."""
        self._pool.release(number)
        return 0

    def statfs(self, _: str) -> dict[str, int]:
        """Tell the size of the whole."""
        whole, free = self._pool.size()
        size = 4096
        parts = {"f_bsize": size, "f_frsize": size, "f_blocks": whole // size}
        return {**parts, "f_bfree": free // size, "f_bavail": free // size}


def main(folder: str, manners: str, mount: str) -> None:
    """Serve until the mount is gone."""
    pool = Pool(Path(folder), Control(Path(manners)), sleep=time.sleep)

    def sweep() -> None:
        while True:
            time.sleep(SWEEP_SECONDS)
            for gone in pool.expire():
                print(f"expired: {gone}", flush=True)

    threading.Thread(target=sweep, daemon=True).start()
    fuse.FUSE(
        Operations(pool),
        mount,
        foreground=True,
        allow_other=True,
        # Each call reaches this process, and none is kept back by the kernel's bound on readahead.
        direct_io=True,
        entry_timeout=0,
        attr_timeout=0,
        negative_timeout=0,
        max_threads=THREADS,
        fsname="curvine-fuse",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
