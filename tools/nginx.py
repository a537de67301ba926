"""Finds nginx, which no Python package carries; fetches Debian's where apt is.

    python3 -m tools.nginx     # prints the program

Unpacked rather than installed: Debian's package would start a server on every address. Once per
machine, see tools/once.py. Standard library only.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tools.once import built

RECIPE = 1
"""Raised when `build` changes what it makes."""


class NoNginxError(Exception):
    """nginx is neither here nor to be had."""


def build(target: Path) -> None:
    """Unpack Debian's package into the folder."""
    target.mkdir(parents=True)

    def apt(*arguments: str) -> int:
        words = ["apt-get", "-qq", *arguments]
        return subprocess.run(words, cwd=target, check=False, capture_output=True).returncode

    # The lists of packages may be absent, and only root may fetch them.
    if apt("download", "nginx") and apt("update") == 0:
        apt("download", "nginx")
    for package in target.glob("nginx_*.deb"):
        subprocess.run(["dpkg", "--extract", package, target], check=True)  # noqa: S607
        package.unlink()
    if not (target / "usr" / "sbin" / "nginx").exists():
        msg = "apt-get could not download the package `nginx`"
        raise NoNginxError(msg)


def program() -> Path:
    """Return nginx.

    Raises:
        NoNginxError: It is neither on PATH nor to be fetched.
    """
    found = shutil.which("nginx")
    if found is not None:
        return Path(found)
    advice = "install nginx and put it on PATH"
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        msg = f"nginx is not on PATH, and there is no apt to fetch it with: {advice}"
        raise NoNginxError(msg)
    try:
        return built("nginx", f"debian {RECIPE}".encode(), build) / "usr" / "sbin" / "nginx"
    except NoNginxError as error:
        msg = f"nginx is not on PATH and {error}: {advice}"
        raise NoNginxError(msg) from None


if __name__ == "__main__":
    try:
        print(program())
    except NoNginxError as error:
        sys.exit(str(error))
