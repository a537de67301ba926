"""Deletes files and dead pods' directories, while others delete and write beside it."""

from __future__ import annotations

import os
from typing import Final

from .listing import Found, Pace
from .report import Report

MOST_FAILURES: Final = 100
"""A round that cannot delete so many files, on a read-only mount for instance, gives up."""


def delete_file(directory: int, found: Found, *, reason: str, report: Report) -> bool:
    """Delete a file unless it has been written again since it was seen.

    Args:
        directory: The opened directory.
        found: As it was listed.
        reason: One of ``REASONS``.
        report: Where it is counted.

    Returns:
        Whether its bytes are gone now, by our hand or another's.
    """
    try:
        now = os.stat(found.name, dir_fd=directory, follow_symlinks=False)
        if now.st_mtime_ns != found.mtime_ns:
            return False
        os.unlink(found.name, dir_fd=directory)
    except FileNotFoundError:
        # Another janitor, its engine or its time to live was quicker. It counts as gone, or two
        # janitors together would delete twice as much as is needed.
        report.files -= 1
        report.used_bytes -= found.size
        return True
    except OSError:
        report.errors["unlink"] += 1
        return False
    report.count(reason, found.size)
    report.files -= 1
    report.used_bytes -= found.size
    return True


def delete_oldest(  # noqa: PLR0913 - keyword-only but for two
    directory: int, files: list[Found], *, excess: int, reason: str, report: Report, pace: Pace
) -> int:
    """Delete files in the given order until so many bytes are gone.

    Returns:
        How many files are gone; some may have been empty.
    """
    files_gone, bytes_gone = 0, 0
    for found in files:
        if bytes_gone >= excess or report.errors["unlink"] >= MOST_FAILURES:
            break
        pace.step()
        if delete_file(directory, found, reason=reason, report=report):
            files_gone += 1
            bytes_gone += found.size
    return files_gone


def delete_temp_directory(directory: int, name: str, *, report: Report, pace: Pace) -> None:
    """Delete a dead pod's directory with the files in it.

    It is opened without following a link, and so is nothing below it: a pod that can write into the
    shared directory must not lead the janitor out of it.
    """
    try:
        inner = os.open(
            name,
            os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
            dir_fd=directory,
        )
    except FileNotFoundError:
        return
    except OSError:
        report.errors["unlink"] += 1
        return
    try:
        with os.scandir(inner) as entries:
            # All names first: deleting under an open listing may hide some of them.
            names = [entry.name for entry in entries]
        for one in names:
            pace.step()
            _delete_inside(inner, one, report)
        os.rmdir(name, dir_fd=directory)
        report.temp_directories -= 1
    except FileNotFoundError:
        return
    except OSError:
        report.errors["unlink"] += 1
    finally:
        os.close(inner)


def _delete_inside(directory: int, name: str, report: Report) -> None:
    try:
        size = os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError:
        report.errors["unlink"] += 1
        return
    report.count("dead_pod", size)
