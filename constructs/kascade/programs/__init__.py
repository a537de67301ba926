"""Programs that run inside a pod: the standard library, and nothing else of ours or anyone's."""

from __future__ import annotations

from pathlib import Path


def program_files(name: str) -> dict[str, str]:
    """Return the text of a program's files by their names, as a ConfigMap carries them.

    Args:
        name: Of the package below this one.

    >>> "__main__.py" in program_files("verify")
    True
    """
    folder = Path(__file__).parent / name
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}
