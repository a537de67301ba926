"""One LMCache server's way to L2 in a process of its own, which a test may kill."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.test_engine_arguments import PYTHON

ROOT = Path(__file__).parents[3]
CHUNK_BYTES = 1_500_000
"""Above the megabyte that a client keeps back, as the chunks of every model are."""


@dataclass
class Replica:
    """A running one."""

    process: subprocess.Popen[str]

    def order(self, **order: Any) -> None:
        """Give an order without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for the answer to the last order."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the replica ended; its log is beside its folder"
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
        self.process.kill()
        self.process.wait(20)


@contextmanager
def replica(
    argv: Sequence[str], base_path: Path, *, pod: str, log: Path, **changes: Any
) -> Iterator[Replica]:
    """Start one.

    Args:
        argv: Rendered arguments of a server.
        base_path: The mount.
        pod: Its name.
        log: What it prints.
        changes: Further fields of its job.
    """
    key = log.with_name("key")
    key.write_bytes(bytes(range(32)))
    job = {
        "argv": list(argv),
        "base_path": str(base_path),
        "pod": pod,
        "key": str(key),
        "chunk_bytes": CHUNK_BYTES,
        **changes,
    }
    with log.open("a") as file:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.e2e.pool.client", json.dumps(job)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    made = Replica(process)
    try:
        assert made.answer() == {"ready": True}, log.read_text()[-2000:]
        yield made
    finally:
        made.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
