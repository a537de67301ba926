"""Servers of the tests: on loopback, bounded in time, and ended by their own id."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import psutil

GUARD: Final = Path(__file__).with_name("guard.py")
LONGEST_SECONDS: Final = 3600
"""No server outlives this, whatever becomes of its starter."""

_LOG_LINES: Final = 25


class ServerError(Exception):
    """A server that did not start, with the end of its log."""


class Server:
    """One running server.

    Attributes:
        name: What messages call it.
        log: Everything that it has printed.
        pid: Its own process id.
    """

    def __init__(  # noqa: PLR0913 - three of them optional
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        seconds: float = LONGEST_SECONDS,
    ) -> None:
        """Start it under a guard.

        Args:
            name: What messages and the log file are called.
            argv: Program and arguments.
            folder: Where its log goes, and where it runs.
            environment: Its whole environment; the starter's own without it.
            directory: Where it runs instead.
            seconds: When it ends at the latest.
        """
        self.name = name
        self.log = folder / f"{name}.log"
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-E", GUARD, str(seconds), self.log, *argv],
            cwd=directory or folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Whoever ends the starter's whole group, as an interrupt at a terminal does, would
            # otherwise end the guard before its server.
            start_new_session=True,
        )
        self.pid = int(_pipe(self._guard.stdout).readline() or 0)

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._guard.poll()

    def tail(self) -> str:
        """Return the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_LOG_LINES:])

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait until it is ready.

        Raises:
            ServerError: It ended, or took longer.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if (code := self._guard.poll()) is not None:
                msg = f"{self.name} ended with {code} before it was ready:\n{self.tail()}"
                raise ServerError(msg)
            if time.monotonic() > deadline:
                msg = f"{self.name} was not ready within {seconds:g} s:\n{self.tail()}"
                raise ServerError(msg)
            time.sleep(0.1)

    def stop(self) -> None:
        """End it and wait until it is gone."""
        _pipe(self._guard.stdin).close()
        _pipe(self._guard.stdout).close()
        self._guard.wait(timeout=30)


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    if end is None:
        msg = "the guard was started without its pipes"
        raise ServerError(msg)
    return end


def listening(pid: int) -> set[str]:
    """Return where a process accepts connections, such as ``127.0.0.1:6443``."""
    try:
        connections = psutil.Process(pid).net_connections(kind="inet")
    except psutil.NoSuchProcess:
        return set()
    return {
        f"{found.laddr.ip}:{found.laddr.port}"
        for found in connections
        if found.status == psutil.CONN_LISTEN
    }


def free_ports(count: int) -> list[int]:
    """Return loopback ports that nothing listens on, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
