"""Runs the containers of one pod as processes, with the manifest's probes, as a kubelet would.

A process that ends is started again; one whose liveness probe fails is ended first. A pod is ready
while the readiness probes of its containers succeed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.local.pods import Container, Exec, Pod, Probe
from tools.servers import Server, ServerError

_TICK_SECONDS: Final = 0.1
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))

_BACKOFF_SECONDS: Final = 1.0
"""The kubelet waits 10 s before a second restart; here a person watches."""

_LEAST_GRACE_SECONDS: Final = 2.0
"""What a process gets from SIGTERM on even if its handler took all its grace, as in the kubelet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What all processes here have in common.

    Attributes:
        folder: Their working directory; logs go below it.
        environment: Their variables, below those of their containers.
        seconds: When they end at the latest.
    """

    folder: Path
    environment: Mapping[str, str]
    seconds: float


class RunningContainer:
    """One container: its process, and what its probes say.

    Attributes:
        restarts: How often its process was started again.
        reasons: Why, one entry for each restart.
    """

    def __init__(  # noqa: PLR0913 - one of them optional
        self,
        container: Container,
        *,
        label: str,
        address: str,
        sandbox: Sandbox,
        changed: Callable[[], None],
        grace_seconds: float = 30,
    ) -> None:
        """Start it.

        Args:
            container: What to run, with every substitution made.
            label: Name of its log.
            address: Where its probes ask.
            sandbox: Where it runs.
            changed: Called when readiness changes.
            grace_seconds: Its pod's, where a probe that ends it has none of its own.
        """
        self.container = container
        self._grace = grace_seconds
        self.restarts = 0
        self.reasons: list[str] = []
        self._label, self._address = label, address
        self._sandbox, self._changed = sandbox, changed
        self._ready = self._started = False
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._server = self._start()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Process id of the container's program."""
        return self._server.pid

    @property
    def log(self) -> Path:
        """Everything that it has printed."""
        return self._server.log

    @property
    def started(self) -> bool:
        """Whether its startup probe has succeeded since its last start."""
        return self._started

    @property
    def ready(self) -> bool:
        """Whether it counts as ready."""
        return self._ready

    def replace(self, container: Container) -> None:
        """Run another command from now on, in a fresh process."""
        self.container = container
        self._started = False
        self._kill()

    def signal_all(self, number: int) -> None:
        """Send a signal to the process and all that it started."""
        os.killpg(self.pid, number)

    def wait_until_started(self, seconds: float) -> None:
        """Wait for the startup probe.

        Raises:
            ServerError: It took longer, or its process ended again and again.
        """
        deadline = time.monotonic() + seconds
        while not self._started:
            if self.restarts > 1 or time.monotonic() > deadline:
                msg = f"{self._label} did not start:\n{self._server.tail()}"
                raise ServerError(msg)
            time.sleep(_TICK_SECONDS)

    def terminate(self, grace_seconds: float) -> None:
        """End it for good as the kubelet does: its handler, SIGTERM, and at last SIGKILL."""
        self._stopping.set()
        self._end(grace_seconds)
        self.stop()
        self._set(started=False, ready=False)

    def stop(self) -> None:
        """End it for good, at once."""
        self._stopping.set()
        with self._lock:
            self._server.stop()
        self._thread.join(timeout=30)

    # --- Supervision ------------------------------------------------------------------------

    def _start(self) -> Server:
        logs = self._sandbox.folder / "logs"
        logs.mkdir(exist_ok=True)
        return Server(
            self._label,
            self.container.argv,
            folder=logs,
            directory=self._sandbox.folder,
            environment={**self._sandbox.environment, **self.container.environment},
            seconds=self._sandbox.seconds,
        )

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            why = self._until_it_fails()
            if self._stopping.is_set():
                return
            self._set(started=False, ready=False)
            self.reasons.append(why)
            self.restarts += 1
            if self._stopping.wait(_BACKOFF_SECONDS):
                return
            with self._lock:
                if not self._stopping.is_set():
                    self._server.stop()
                    self._server = self._start()

    def _until_it_fails(self) -> str:
        """Probe one process until it has to be started again; say why."""
        startup = _Asked(self.container.startup, self._address)
        while startup.probe is not None and not startup.succeeded:
            if self._stopping.is_set():
                return "asked to end"
            if (why := self._ended() or startup.ask()) is not None:
                return why
            time.sleep(_TICK_SECONDS)
        self._set(started=True, ready=self.container.readiness is None)
        liveness = _Asked(self.container.liveness, self._address)
        readiness = _Asked(self.container.readiness, self._address)
        while not self._stopping.is_set():
            if (why := self._ended()) is not None:
                return why
            if (why := liveness.ask()) is not None:
                self._end(_grace_of(self.container.liveness, self._grace))
                return why
            failing = readiness.ask() is not None
            if readiness.probe is not None and (readiness.succeeded or failing):
                self._set(started=True, ready=readiness.succeeded)
            time.sleep(_TICK_SECONDS)
        return "asked to end"

    def _ended(self) -> str | None:
        code = self._server.code
        return None if code is None else f"its process ended with {code}"

    def _end(self, grace_seconds: float) -> None:
        """End the process within a grace, of which the handler before it takes its part."""
        deadline = time.monotonic() + grace_seconds
        self._run_pre_stop(grace_seconds)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        deadline = max(deadline, time.monotonic() + _LEAST_GRACE_SECONDS)
        while self._server.code is None and time.monotonic() < deadline:
            time.sleep(_TICK_SECONDS)
        self._kill()

    def _run_pre_stop(self, seconds: float) -> None:
        handler = self.container.pre_stop
        if handler is None or self._server.code is not None:
            return
        if not isinstance(handler, Exec):
            time.sleep(min(handler.seconds, seconds))
            return
        with (self._sandbox.folder / "logs" / f"{self._label}.preStop.log").open("ab") as log:
            program = subprocess.Popen(
                handler.argv,
                cwd=self._sandbox.folder,
                env={**self._sandbox.environment, **self.container.environment},
                stdout=log,
                stderr=log,
            )
            try:
                program.wait(seconds)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self.signal_all(signal.SIGKILL)

    def _set(self, *, started: bool, ready: bool) -> None:
        was = (self._started, self._ready)
        self._started, self._ready = started, ready
        if was != (started, ready):
            self._changed()


