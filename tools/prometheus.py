"""Finds Prometheus and promtool, which no Python package carries; fetches Debian's where apt is.

    python3 -m tools.prometheus     # prints the folder of both programs

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


class NoPrometheusError(Exception):
    """Prometheus is neither here nor to be had."""


def build(target: Path) -> None:
    """Unpack Debian's package into the folder."""
    target.mkdir(parents=True)

    def apt(*arguments: str, cwd: Path | None = None) -> int:
        words = ["apt-get", "-qq", *arguments]
        return subprocess.run(words, cwd=cwd, check=False, capture_output=True).returncode

    # The lists of packages may be absent, and only root may fetch them.
    if apt("download", "prometheus", cwd=target) and apt("update") == 0:
        apt("download", "prometheus", cwd=target)
    for package in target.glob("prometheus_*.deb"):
        subprocess.run(["dpkg", "--extract", package, target], check=True)  # noqa: S607
        package.unlink()
    if not (target / "usr" / "bin" / "prometheus").exists():
        msg = "apt-get could not download the package `prometheus`"
        raise NoPrometheusError(msg)


def programs() -> Path:
    """Return the folder that holds `prometheus` and `promtool`.

    Raises:
        NoPrometheusError: They are neither on PATH nor to be fetched.
    """
    found = shutil.which("prometheus")
    if found is not None and shutil.which("promtool") is not None:
        return Path(found).parent
    advice = "install Prometheus (it brings promtool) and put both on PATH"
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        msg = f"prometheus is not on PATH, and there is no apt to fetch it with: {advice}"
        raise NoPrometheusError(msg)
    try:
        return built("prometheus", f"debian {RECIPE}".encode(), build) / "usr" / "bin"
    except NoPrometheusError as error:
        msg = f"prometheus is not on PATH and {error}: {advice}"
        raise NoPrometheusError(msg) from None


if __name__ == "__main__":
    try:
        print(programs())
    except NoPrometheusError as error:
        sys.exit(str(error))
