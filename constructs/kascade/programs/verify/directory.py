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


def look_below(directory: str) -> Look:
    """Return a look at one directory of this machine, the same for all replicas.

    Args:
        directory: The base path of the replicas, or one above it.
    """

    def look(facts: Facts) -> Listing | str:
        root = Path(directory)
        if not root.is_dir():
            return f"{directory} is no directory here, so nobody looked into it"
        tmp_dir = facts.cache.tmp_dir if facts.cache else ""
        for folder, folders, files in os.walk(root):
            if tmp_dir in folders:
                names = frozenset(name for name in folders if name.startswith(TMP_PREFIX))
                chunks = frozenset(name for name in files if name.endswith(CHUNK_SUFFIX))
                return Listing(f"{folder} as seen from here", names, chunks)
        return Listing(f"{directory} as seen from here", frozenset(), frozenset())

    return look