def _grace_of(probe: Probe | None, grace_seconds: float) -> float:
    own = None if probe is None else probe.grace_seconds
    return grace_seconds if own is None else own


class _Asked:
    """One probe over time: asks when its period has passed, counts failures in a row."""

    def __init__(self, probe: Probe | None, address: str) -> None:
        self.probe = probe
        self.succeeded = False
        self._address, self._failures, self._next = address, 0, time.monotonic()

    def ask(self) -> str | None:
        """Ask if it is time; return why the probe has failed for good, if it has."""
        if self.probe is None or time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self.probe.period_seconds
        url = f"http://{self._address}:{self.probe.port}{self.probe.path}"
        if answers(url, self.probe.timeout_seconds):
            self.succeeded, self._failures = True, 0
            return None
        self._failures += 1
        if self._failures < self.probe.failures:
            return None
        self.succeeded = False
        return f"{self.probe.path} failed {self._failures} times in a row"


def answers(url: str, timeout_seconds: float) -> bool:
    """Say whether a URL answers below 400 in time."""
    try:
        with _DIRECT.open(url, timeout=timeout_seconds) as answer:
            return bool(answer.status < 400)  # noqa: PLR2004 - the kubelet's limit
    except (OSError, urllib.error.URLError):
        return False


class RunningPod:
    """One pod's containers, started in order.

    Attributes:
        pod: With every substitution made.
        address: Its loopback address.
        containers: By name; those that have been started.
        ending: Whether it has been asked to end.
    """

    def __init__(
        self,
        pod: Pod,
        *,
        address: str,
        sandbox: Sandbox,
        changed: Callable[[RunningPod], None],
    ) -> None:
        """Prepare it; nothing runs before ``start``."""
        self.pod, self.address = pod, address
        self.containers: dict[str, RunningContainer] = {}
        self.ending = False
        self._sandbox, self._on_change = sandbox, changed

    @property
    def ready(self) -> bool:
        """Whether every container is."""
        return len(self.containers) == len(self.pod.containers) and all(
            container.ready for container in self.containers.values()
        )

    def start(self, *, seconds: float) -> None:
        """Start the containers one after the other, each when the one before has started.

        Raises:
            ServerError: One of them did not start in time.
        """
        self.ending = False
        for container in self.pod.containers:
            running = RunningContainer(
                container,
                label=f"{self.pod.name}.{container.name}",
                address=self.address,
                sandbox=self._sandbox,
                changed=lambda: self._on_change(self),
                grace_seconds=self.pod.grace_seconds,
            )
            self.containers[container.name] = running
            # Without a probe it was ready before anybody could look at its pod.
            self._on_change(self)
            if container.sidecar:
                running.wait_until_started(seconds)

    def terminate(self) -> None:
        """End the pod as the kubelet does: its containers at once, then its sidecars, last first.

        All of them together have the pod's grace.
        """
        deadline = time.monotonic() + self.pod.grace_seconds
        self.ending = True
        self._on_change(self)
        running = list(self.containers.values())
        _terminate([one for one in running if not one.container.sidecar], deadline)
        for sidecar in reversed([one for one in running if one.container.sidecar]):
            _terminate([sidecar], deadline)
        self.containers.clear()
        self._on_change(self)

    def stop(self) -> None:
        """End the containers at once, the last one first."""
        for container in reversed(self.containers.values()):
            container.stop()
        self.containers.clear()
        self._on_change(self)


def _terminate(containers: Iterable[RunningContainer], deadline: float) -> None:
    """End containers side by side, in what is left of their pod's grace."""
    left = max(deadline - time.monotonic(), 0.0)
    threads = [threading.Thread(target=one.terminate, args=(left,)) for one in containers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
