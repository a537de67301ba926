"""Which pods of this node have a mount whose server is gone."""

from __future__ import annotations

import errno
import os
import re
import threading
from typing import Final

PROBE_SECONDS: Final = 2.0
"""A mount that does not answer for so long is not dead, but hangs: its server is still there."""


def pods_that_mount(mounts: str, folder: str, volumes: str) -> dict[str, list[str]]:
    """Return the mounts of some volumes in the kubelet's directories, by the pod's uid.

    Args:
        mounts: Text of ``/proc/self/mountinfo``.
        folder: The kubelet's directory of pods.
        volumes: Beginning of the volumes' names: other drivers' mounts are none of ours.

    >>> line = "9 8 0:98 / /k/pods/u-1/volumes/kubernetes.io~csi/kv-1/mount rw - fuse curvine rw"
    >>> pods_that_mount(line, "/k/pods", "kv-")
    {'u-1': ['/k/pods/u-1/volumes/kubernetes.io~csi/kv-1/mount']}
    >>> pods_that_mount(line, "/k/pods", "weights-")
    {}
    """
    named = re.escape(volumes)
    place = re.compile(
        rf"{re.escape(folder)}/([^/]+)/volumes/kubernetes\.io~csi/{named}[^/]*/mount"
    )
    found: dict[str, list[str]] = {}
    for line in mounts.splitlines():
        point = line.split()[4]
        if matched := place.fullmatch(point):
            found.setdefault(matched[1], []).append(point)
    return found


_LOOKING: Final[dict[str, threading.Thread]] = {}
"""A call that has not returned, by its path: a second one would wait beside it for ever."""


def is_dead(path: str, seconds: float = PROBE_SECONDS) -> bool:
    """Say whether a mount's server is gone.

    A call on a mount whose server hangs may not return, so a thread of its own makes it.
    """
    hanging = _LOOKING.get(path)
    if hanging is not None and hanging.is_alive():
        return False
    told: list[int | None] = []

    def look() -> None:
        try:
            os.stat(path)  # noqa: PTH116 - no more than one call
        except OSError as error:
            told.append(error.errno)

    thread = threading.Thread(target=look, daemon=True)
    _LOOKING[path] = thread
    thread.start()
    thread.join(seconds)
    if not thread.is_alive():
        del _LOOKING[path]
    return told == [errno.ENOTCONN]
