"""Finds files that are not a whole object, which stay hits that nobody can load.

Curvine tells of a worker's failure when a file is closed, and LMCache publishes it all the same: an
empty file under a good name. The name exists, so no engine ever writes it again, and each prompt
that finds it is computed anew. All objects of one rank and group in a directory have one size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .listing import Found

ENOUGH: Final = 3
"""Files of one size that say more about a whole object than a number that somebody worked out, if
they are most of their kind."""

MOST_SHORT: Final = 5000
"""Short files to remember from one round to the next; more are found once these are gone."""

_MOST_SIZES: Final = 1000
"""Sizes to count of one kind, and kinds to count: a directory full of nonsense costs no memory."""

_PARTS: Final = 4


def kind_of(name: str) -> str:
    """Return what a file's size depends on, of its name; empty for a name that LMCache never makes.

    >>> kind_of("org-SEP-model@0x01000100@00@9f3c.data"), kind_of("9f3c.data")
    ('0x01000100@00', '')
    """
    parts = name.split("@")
    return "@".join(parts[1:3]) if len(parts) >= _PARTS else ""


def whole_bytes(counts: Mapping[int, int], planned: int) -> int:
    """Return the size of a whole object of one kind; 0 where nobody knows.

    Args:
        counts: How many files of the kind have which size.
        planned: What the deployment's plan says, or 0.

    >>> whole_bytes({100: 1, 40: 9}, 100), whole_bytes({80: 3, 0: 9}, 100), whole_bytes({80: 2}, 0)
    (100, 80, 0)
    """
    if planned in counts:
        return planned
    filled = {size: count for size, count in counts.items() if size}
    seen = max(filled, key=lambda size: filled[size], default=0)
    most = seen and filled[seen] >= ENOUGH and 2 * filled[seen] > sum(filled.values())
    return seen if most else planned


class Wholeness:
    """Counts the sizes of one listing, by what the rounds before have learned of them.

    Attributes:
        short: Files that are not whole.
    """

    def __init__(self, known: Mapping[str, int], planned: int) -> None:
        """Begin.

        Args:
            known: Size of a whole object of each kind that the round before saw.
            planned: The same by the deployment's plan, or 0.
        """
        self.short: list[Found] = []
        self._known, self._planned = known, planned
        self._counts: dict[str, dict[int, int]] = {}

    def see(self, found: Found) -> None:
        """Look at one file, however young it is: a published one is complete or will never be."""
        kind = kind_of(found.name)
        if kind and (kind in self._counts or len(self._counts) < _MOST_SIZES):
            sizes = self._counts.setdefault(kind, {})
            if found.size in sizes or len(sizes) < _MOST_SIZES:
                sizes[found.size] = sizes.get(found.size, 0) + 1
        whole = self._known.get(kind, self._planned) if kind else 0
        if found.size < max(whole, 1) and len(self.short) < MOST_SHORT:
            self.short.append(found)

    def learned(self) -> dict[str, int]:
        """Return what a whole object of each kind measures, for the round that follows."""
        return {kind: whole_bytes(sizes, self._planned) for kind, sizes in self._counts.items()}
