"""``kascade lock``: write down what is fixed once a configuration is deployed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kascade.config.loader import read_lock
from kascade.config.lock import lock_path, lock_text
from kascade.planning.loading import load_config
from kascade.planning.planner import plan_file


def add_lock(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    lock = verbs.add_parser(
        "lock", help="write down what cannot be changed once a configuration is deployed"
    )
    lock.add_argument("config", type=Path, help="the configuration file")
    lock.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the lock beside the configuration, or say that it is there already.

    Raises:
        InvalidConfigError: The configuration cannot be deployed, or differs from the lock.
    """
    plan_file(arguments.config)
    path = lock_path(arguments.config)
    text = lock_text(load_config(arguments.config), read_lock(path))
    if path.exists() and path.read_text(encoding="utf-8") == text:
        sys.stdout.write(f"{path} is as it should be\n")
        return 0
    # Made whole beside its place: half a lock would reject the next plan, or let a change pass.
    target = path.resolve()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".lock-") as scratch:
        whole = Path(scratch, target.name)
        whole.write_text(text, encoding="utf-8")
        whole.replace(target)
    sys.stdout.write(f"{path} written; commit it with {arguments.config.name}\n")
    return 0
