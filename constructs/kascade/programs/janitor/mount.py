"""The verification, before anything is deleted, that the directory is the shared one."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_POINT = 4
"""Field of a line that names the mount point; see proc_pid_mountinfo(5)."""


class WrongDirectoryError(Exception):
    """Not the shared directory, in a sentence."""


def filesystem_at(path: str, mounts: str) -> str | None:
    """Return the type of what is mounted at a path, or None where nothing is.

    Args:
        path: The mount point.
        mounts: Text of ``/proc/self/mountinfo``; the last mount at a path hides those before it.

    >>> filesystem_at("/mnt/kv", "36 35 0:98 / /mnt/kv rw - fuse.curvine curvine rw")
    'fuse.curvine'
    >>> filesystem_at("/mnt", "36 35 0:98 / /mnt/kv rw - fuse.curvine curvine rw")
    """
    found = None
    for line in mounts.splitlines():
        mount, _, rest = line.partition(" - ")
        if mount.split()[_POINT] == path:
            found = rest.split()[0]
    return found


def open_directory(path: str, *, filesystem: str, marker: str) -> int:
    """Open the shared directory; everything else is done through what this returns.

    Args:
        path: Where it is mounted.
        filesystem: Beginning of the type that the mount must have; empty asks for no mount.
        marker: File that must be in it.

    Raises:
        WrongDirectoryError: It is another one, such as the folder that a mount should hide.
        OSError: The mount does not answer, in other words than that the marker is absent.
    """
    if filesystem:
        kind = filesystem_at(path, _MOUNTS.read_text())
        if kind is None or not kind.startswith(filesystem):
            msg = f"{path} is {kind or 'no mount'}, not {filesystem}"
            raise WrongDirectoryError(msg)
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.stat(marker, dir_fd=opened, follow_symlinks=False)
    except FileNotFoundError:
        os.close(opened)
        msg = f"{path} has no {marker}"
        raise WrongDirectoryError(msg) from None
    except OSError:
        os.close(opened)
        raise
    return opened
