"""Tier L2: what the nodes' NVMe gives to the shared pool. Curvine's GB is 1024**3 bytes."""

from __future__ import annotations

from typing import Final

from kascade.catalog.instances import InstanceType
from kascade.units import GB, GIB, MIB

NVME_SHARE: Final = 0.65
"""Share of the instance's NVMe that the pool takes by default; the rest stays for containers and
for blocks that are deleted but not yet freed (Curvine deletes with its 3 s heartbeat)."""

FILL_SHARE: Final = 0.9
"""Share of the usable pool that all engines together may fill, so that a write in flight, which
reserves a whole Curvine block, still finds room."""

SMALL_BLOCK_MB: Final = 64
LARGE_BLOCK_MB: Final = 128


def nvme_gib(instance: InstanceType) -> int:
    """NVMe of one instance in whole GiB.

    >>> from kascade.catalog.instances import INSTANCES
    >>> nvme_gib(INSTANCES["ml.g6e.4xlarge"])
    558
    """
    return instance.nvme_gb * GB // GIB


def default_capacity_gib(instance: InstanceType) -> int:
    """What an instance gives to the pool unless told otherwise.

    >>> from kascade.catalog.instances import INSTANCES
    >>> default_capacity_gib(INSTANCES["ml.g6e.4xlarge"])
    363
    """
    return int(instance.nvme_gb * GB * NVME_SHARE // GIB)


def engine_share_gib(usable_gib: int, engines: int) -> int:
    """What one engine may write, so that all engines together fit the pool.

    >>> engine_share_gib(626, 2)
    281
    """
    return int(usable_gib * FILL_SHARE) // max(1, engines)


def block_size_mb(chunk_bytes: int) -> int:
    """Curvine's block size: the smaller one that holds a chunk file whole.

    >>> block_size_mb(14 * MIB), block_size_mb(100 * MIB)
    (64, 128)
    """
    return SMALL_BLOCK_MB if chunk_bytes <= SMALL_BLOCK_MB * MIB else LARGE_BLOCK_MB
