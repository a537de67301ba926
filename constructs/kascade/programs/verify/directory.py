"""The shared directory as it can be listed: by this program, or by another one that prints JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from .facts import Facts
from .reading import Listing, Look

TMP_PREFIX: Final = ".tmp-"
"""Every LMCache server makes a directory of its own with this prefix below the base path."""

CHUNK_SUFFIX: Final = ".data"

LISTING: Final = """\
import hashlib, json, os, sys
names = os.listdir(sys.argv[1])
print(json.dumps({
    "tmp": [name for name in names if name.startswith(".tmp-")],
    "chunks": [
        hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        for name in names
        if name.endswith(".data")
    ],
}))
"""
"""Program for ``python3 -c`` in a replica's own container; its argument is the base path.

Names are shortened because a pool may hold half a million of them."""


def read_listing(text: str, where: str) -> Listing:
    """Read what ``LISTING`` printed.

    Raises:
        ValueError: It is something else.
    """
    try:
        found = json.loads(text)
        return Listing(where, frozenset(found["tmp"]), frozenset(found["chunks"]))
    except (KeyError, TypeError) as error:
        msg = f"not a listing: {error}"
        raise ValueError(msg) from None


def no_directory(facts: Facts) -> str:
    """Say why nobody looks into a replica's directory, or nothing where it names one."""
    if facts.cache is not None and facts.cache.base_path:
        return ""
    if facts.cache is None or not facts.cache.adapter:
        return f"{facts.name} names no directory of L2, so nobody looked into it"
    return f"L2 of {facts.name} is {facts.cache.adapter}, which has no directory to look into"


def look_below(directory: str) -> Look:
    """Return a look at one directory of this machine, the same for all replicas.

    Args:
        directory: The base path of the replicas, or one above it.
    """

    def look(facts: Facts) -> Listing | str:
        root = Path(directory)
        if not root.is_dir():
            return f"{directory} is no directory here, so nobody looked into it"
        if facts.cache is not None and (reason := no_directory(facts)):
            return reason
        tmp_dir = facts.cache.tmp_dir if facts.cache else ""
        for folder, folders, files in os.walk(root):
            if tmp_dir in folders:
                names = frozenset(name for name in folders if name.startswith(TMP_PREFIX))
                chunks = frozenset(name for name in files if name.endswith(CHUNK_SUFFIX))
                return Listing(f"{folder} as seen from here", names, chunks)
        return Listing(f"{directory} as seen from here", frozenset(), frozenset())

    return look
