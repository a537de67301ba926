"""Finds Prometheus and promtool.

    python3 -m tools.prometheus     # prints the folder of both programs

Standard library only.
"""

import sys
from pathlib import Path

from tools.debian import NoProgramError, Package

PROMETHEUS = Package(
    name="prometheus",
    programs=("prometheus", "promtool"),
    folder="usr/bin",
    advice="install Prometheus (it brings promtool) and put both on PATH",
)


def programs() -> Path:
    """Return the folder that holds `prometheus` and `promtool`.

    Raises:
        NoProgramError: They are neither on PATH nor to be fetched.
    """
    return PROMETHEUS.find()


if __name__ == "__main__":
    try:
        print(programs())
    except NoProgramError as error:
        sys.exit(str(error))
