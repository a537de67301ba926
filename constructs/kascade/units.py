"""Sizes and how they are written: the only place that knows 1024."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
MIB_PER_GIB: Final = GIB // MIB
GB: Final = 1000**3
"""Disk makers, EC2's NVMe table and network rates count in thousands."""


def mib_to_gib(size_mib: float) -> float:
    """Convert MiB to GiB.

    >>> mib_to_gib(1536)
    1.5
    """
    return size_mib / MIB_PER_GIB


def format_bytes(size_bytes: float) -> str:
    """Write a size for a person, in the largest binary unit that keeps it above one.

    >>> format_bytes(57_344), format_bytes(15.2 * GIB), format_bytes(0)
    ('56.0 KiB', '15.2 GiB', '0 B')
    """
    for unit, factor in (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:,.1f} {unit}"
    return f"{size_bytes:,.0f} B"


def format_count(count: float) -> str:
    """Write a large count for a person.

    >>> format_count(950), format_count(434_567), format_count(19_400_000)
    ('950', '435 k', '19.4 M')
    >>> format_count(7_615_616_512)
    '7.62 B'
    """
    for unit, factor, digits in (("B", 1e9, 2), ("M", 1e7, 1), ("M", 1e6, 2), ("k", 1e4, 0)):
        if abs(count) >= factor:
            scale = {"B": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{count / scale:,.{digits}f} {unit}"
    return f"{count:,.0f}"


def counted(count: int, thing: str) -> str:
    """Write how many of a thing there are, with the plural that English adds an s for.

    >>> counted(1, "router"), counted(2, "router"), counted(0, "Curvine master")
    ('1 router', '2 routers', '0 Curvine masters')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
