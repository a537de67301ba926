"""Which engines stand on which instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The outcome of placing engines on the instances of one group.

    Attributes:
        free_gpus: GPUs left on each instance.
        left_over: GPUs of the engines that found no place.
        engines_per_node: Most engines that stand on one instance.
    """

    free_gpus: tuple[int, ...]
    left_over: tuple[int, ...]
    engines_per_node: int

    def can_surge(self, gpus: int) -> bool:
        """Whether one more engine of some GPUs would find a place."""
        return any(free >= gpus for free in self.free_gpus)


def pack(engines: Sequence[int], *, nodes: int, gpus_per_node: int) -> Packing:
    """Place engines on instances, the largest first, each on the first that has room.

    Args:
        engines: GPUs of each engine; an engine never spans two instances.
        nodes: Number of instances.
        gpus_per_node: GPUs of one instance.

    >>> pack([1, 1], nodes=2, gpus_per_node=1)
    Packing(free_gpus=(0, 0), left_over=(), engines_per_node=1)
    >>> pack([4, 2, 1], nodes=2, gpus_per_node=4).can_surge(1)
    True
    >>> pack([3, 3], nodes=1, gpus_per_node=4).left_over
    (3,)
    """
    free = [gpus_per_node] * nodes
    counts = [0] * nodes
    left_over = []
    place, size = 0, 0
    for gpus in sorted(engines, reverse=True):
        if gpus != size:
            place, size = 0, gpus
        # Where the last engine of this size found no room, the next finds none either.
        while place < nodes and free[place] < gpus:
            place += 1
        if place == nodes:
            left_over.append(gpus)
        else:
            free[place] -= gpus
            counts[place] += 1
    return Packing(
        free_gpus=tuple(free),
        left_over=tuple(left_over),
        engines_per_node=max(counts, default=0),
    )
