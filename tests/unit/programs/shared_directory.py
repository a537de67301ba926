"""A shared directory on a real disk, and one round of the janitor on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kascade.programs.janitor.listing import KEPT
from kascade.programs.janitor.report import Order, Report
from kascade.programs.janitor.round import Round
from kascade.programs.janitor.settings import JanitorSettings

MARKER = ".kascade-volume"
FRESH = 600
OLD = 10_000


def settings(directory: Path, **changes: object) -> JanitorSettings:
    given: dict[str, object] = {
        "directory": str(directory),
        "marker": MARKER,
        "high_bytes": 1000,
        "low_bytes": 500,
        "fresh_seconds": FRESH,
        "pause_seconds": 0,
        "namespace": "serving",
        "selector": "app=engine",
    }
    return JanitorSettings(**given | changes)  # type: ignore[arg-type]


def age(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)
    return path


@dataclass
class Shared:
    """A directory with its marker."""

    path: Path
    living: Callable[[], frozenset[str]] = field(default=lambda: frozenset({"alive"}))

    def __post_init__(self) -> None:
        (self.path / MARKER).touch()

    def file(self, name: str, size: int = 100, seconds: float = OLD) -> Path:
        path = self.path / name
        with path.open("wb") as file:
            file.truncate(size)
        return age(path, seconds)

    def temp(self, pod: str, seconds: float = OLD, *files: str) -> Path:
        path = self.path / f".tmp-{pod}"
        path.mkdir()
        for name in files:
            (path / name).write_bytes(b"half")
        return age(path, seconds)

    def names(self) -> set[str]:
        """Of all but the marker and the directory that each round keeps for the pod ``alive``."""
        return {entry.name for entry in self.path.iterdir()} - {MARKER, ".tmp-alive"}

    def round(self, order: Order | None = None, *, limit: int = KEPT, **changes: object) -> Report:
        """Do a round."""
        opened = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return Round(
                opened,
                settings(self.path, **changes),
                order or Order(),
                living=self.living,
                limit=limit,
            ).run()
        finally:
            os.close(opened)
