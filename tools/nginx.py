"""Finds nginx, for the tests of tenant gateways.

    python3 -m tools.nginx     # prints the program

Standard library only.
"""

import sys
from pathlib import Path

from tools.debian import NoProgramError, Package

NGINX = Package(
    name="nginx",
    programs=("nginx",),
    folder="usr/sbin",
    advice="install nginx and put it on PATH",
)


def program() -> Path:
    """Return nginx.

    Raises:
        NoProgramError: It is neither on PATH nor to be fetched.
    """
    return NGINX.find() / "nginx"


if __name__ == "__main__":
    try:
        print(program())
    except NoProgramError as error:
        sys.exit(str(error))
