"""What the program is told, and the numbers that it sets itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any


def _setting(text: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class JanitorSettings:
    """Every flag; a name with ``_`` is one with ``-`` on the command line."""

    directory: str = _setting("the shared directory")
    marker: str = _setting("file in it without which nothing is deleted; never deleted itself")
    high_bytes: int = _setting("above this the oldest files are deleted")
    low_bytes: int = _setting("down to this")
    temp_prefix: str = _setting("beginning of the name of a pod's own directory in it", ".tmp-")
    suffix: str = _setting("end of the name of a cached file; no other file is touched", ".data")
    filesystem: str = _setting("beginning of the mount's type; empty accepts a folder", "")
    fresh_seconds: float = _setting("files and directories younger than this are spared", 600)
    interval_seconds: float = _setting("pause between two rounds", 60)
    step_seconds: float = _setting("a round that makes no progress for so long is stuck", 60)
    unreadable_seconds: float = _setting(
        "a file that cannot be read is deleted when that has not changed so much later", 1200
    )
    object_bytes: int = _setting(
        "size of a whole cached file; 0 learns it from the files that are there", 0
    )
    disk_full_at: float = _setting("use of the whole file system that counts as full; 1 is off", 1)
    page: int = _setting("entries that are listed or deleted between two pauses", 500)
    pause_seconds: float = _setting("how long such a pause is", 0.05)
    probes: int = _setting("files that a round reads a byte of, at most", 200)
    namespace: str = _setting("where the pods are that may own a temp directory", "")
    selector: str = _setting("their labels; empty keeps every temp directory", "")
    api_url: str = _setting("Kubernetes API; the cluster's own unless given", "")
    host: str = _setting("address of /metrics and /healthz", "127.0.0.1")
    port: int = _setting("its port", 9100)


def parser() -> argparse.ArgumentParser:
    """Return a parser with one flag for each setting."""
    made = argparse.ArgumentParser(prog="janitor", description=__doc__, allow_abbrev=False)
    kinds = {"str": str, "int": int, "float": float}
    for one in fields(JanitorSettings):
        required = one.default is MISSING
        made.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=kinds[str(one.type)],
            help=one.metadata["help"],
            required=required,
            default=None if required else one.default,
        )
    return made


def settings(arguments: Sequence[str]) -> JanitorSettings:
    """Read the command line.

    Raises:
        SystemExit: It is wrong; what is wrong has been printed.
    """
    read = parser()
    found = JanitorSettings(**vars(read.parse_args(arguments)))
    if not 0 <= found.low_bytes < found.high_bytes:
        read.error(f"--low-bytes={found.low_bytes} is not below --high-bytes={found.high_bytes}")
    if not found.temp_prefix or not found.suffix or not found.marker:
        read.error("--temp-prefix, --suffix and --marker cannot be empty")
    if found.marker.endswith(found.suffix) or found.marker.startswith(found.temp_prefix):
        read.error(f"--marker={found.marker} looks like something that is deleted")
    return found
