"""A round as a process of its own, and what becomes of one that does not move."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from .report import Order, Report
from .settings import JanitorSettings

ROUND_FLAG: Final = "--as-a-round"
"""First argument of the process that does the work."""

_CHUNK: Final = 65536


class RoundProcess:
    """One round that runs.

    Attributes:
        report: The last that it told.
        stuck: Whether it has been given up. It was sent a signal that cannot be ignored, but a
            process in an uninterruptible system call does not end before that call does.
    """

    def __init__(self, settings: JanitorSettings, arguments: Sequence[str], order: Order) -> None:
        """Start it.

        Args:
            settings: How long it may be silent.
            arguments: The program's own, handed on.
            order: What it has to know.
        """
        self.report = Report()
        self.stuck = False
        self._silent_seconds = settings.step_seconds
        self._buffer = b""
        package = Path(__file__).parent
        self._process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", package.name, ROUND_FLAG, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(package.parent)},
        )
        self._begun = self._heard = time.monotonic()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - both were asked for
        assert stdout is not None  # noqa: S101
        self._stdout = stdout
        os.set_blocking(stdout.fileno(), False)
        # Many names do not fit into a pipe, and nobody here may wait for a reader.
        threading.Thread(target=_hand_over, args=(stdin, order.line()), daemon=True).start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._begun

    def ended(self) -> bool:
        """Read what it has told; say whether it is gone. Never waits."""
        self._read()
        if self._process.poll() is not None:
            self._read()
            self._stdout.close()
            return True
        if not self.stuck and time.monotonic() - self._heard > self._silent_seconds:
            self.stuck = True
            self.kill()
        return False

    def kill(self) -> None:
        """End it if it can be ended."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._stdout.fileno(), _CHUNK)
            except BlockingIOError:
                return
            if not read:
                return
            self._heard = time.monotonic()
            *lines, self._buffer = (self._buffer + read).split(b"\n")
            if lines:
                self.report = Report.read(lines[-1])


def _hand_over(stdin: IO[bytes], line: bytes) -> None:
    # It may have ended at once; its exit code says so.
    with suppress(BrokenPipeError), stdin:
        stdin.write(line)
