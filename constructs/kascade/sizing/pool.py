"""Tier L2: what the nodes give to the shared pool. Curvine's GB is 1024**3 bytes."""

from __future__ import annotations

from typing import Final

from kascade.catalog.instances import InstanceType
from kascade.units import GB, GIB

NVME_SHARE: Final = 0.65
"""Share of the instance's NVMe that the pool takes by default; the rest stays for containers and
for blocks that are deleted but not yet freed (Curvine deletes with its 3 s heartbeat)."""

MAX_SHARE: Final = 0.9
"""Largest share of the NVMe that a configuration may ask for."""

EVICT_AT: Final = 0.9
"""Share of its part of the pool at which an engine begins to evict what it wrote. The rest is room
for what is written while it does; what open files reserve is taken off before."""

BLOCK_SIZE_MIB: Final = 128
"""Curvine's own block size. One for all, since it is an attribute of every volume and Kubernetes
changes no attribute of a volume that exists; a chunk of up to 128 MiB lies in one block."""


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


def lent_gib(instance: InstanceType, percentage: int) -> int:
    """RAM that one instance lends to HyperPod's tiered storage.

    >>> from kascade.catalog.instances import INSTANCES
    >>> lent_gib(INSTANCES["ml.g6e.4xlarge"], 20)
    25
    """
    return instance.ram_gib * percentage // 100


def engine_share_gib(node_gib: int, *, gpus: int, gpus_per_node: int) -> int:
    """What one engine may write: as much as its own GPUs' part of a node gives to the pool.

    All engines together fit the pool, since each GPU carries one engine at most. The number of
    replicas and of nodes does not matter: an engine's arguments, and with them its pods, stay the
    same when either changes.

    Args:
        node_gib: What one node gives, less what it holds back.
        gpus: GPUs of the engine.
        gpus_per_node: GPUs of the node.

    >>> engine_share_gib(313, gpus=1, gpus_per_node=1)
    313
    >>> engine_share_gib(2250, gpus=2, gpus_per_node=4)
    1125
    """
    return node_gib * gpus // gpus_per_node
