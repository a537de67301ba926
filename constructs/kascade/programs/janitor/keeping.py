"""Keeps the directory into which a living pod's cache server writes before it publishes.

The server makes it when it starts, and never again: without it each store fails, and nothing says
so. On Curvine a directory expires like a file, when nothing was written into it for the volume's
time to live; so an engine that is idle for so long would lose it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from .report import Report

_TOKEN: Final = ".kascade-alive"  # noqa: S105 - a file's name

_MODE: Final = 0o755
"""As the server makes it. It is the same user, so it may write."""


def keep_directory(directory: int, name: str, how: str, *, report: Report) -> None:
    """Make a pod's directory, or write into it so that it looks young.

    Args:
        directory: The opened shared directory.
        name: The pod's directory in it.
        how: One of ``KEEPING``.
        report: Where it is counted.
    """
    try:
        if how == "made":
            os.mkdir(name, _MODE, dir_fd=directory)
        else:
            _renew(directory, name)
    except FileExistsError:
        return  # its pod was quicker
    except OSError:
        report.errors["keep"] += 1
        return
    report.kept_directories[how] += 1
    report.temp_directories += how == "made"


def _renew(directory: int, name: str) -> None:
    """Create a file in it and delete it, which moves a directory's time on any file system.

    A time that is merely set need not reach what counts the age.
    """
    inner = os.open(
        name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
    )
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(_TOKEN, flags, 0o600, dir_fd=inner))
        # Another janitor may have been quicker.
        with suppress(FileNotFoundError):
            os.unlink(_TOKEN, dir_fd=inner)
    finally:
        os.close(inner)
