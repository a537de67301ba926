"""JSON for programs, to a file or to standard output."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kascade.errors import KascadeError

STANDARD_OUTPUT: Final = Path("-")
EXIT_INTERRUPTED: Final = 130


def keep_inputs(target: Path, config: Path, what: str) -> None:
    """Refuse to write a document over what it comes from.

    Args:
        target: Where it is to go.
        config: The configuration.
        what: The document, with its article.

    Raises:
        KascadeError: It would replace a configuration or a lock, or it names no file.
    """
    if target == Path():
        # An empty name is the same to Path, as of a variable that is not set.
        msg = f"--json is empty or the current folder: name a file for {what}, such as plan.json"
        raise KascadeError(msg)
    if target.suffix in {".lock", ".yaml", ".yml"} or _same(target, config):
        msg = (
            f"--json {target}: {what} is JSON, and this names a configuration or its lock, which "
            "it would replace; name another file, such as plan.json"
        )
        raise KascadeError(msg)


def keep_writable(target: Path) -> None:
    """See that a file can be written before anything takes its time, and leave it as it is.

    Raises:
        OSError: It cannot be written.
    """
    if target.is_file() or target.is_dir():
        os.close(os.open(target, os.O_WRONLY))
    elif not target.exists() and not target.is_symlink():
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        target.unlink()


def write_json(document: Mapping[str, object], target: Path) -> None:
    """Write a document to a file, or for ``-`` to standard output."""
    text = json.dumps(document, indent=2, default=str) + "\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    target.write_text(text, encoding="utf-8")


def interruptible(
    run: Callable[[argparse.Namespace], int],
) -> Callable[[argparse.Namespace], int]:
    """Let a verb that changes nothing be interrupted without a traceback."""

    @functools.wraps(run)
    def guarded(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; nothing was changed\n")
            return EXIT_INTERRUPTED

    return guarded


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
