"""What an instance has for certain, where it may be of several types."""

from __future__ import annotations

from collections.abc import Sequence

from kascade.catalog.instances import InstanceType


def in_common(types: Sequence[InstanceType]) -> InstanceType:
    """Return what every one of some types has at least; of prices, the dearest.

    GPUs are taken from the first: lists whose GPUs differ are rejected before.

    Args:
        types: At least one type, the preferred first.

    >>> from kascade.catalog.instances import INSTANCES
    >>> least = in_common([INSTANCES["ml.g6e.8xlarge"], INSTANCES["ml.g6e.4xlarge"]])
    >>> least.name, least.ram_gib, least.efa_interfaces, least.usd_per_hour
    ('ml.g6e.8xlarge or ml.g6e.4xlarge', 128, 0, 4.5286)
    """
    if len(types) == 1:
        return types[0]
    counts = [kind.nvme_count for kind in types if kind.nvme_count is not None]
    slots = [kind.max_pods for kind in types if kind.max_pods is not None]
    prices = [kind.usd_per_hour for kind in types if kind.usd_per_hour is not None]
    return InstanceType(
        name=" or ".join(kind.name for kind in types),
        vcpus=min(kind.vcpus for kind in types),
        ram_gib=min(kind.ram_gib for kind in types),
        gpu=types[0].gpu,
        gpus=types[0].gpus,
        nvme_count=min(counts) if len(counts) == len(types) else None,
        nvme_gb=min(kind.nvme_gb for kind in types),
        network_gbps=min(kind.network_gbps for kind in types),
        efa_interfaces=min(kind.efa_interfaces for kind in types),
        max_pods=min(slots) if len(slots) == len(types) else None,
        allocatable_ram_mib=min(kind.allocatable_ram_mib for kind in types),
        usd_per_hour=max(prices) if len(prices) == len(types) else None,
    )
