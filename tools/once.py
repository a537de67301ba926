"""Builds things once per machine, in the user's cache, shared by all checkouts.

Each lies in a folder named after a hash of its recipe, so a changed recipe is another folder. A
half-built one has no `complete` file and is built anew; a lock keeps two builds apart.
"""

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path


def location(kind: str, recipe: bytes) -> Path:
    """Return where what the recipe makes belongs."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    cache = (given if given.is_absolute() else Path.home() / ".cache") / "kascade"
    return cache / f"{kind}-{hashlib.sha256(recipe).hexdigest()[:16]}"


def built(kind: str, recipe: bytes, build: Callable[[Path], None]) -> Path:
    """Return the folder, after building it if it is not whole."""
    target = location(kind, recipe)
    if (target / "complete").exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            print(f"building {kind}, once per machine: {target}", file=sys.stderr, flush=True)
            shutil.rmtree(target, ignore_errors=True)
            build(target)
            (target / "complete").touch()
    return target
