"""Builds the environment that holds the load generator of `kascade bench`, once per machine.

It lives in the user's cache (see tools/once.py); `.venv-bench` in the checkout is a link to it,
where `kascade bench` looks for it.
"""

import subprocess
import sys
from pathlib import Path

from tools.once import built

ROOT = Path(__file__).parents[1]
PINS = ROOT / "requirements-bench.txt"
LINK = ROOT / ".venv-bench"
RECIPE = 1
"""Raised when `build` changes what it makes of the same pins."""


def build(target: Path) -> None:
    """Install exactly the pins; they are complete, so nothing is resolved."""
    subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
    argv = [str(target / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run([*argv, "--quiet", "--no-deps", "-r", str(PINS)], check=True)


def load_generator() -> Path:
    """Return the program, its environment built if need be."""
    return (
        built("bench", PINS.read_bytes() + f"{RECIPE} {sys.version}".encode(), build)
        / "bin"
        / "aiperf"
    )


def main() -> None:
    """Make sure the environment exists and the checkout's link points to it."""
    target = load_generator().parents[1]
    if LINK.is_symlink() and LINK.readlink() != target:
        LINK.unlink()
    if not LINK.is_symlink():
        LINK.symlink_to(target, target_is_directory=True)


if __name__ == "__main__":
    main()
