"""kubectl as a child process: every call has a deadline, every failure is a message."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

from kascade.errors import KascadeError

CALL_SECONDS: Final = 60.0
_FORWARD_SECONDS: Final = 30.0
_END_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1
_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
_LONGEST: Final = 400
_LOG_LINE: Final = re.compile(r"[EIW]\d{4} \d\d:\d\d")
_UNREACHABLE: Final = re.compile(
    r"unable to connect|connection refused|no such host|i/o timeout|was refused|current-context|"
    r"no configuration|TLS handshake|context .* does not exist|must be logged in|"
    r"Unauthorized|error: EOF",
    re.IGNORECASE,
)


class Kubectl:
    """One namespace of one cluster."""

    def __init__(self, *, namespace: str, context: str | None) -> None:
        """Find the program.

        Args:
            namespace: Of every object that is asked for.
            context: Of the kubeconfig; its current one by default.

        Raises:
            KascadeError: There is no kubectl on PATH.
        """
        found = shutil.which("kubectl")
        if found is None:
            msg = (
                "kubectl is not on PATH, and a deployed system is found through it; install it, "
                "or name running servers with --target FILE"
            )
            raise KascadeError(msg)
        self._context = context
        self._base = [found, f"--namespace={namespace}"]
        if context is not None:
            self._base.append(f"--context={context}")

    def run(self, *arguments: str, given: str | None = None, seconds: float = CALL_SECONDS) -> str:
        """Run it and return what it printed.

        Args:
            arguments: Of kubectl.
            given: Text for its standard input.
            seconds: Deadline.

        Raises:
            KascadeError: It failed or took too long.
        """
        try:
            done = subprocess.run(  # noqa: S603 - arguments of our own
                [*self._base, *arguments],
                input=given,
                stdin=None if given is not None else subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=seconds,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            msg = f"kubectl {arguments[0]} did not answer within {seconds:g} s; is the cluster up?"
            raise KascadeError(msg) from None
        except OSError as error:
            raise self._no_start(error) from None
        if done.returncode:
            raise KascadeError(self._message(arguments, done.stderr))
        return done.stdout

    def json(self, *arguments: str) -> dict[str, Any] | None:
        """Run it with ``-o json`` and return the object; None where it printed nothing.

        Raises:
            KascadeError: It failed, or printed something else.
        """
        text = self.run(*arguments, "--output=json")
        if not text.strip():
            return None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            msg = f"kubectl {' '.join(arguments)} printed something that is no JSON: {text[:80]!r}"
            raise KascadeError(msg) from None
        if not isinstance(found, dict):
            msg = (
                f"kubectl {' '.join(arguments)} printed something other than a JSON object: "
                f"{text[:80]!r}"
            )
            raise KascadeError(msg)
        return found

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """Run it likewise and return the objects of the list that it prints.

        Raises:
            KascadeError: It failed, or printed no such list.
        """
        found = (self.json(*arguments) or {}).get("items", [])
        if not isinstance(found, list) or not all(
            isinstance(item, dict) and isinstance(item.get("metadata"), dict) for item in found
        ):
            msg = f"kubectl {' '.join(arguments)} printed no list of objects: {str(found)[:80]!r}"
            raise KascadeError(msg)
        return found

    @contextlib.contextmanager
    def forward(self, what: str, ports: Sequence[int]) -> Iterator[dict[int, int]]:
        """Forward ports of a pod or Service to ports of this machine's loopback.

        Args:
            what: Such as ``pod/NAME`` or ``service/NAME``.
            ports: Ports there.

        Yields:
            The local port for each of them.
        """
        wanted = [f":{port}" for port in ports]
        with self.child("port-forward", "--address=127.0.0.1", what, *wanted) as lines:
            found: list[int] = []
            said: list[str] = []
            deadline = time.monotonic() + _FORWARD_SECONDS
            while len(found) < len(ports):
                try:
                    line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    line = None
                if line is None:
                    text = " ".join(said) or "it printed nothing"
                    raise KascadeError(self._message(("port-forward", what), text))
                said.append(line)
                match = _FORWARDING.search(line)
                if match:
                    found.append(int(match.group(1)))
            # In the order of the arguments; the port it names is the pod's, not the Service's.
            yield dict(zip(ports, found, strict=True))

    @contextlib.contextmanager
    def child(self, *arguments: str) -> Iterator[queue.Queue[str | None]]:
        """Run it beside this program and end it, with its children, when the block is left.

        Yields:
            Its lines as they come, and None when it has ended.
        """
        try:
            process = subprocess.Popen(  # noqa: S603 - arguments of our own
                [*self._base, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                # Ctrl-C reaches us alone, so that we end it, and all that it started, ourselves.
                start_new_session=True,
            )
        except OSError as error:
            raise self._no_start(error) from None
        lines: queue.Queue[str | None] = queue.Queue()
        assert process.stdout is not None  # noqa: S101 - for the type checker; it is a pipe
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            yield lines
        finally:
            _end(process)
            reader.join(_END_SECONDS)
            process.stdout.close()

    def _no_start(self, error: OSError) -> KascadeError:
        return KascadeError(
            f"kubectl at {self._base[0]} cannot be started: {error.strerror or error}; install it "
            "again"
        )

    def _message(self, arguments: Sequence[str], said: str) -> str:
        # Above the sentence for people stand client-go's own log lines, such as "E1129 ...".
        lines = [line for line in said.splitlines() if line and not _LOG_LINE.match(line)]
        text = " ".join(" ".join(lines or [said]).split())[:_LONGEST] or "it said nothing"
        which = f"context {self._context}" if self._context else "the current context"
        if _UNREACHABLE.search(text):
            return (
                f"kubectl cannot reach the cluster of {which}: {text}; choose another one with "
                "--context, or see whether this machine may reach the EKS API"
            )
        return f"kubectl {' '.join(arguments[:2])} failed in {which}: {text}"


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    with contextlib.suppress(ValueError):  # closed under us
        for line in stream:
            lines.put(line.rstrip("\n"))
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            return
