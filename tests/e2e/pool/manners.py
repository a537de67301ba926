"""What the file system shall do wrong, changed while it runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

BLOCK_BYTES = 128 << 20
"""What an open file reserves."""

BUFFER_BYTES = 1 << 20
"""What a client keeps before a worker sees any of it. A failure over what is smaller can only be
told at ``close()``."""

TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Manners:
    """Every switch.

    Attributes:
        workers: Nodes that blocks lie on; a file's by its name.
        silent: Those that do not answer: each call that needs one takes the client's time limit.
        lost: Those that the master has given up: an error at once.
        failing_closes: How many times from now a worker fails between last write and ``close()``.
        master_away: Whether each call about names takes the client's time limit.
        capacity_bytes: Of the pool, or 0 for no bound.
        ttl_seconds: Age that is stamped on all that is made through the mount, or 0.
        stalling: Step of a store that takes the client's time limit and then succeeds: open,
            write, close or rename.
        timeout_seconds: The client's time limit.
        block_bytes: What an open file reserves.
        buffer_bytes: What a client keeps back.
    """

    workers: int = 2
    silent: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    failing_closes: int = 0
    master_away: bool = False
    capacity_bytes: int = 0
    ttl_seconds: float = 0
    stalling: str = ""
    timeout_seconds: float = TIMEOUT_SECONDS
    block_bytes: int = BLOCK_BYTES
    buffer_bytes: int = BUFFER_BYTES

    def write(self, path: Path) -> None:
        """Put them where the file system looks, in one step."""
        beside = path.with_name(f"{path.name}.new")
        beside.write_text(json.dumps(asdict(self)))
        beside.replace(path)

    @classmethod
    def read(cls, path: Path) -> Manners:
        """Read what ``write`` wrote."""
        read = json.loads(path.read_text())
        return cls(**{**read, "silent": tuple(read["silent"]), "lost": tuple(read["lost"])})
