"""Faults of the shared directory: files that are cut or spoilt, a full disk, a read-only one."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.local.system import LocalSystem


def shared_directory(system: LocalSystem) -> Path:
    """Return the folder that stands in for L2."""
    directory = system.cache_directory
    assert directory is not None
    return directory


def chunk_files(system: LocalSystem) -> set[Path]:
    """List the chunks that lie in L2."""
    return set(shared_directory(system).glob("*.data"))


def cut(files: set[Path]) -> None:
    """Leave the first half of each file."""
    for path in files:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)


def spoil(files: set[Path]) -> None:
    """Put random bytes into each file, as many as there were."""
    for path in files:
        path.write_bytes(secrets.token_bytes(path.stat().st_size))


@contextmanager
def small_disk(system: LocalSystem, mebibytes: int) -> Iterator[Path]:
    """Put a small empty disk in the place of L2."""
    directory = shared_directory(system)
    with _mounted("-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", directory):
        for replica in system.target.replicas:
            (directory / f".tmp-{replica.name}").mkdir()
        yield directory


@contextmanager
def read_only(system: LocalSystem) -> Iterator[Path]:
    """Let nobody write into L2."""
    directory = shared_directory(system)
    with _mounted("--bind", directory, directory):
        _run("mount", "-o", "remount,bind,ro", directory)
        yield directory


@contextmanager
def _mounted(*arguments: str | Path) -> Iterator[None]:
    _run("mount", *arguments)
    try:
        yield
    finally:
        # Lazily: a server may still have a file open.
        _run("umount", "--lazy", arguments[-1])


def _run(*words: str | Path) -> None:
    ran = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, (
        f"{' '.join(map(str, words))}: {ran.stderr.strip()}. The faults of a disk are made by "
        "mounting, which takes root or, as in `make e2e`, a user namespace"
    )
