"""What is done about a restarted driver and the mounts that died with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .api import Api, NoAnswerError, Pod
from .dead import is_dead, pods_that_mount
from .settings import MountSettings

ASKING: Final = "starting"
"""File by which a starting driver asks; it waits until the file is gone."""

_MOUNTS: Final = Path("/proc/self/mountinfo")


def driver_state(node: str) -> str:
    """Name of the Secret in which Curvine's driver keeps its mounts of a node."""
    return f"curvine-csi-mount-{node}"


class Healer:
    """Two things, in this order: what the driver believes, then the pods."""

    def __init__(
        self,
        settings: MountSettings,
        api: Api,
        *,
        dead: Callable[[str], bool] = is_dead,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        Args:
            settings: What to keep to.
            api: The API server.
            dead: Says of a mount whether its server is gone.
            now: A clock.
        """
        self._settings, self._api, self._dead, self._now = settings, api, dead, now
        self._suspects: frozenset[str] = frozenset()
        self._healing = False
        self._rest_until = 0.0

    def step(self) -> None:
        """Look once; what fails is tried again at the next look."""
        try:
            if self._driver_is_ready():
                self._heal(frozenset(self._with_dead_mounts()))
        except (NoAnswerError, OSError) as error:
            _say(str(error))

    def _driver_is_ready(self) -> bool:
        """Clear what a starting driver would take for alive; all its mounts ended with it."""
        asking = Path(self._settings.handshake, ASKING)
        if not asking.exists():
            return True
        state = driver_state(self._settings.node)
        self._api.delete_secret(state, self._settings.driver_namespace)
        asking.unlink(missing_ok=True)
        _say(f"the driver starts; {state}, its mounts from before, is deleted")
        return False

    def _with_dead_mounts(self) -> list[str]:
        mounting = pods_that_mount(_MOUNTS.read_text(), self._settings.pods, self._settings.volumes)
        return [uid for uid, places in mounting.items() if any(map(self._dead, places))]

    def _heal(self, dead: frozenset[str]) -> None:
        # Twice in a row, since a pod that is leaving has a dead mount for a moment.
        certain, self._suspects = dead & self._suspects, dead
        if self._healing and not dead:
            self._healing = False
            self._rest_until = self._now() + self._settings.rest_seconds
            _say("every mount is alive again")
        # A driver that dies again and again must not keep the engines from serving.
        if not certain or self._now() < self._rest_until:
            return
        self._healing = True
        for pod in self._api.pods_on(self._settings.node, self._settings.namespace):
            if pod.uid in certain and not pod.leaving:
                self._evict(pod)

    def _evict(self, pod: Pod) -> None:
        why = "its mount of Curvine is dead, and only a new pod gets a new one"
        if self._api.evict(pod, self._settings.namespace):
            _say(f"{pod.name} is evicted: {why}")
        else:
            _say(f"{pod.name} waits for its disruption budget: {why}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the pod's log
