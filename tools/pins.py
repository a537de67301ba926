"""Regenerates requirements.txt, -dev, -rehearsal, -bench and the router image's requirements.txt.

One resolution for every Python from 3.11 on and for Linux and macOS. The files name packages and
versions only, never an index: they install through whatever index the machine is configured for.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = "uv==0.13.9"
HEAD = "# Written by `make pins` from pyproject.toml.\n"


def resolve(uv: str, *what: str) -> str:
    """Return the pinned closure of a file's or a group's requirements, one package a line."""
    argv = [uv, "pip", "compile", "--universal", "--python-version=3.11", "--no-emit-index-url"]
    argv += ["--no-header", "--quiet", "--upgrade", *what]
    return subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Write the files; but for separate environments, subsets of requirements-dev.txt."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = str(Path(scratch, "bin", "python"))
        subprocess.run([python, "-m", "pip", "install", "--quiet", UV], check=True)
        uv = str(Path(scratch, "bin", "uv"))
        everything = resolve(uv, "pyproject.toml", "--group=dev")
        constraints = Path(scratch, "constraints.txt")
        constraints.write_text(everything)
        runtime = resolve(uv, "pyproject.toml", f"--constraints={constraints}")
        router = Path(scratch, "router.in")
        router.write_text("vllm-router\n")
        image = resolve(uv, str(router), f"--constraints={constraints}")
        rehearsal = resolve(uv, "--group=pyproject.toml:rehearsal")  # an environment of its own
        load = resolve(uv, "--group=pyproject.toml:load")  # likewise
    (ROOT / "requirements.txt").write_text(f"{HEAD}-e .\n{strip(runtime)}")
    (ROOT / "requirements-dev.txt").write_text(f"{HEAD}-e .\n{strip(everything)}")
    (ROOT / "requirements-rehearsal.txt").write_text(HEAD + strip(rehearsal))
    (ROOT / "requirements-bench.txt").write_text(HEAD + strip(load))
    (ROOT / "images" / "router" / "requirements.txt").write_text(HEAD + strip(image))


def strip(pins: str) -> str:
    """Drop the comments that say who asked for a package."""
    return "".join(line for line in pins.splitlines(keepends=True) if "#" not in line)


if __name__ == "__main__":
    main()
