"""Tier L2 by kind: which part of it one engine gets, and what stands before it."""

from __future__ import annotations

from kascade.catalog.instances import InstanceType
from kascade.config.blocks import CurvineConfig, DirectoryConfig
from kascade.sizing import host, pool
from kascade.sizing.l2 import L2Share
from kascade.sizing.transfer import Limit
from kascade.units import MIB


def curvine_share(
    settings: CurvineConfig, instance: InstanceType, *, node_gib: int, gpus: int
) -> L2Share:
    """An engine's part of the pool on its nodes' NVMe.

    Args:
        settings: The configuration's block.
        instance: The engine's type.
        node_gib: What one node gives.
        gpus: GPUs of the engine.
    """
    usable = max(0, node_gib - settings.reserved_gib_per_node)
    return L2Share(
        capacity_gib=pool.engine_share_gib(usable, gpus=gpus, gpus_per_node=instance.gpus),
        usable=pool.EVICT_AT,
        reason=f"({node_gib} - {settings.reserved_gib_per_node} reserved) GiB of a node's "
        f"NVMe x {_of_gpus(gpus, instance.gpus)}, {pool.EVICT_AT:g} of it "
        "before eviction",
        mount_limit=_of_the_node(host.curvine_traffic(instance).limit, gpus, instance.gpus),
    )


def managed_share(instance: InstanceType, *, percentage: int, gpus: int) -> L2Share:
    """An engine's part of the RAM that its nodes lend to HyperPod's tiered storage.

    Args:
        instance: The engine's type.
        percentage: Share of each node's RAM.
        gpus: GPUs of the engine.

    >>> from kascade.catalog.instances import INSTANCES
    >>> managed_share(INSTANCES["ml.g6e.12xlarge"], percentage=25, gpus=2).capacity_gib
    48
    """
    lent = pool.lent_gib(instance, percentage)
    return L2Share(
        capacity_gib=pool.engine_share_gib(lent, gpus=gpus, gpus_per_node=instance.gpus),
        # HyperPod says neither what its daemon keeps for itself nor when it evicts.
        usable=1.0,
        reason=f"{percentage} % of {instance.ram_gib} GiB of a node's RAM x "
        f"{_of_gpus(gpus, instance.gpus)}; what the daemon keeps of it is not known",
        mount_limit=None,
    )


def directory_share(settings: DirectoryConfig, *, gpus: int, all_gpus: int) -> L2Share:
    """An engine's part of the file system that the user brings.

    Args:
        settings: The configuration's block.
        gpus: GPUs of the engine.
        all_gpus: GPUs of all groups that a model runs on. Not the number of engines: another number
            of replicas must not change an engine's arguments and so restart it (decision 8).
    """
    read = settings.read_mib_per_second
    return L2Share(
        capacity_gib=settings.capacity_gib * gpus // max(1, all_gpus),
        usable=pool.EVICT_AT,
        reason=f"{settings.capacity_gib} GiB of {settings.claim} x {_of_gpus(gpus, all_gpus)}, "
        f"{pool.EVICT_AT:g} of it before eviction",
        mount_limit=None
        if read is None
        else Limit(bytes_per_second=read * MIB, name=f"{read} MiB/s of the file system"),
    )


def _of_the_node(limit: Limit, gpus: int, all_gpus: int) -> Limit:
    """One FUSE process serves all engines of a node."""
    if gpus == all_gpus:
        return limit
    return Limit(
        bytes_per_second=limit.bytes_per_second * gpus / all_gpus,
        name=f"{limit.name} x {_of_gpus(gpus, all_gpus)}",
    )


def _of_gpus(gpus: int, all_gpus: int) -> str:
    """Write a part of GPUs.

    >>> _of_gpus(1, 1), _of_gpus(2, 8)
    ('1 of 1 GPU', '2 of 8 GPUs')
    """
    return f"{gpus} of {all_gpus} GPU{'s' if all_gpus > 1 else ''}"
