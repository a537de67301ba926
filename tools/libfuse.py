"""Finds libfuse, for the tests over a file system with Curvine's manners.

    python3 -m tools.libfuse     # prints the library

Standard library only.
"""

import ctypes.util
import sys
from pathlib import Path

from tools.debian import RECIPE, NoProgramError, unpack
from tools.once import built

NAMES = {"libfuse3-3": "libfuse3.so.3", "libfuse3-4": "libfuse3.so.4"}
"""Debian's packages, of which a release has one, and the library in each."""


def library() -> str:
    """Return a name or path that the loader takes.

    Raises:
        NoProgramError: It is neither installed nor to be fetched.
    """
    if (installed := ctypes.util.find_library("fuse3")) is not None:
        return installed
    try:
        folder = built("libfuse3", f"debian {RECIPE}".encode(), _build)
    except NoProgramError as error:
        msg = f"libfuse3 is not installed and {error}: install the package fuse3 or libfuse3"
        raise NoProgramError(msg) from None
    return str(next(path for name in NAMES.values() for path in folder.rglob(name)))


def _build(target: Path) -> None:
    refused = None
    for name, found in NAMES.items():
        try:
            unpack(name, target)
        except NoProgramError as error:
            refused = error
            continue
        if any(target.rglob(found)):
            return
    raise refused or NoProgramError("Debian's package of it holds none")


if __name__ == "__main__":
    try:
        print(library())
    except NoProgramError as error:
        sys.exit(str(error))
