"""What a round has done so far, as it tells its watcher: a line of JSON, again and again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

REASONS = ("mark", "disk", "unreadable", "incomplete", "dead_pod")
"""Why something is deleted: the directory is above its mark, the file system is full, a file cannot
be read, a file is not a whole object, a temp directory's pod is gone."""

ERRORS = ("guard", "mount", "stat", "unlink", "api", "keep")
"""What a round may count: no mount or marker, a listing that failed, a file that could not be
looked at, one that could not be deleted, an API server that did not answer, a living pod's own
directory that could not be kept."""

KEEPING = ("renewed", "made")
"""What a living pod's own directory may need: to look young, or to be there at all."""


@dataclass(slots=True, kw_only=True)
class Report:
    """One round, in sums from its beginning.

    Attributes:
        files: Cached files in the directory now.
        used_bytes: Their size.
        spared_files: Those too young to be deleted.
        temp_directories: Pods' own directories in it.
        disk_used: Share of the whole file system that is taken, by its own word.
        disk_full: Whether that counts as full.
        deleted_files: By reason.
        deleted_bytes: By reason.
        errors: By kind.
        kept_directories: Living pods' own directories that were renewed or made.
        probed_files: How many a byte was read of.
        unreadable: Names of those that could not be read and are still there.
        cleared: Suspects that are no longer: readable again, or gone.
        short: Files that are not whole and are still there, with their times of writing.
        whole: Size of a whole object of each kind.
        peak_rss_kib: Most memory of the round's process.
        rejected: Why nothing was done at all.
        done: Whether the round came to its end.
    """

    files: int = 0
    used_bytes: int = 0
    spared_files: int = 0
    temp_directories: int = 0
    disk_used: float = 0.0
    disk_full: bool = False
    deleted_files: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    deleted_bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    errors: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERRORS, 0))
    kept_directories: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEEPING, 0))
    probed_files: int = 0
    unreadable: list[str] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)
    short: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    peak_rss_kib: int = 0
    refused: str = ""
    done: bool = False

    def count(self, reason: str, size: int) -> None:
        """Count one deleted file."""
        self.deleted_files[reason] += 1
        self.deleted_bytes[reason] += size

    def line(self) -> bytes:
        """Write it."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Report:
        """Read what ``line`` wrote."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a round has to know of the rounds before it.

    Attributes:
        part: Which part of all files a byte is read of, counted round by round.
        parts: How many parts there are.
        probes: Most files to read a byte of.
        ripe: Files that could not be read long ago, to be tried once more and then deleted.
        known: Files that could not be read lately, not to be tried again yet.
        disk_was_full: Whether the round before found the file system full.
        short: Files that were not whole in the round before, with their times of writing.
        whole: Size of a whole object of each kind, as the round before saw it.
    """

    part: int = 0
    parts: int = 1
    probes: int = 0
    ripe: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    disk_was_full: bool = False
    short: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)

    def line(self) -> bytes:
        """Write it."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Order:
        """Read what ``line`` wrote."""
        read = json.loads(line)
        return cls(**{**read, "ripe": tuple(read["ripe"]), "known": tuple(read["known"])})
