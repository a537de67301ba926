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

from kascade.config.lock import lock_path
from kascade.errors import KascadeError
from kascade.planning.loading import read_config

STANDARD_OUTPUT: Final = Path("-")
EXIT_INTERRUPTED: Final = 130
NO_OUTPUT: Final = (
    "standard output is closed, so nothing was done; leave it open, or send it to a file or to "
    "/dev/null"
)


def keep_inputs(target: Path, config: Path, what: str) -> None:
    """Reject to write a document over what it comes from.

    Args:
        target: Where it is to go.
        config: The configuration.
        what: The document, with its article.

    Raises:
        KascadeError: It would replace a configuration, a lock or a file that the configuration
            names, itself or through a link; or it names no file.
    """
    if target == Path():
        # An empty name is the same to Path, as of a variable that is not set.
        msg = f"--json is empty or the current folder: name a file for {what}, such as plan.json"
        raise KascadeError(msg)
    kept = "a configuration or its lock"
    # Not Path.resolve, which fails with a link that leads to itself.
    real = Path(os.path.realpath(target))
    suffixes = {path.suffix.lower() for path in (target, real)}
    if suffixes.isdisjoint({".lock", ".yaml", ".yml"}) and not _same(target, config):
        kept = _named(target, config)
    if kept:
        msg = (
            f"--json {target}: {what} is JSON, and this names {kept}, which it would replace; name "
            "another file, such as plan.json"
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


def _named(target: Path, config: Path) -> str:
    """Say which file of a configuration this is; nothing where it is none.

    A configuration that cannot be read names none, and is rejected before anything is written.
    """
    if not target.exists() or (read := read_config(config).config) is None:
        return ""
    files = [model.config_json for model in read.models]
    files.append(read.zone_offerings)
    for name in (lock_path(config).name, *files):
        if name is not None and _same(target, config.parent / name):
            return f"{config.parent / name} of {config}"
    chart = read.kubernetes.dependencies_chart
    if chart is not None and target.resolve().is_relative_to((config.parent / chart).resolve()):
        return f"a file of the chart {config.parent / chart}"
    return ""


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
