"""Finds programs that no Python package carries; fetches Debian's package of them where apt is.

Unpacked rather than installed: Debian's packages of servers start them. Once per machine, see
tools/once.py. Standard library only.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.once import built

RECIPE = 1
"""Raised when `build` changes what it makes."""


class NoProgramError(Exception):
    """A program is neither here nor to be had."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One of Debian's packages.

    Attributes:
        name: The package, and a program in it.
        programs: What must be on PATH, or it is fetched.
        folder: Where its programs lie in it.
        advice: What a person can do where it cannot be fetched.
    """

    name: str
    programs: tuple[str, ...]
    folder: str
    advice: str

    def find(self) -> Path:
        """Return the folder of its programs.

        Raises:
            NoProgramError: They are neither on PATH nor to be fetched.
        """
        here = [shutil.which(program) for program in self.programs]
        if here[0] is not None and None not in here:
            return Path(here[0]).parent
        missing = " and ".join(self.programs)
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            msg = f"{missing} not on PATH, and there is no apt to fetch them with: {self.advice}"
            raise NoProgramError(msg)
        try:
            return built(self.name, f"debian {RECIPE}".encode(), self._build) / self.folder
        except NoProgramError as error:
            msg = f"{missing} not on PATH and {error}: {self.advice}"
            raise NoProgramError(msg) from None

    def _build(self, target: Path) -> None:
        """Unpack the package into the folder."""
        unpack(self.name, target)
        if not (target / self.folder / self.name).exists():
            msg = f"apt-get could not download the package `{self.name}`"
            raise NoProgramError(msg)


def unpack(name: str, target: Path) -> None:
    """Download a package and unpack it into a folder.

    Raises:
        NoProgramError: There is no apt, or no such package.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        msg = "there is no apt to fetch it with"
        raise NoProgramError(msg)
    target.mkdir(parents=True, exist_ok=True)

    def apt(*arguments: str) -> int:
        words = ["apt-get", "-qq", *arguments]
        return subprocess.run(words, cwd=target, check=False, capture_output=True).returncode

    # The lists of packages may be absent, and only root may fetch them.
    if apt("download", name) and apt("update") == 0:
        apt("download", name)
    found = list(target.glob(f"{name}_*.deb"))
    for package in found:
        subprocess.run(["dpkg", "--extract", package, target], check=True)  # noqa: S607
        package.unlink()
    if not found:
        msg = f"apt-get could not download the package `{name}`"
        raise NoProgramError(msg)
