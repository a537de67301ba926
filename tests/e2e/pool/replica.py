"""LMCache servers' ways to L2, each in a process of its own that a test may kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.contract.test_engine_arguments import PYTHON

ROOT = Path(__file__).parents[3]
CHUNK_BYTES = 1_500_000
"""Above the megabyte that a client keeps back, as the chunks of every model are."""

_SECONDS = 300


class Replica:
    """A running one."""

    def __init__(self, connection: socket.socket, job: dict[str, Any]) -> None:
        """Have it started."""
        self._connection = connection
        self._lines = connection.makefile("rw")
        self.order(**job)
        self._pid: int = self.answer()["pid"]

    def order(self, **order: Any) -> None:
        """Give an order without waiting for the answer."""
        self._lines.write(f"{json.dumps(order)}\n")
        self._lines.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for the answer to the last order."""
        line = self._lines.readline()
        assert line, "the replica ended; its log is beside its socket"
        read: dict[str, Any] = json.loads(line)
        return read

    def store(self, salt: int, count: int = 16) -> dict[str, Any]:
        """Store chunks."""
        self.order(do="store", salt=salt, count=count)
        return self.answer()

    def load(self, salt: int, count: int = 16) -> dict[str, Any]:
        """Look chunks up and load those that were found."""
        self.order(do="load", salt=salt, count=count)
        return self.answer()

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._connection.close()


class Replicas:
    """Starts them."""

    def __init__(self, path: Path, argv: Sequence[str], base_path: Path) -> None:
        """Say what they all are.

        Args:
            path: The socket.
            argv: Rendered arguments of a server.
            base_path: The mount.
        """
        self._path, self._argv, self._base = path, argv, base_path
        self._key = path.with_name("key")
        self._key.write_bytes(bytes(range(32)))
        self._started: list[Replica] = []

    def start(self, pod: str, **changes: Any) -> Replica:
        """Start one.

        Args:
            pod: Its name.
            changes: Fields of its job that differ.
        """
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_SECONDS)
        connection.connect(str(self._path))
        job = {
            "argv": list(self._argv),
            "base_path": str(self._base),
            "pod": pod,
            "key": str(self._key),
            "chunk_bytes": CHUNK_BYTES,
            **changes,
        }
        made = Replica(connection, job)
        self._started.append(made)
        return made

    def end(self) -> None:
        """Kill all."""
        for each in self._started:
            each.kill()


@contextmanager
def replicas(argv: Sequence[str], base_path: Path, *, folder: Path) -> Iterator[Replicas]:
    """Import LMCache once, and start replicas from there.

    Args:
        argv: Rendered arguments of a server.
        base_path: The mount.
        folder: For the socket and what they print.
    """
    path, log = folder / "replicas", folder / "replicas.log"
    with log.open("a") as file:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.e2e.pool.client", str(path)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    made = Replicas(path, argv, base_path)
    try:
        deadline = time.monotonic() + _SECONDS
        while not path.exists():
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        time.sleep(0.1)
        yield made
    finally:
        made.end()
        process.kill()
        process.wait(20)
