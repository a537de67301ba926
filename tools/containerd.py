"""Finds containerd and its client, for the tests of the nodes' lifecycle script.

    python3 -m tools.containerd     # prints the folder of both programs

Standard library only.
"""

import sys
from pathlib import Path

from tools.debian import NoProgramError, Package

CONTAINERD = Package(
    name="containerd",
    programs=("containerd", "ctr"),
    folder="usr/bin",
    advice="install containerd (it brings ctr) and put both on PATH",
)


def programs() -> Path:
    """Return the folder that holds `containerd` and `ctr`.

    Raises:
        NoProgramError: They are neither on PATH nor to be fetched.
    """
    return CONTAINERD.find()


if __name__ == "__main__":
    try:
        print(programs())
    except NoProgramError as error:
        sys.exit(str(error))
