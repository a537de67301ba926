"""Mounts the file system, and says in a sentence where that cannot be done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kascade import KascadeError
from tests.e2e.pool.manners import Manners
from tools import libfuse

ROOT = Path(__file__).parents[3]
_SECONDS = 20


class NoMountError(KascadeError):
    """The file system cannot be mounted here."""


def check() -> str:
    """Return libfuse.

    Raises:
        NoMountError: There is no FUSE here, or no right to mount one.
        NoProgramError: There is no libfuse.
    """
    device = Path("/dev/fuse")
    if not os.access(device, os.R_OK | os.W_OK):
        msg = (
            f"{device} is {'not open to this user' if device.exists() else 'missing'}, so there is "
            "no file system with Curvine's manners: load the kernel's module `fuse`, or give the "
            "container that device and CAP_SYS_ADMIN"
        )
        raise NoMountError(msg)
    return libfuse.library()


class Mounted:
    """One running file system: what lies in it, where it is mounted, how it behaves."""

    def __init__(self, folder: Path) -> None:
        """Prepare it, unmounted."""
        self.folder, self.path = folder / "pool", folder / "mount"
        self._control = folder / "manners.json"
        self._log = folder / "pool.log"
        for directory in (self.folder, self.path):
            directory.mkdir(parents=True)
        self.manners = Manners()
        self.behave()
        self._process: subprocess.Popen[Any] | None = None

    def behave(self, **changes: Any) -> None:
        """Change its manners; what is not named behaves well."""
        fixed = {"timeout_seconds": self.manners.timeout_seconds, "workers": self.manners.workers}
        self.manners = replace(Manners(), **{**fixed, **changes})
        self.manners.write(self._control)

    def start(self) -> None:
        """Mount it.

        Raises:
            NoMountError: The kernel rejected.
        """
        arguments = [self.folder, self._control, self.path]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.pool.serve", *map(str, arguments)],
                cwd=ROOT,
                env={**os.environ, "FUSE_LIBRARY_PATH": check()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _SECONDS
        while not os.path.ismount(self.path):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                msg = f"the file system could not be mounted: {self._log.read_text()[-500:]}"
                raise NoMountError(msg)
            time.sleep(0.05)

    def kill(self) -> None:
        """End its process, which leaves a dead mount."""
        assert self._process is not None
        # SIGTERM would have it unmount first.
        self._process.kill()
        self._process.wait(_SECONDS)

    def unmount(self) -> None:
        """Take the mount away, dead or alive."""
        subprocess.run(["umount", "--lazy", self.path], check=False, capture_output=True)  # noqa: S607


@contextmanager
def mounted(folder: Path) -> Iterator[Mounted]:
    """Mount the file system for as long as the block lasts."""
    made = Mounted(folder)
    made.start()
    try:
        yield made
    finally:
        made.unmount()
        made.kill()
