"""Mistakes about the address ranges of a VPC that has several."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from kascade.config.blocks import ServingConfig
from kascade.errors import ConfigPath, Problem

SERVICE_RANGES: Final = ("10.100.0.0/16", "172.20.0.0/16")
"""EKS takes a cluster's service addresses from one of these, and asks that they overlap no range of
the VPC (EKS API, KubernetesNetworkConfigRequest)."""

_FIRST: ConfigPath = ("network", "vpc_cidr")
_FURTHER: ConfigPath = ("network", "existing", "further_cidrs")


def check_ranges(config: ServingConfig) -> Iterator[Problem]:
    """Find what no VPC can have.

    Args:
        config: A configuration whose fields are valid one by one.
    """
    network = config.network
    if len(network.cidrs) == 1:
        return
    if "vpc_cidr" not in network.model_fields_set:
        # Its default would be taken for a range of this VPC, and one of its own be missing.
        yield Problem(
            path=_FIRST,
            code="first-range-missing",
            message=f"there is none beside network.existing.further_cidrs, and {network.vpc_cidr} "
            "would be taken for a range of the VPC; give one of its ranges, /16 to /20, here and "
            "the others there",
            also_reads=(_FURTHER,),
        )
        return
    yield from _overlaps(network.cidrs)
    if config.kubernetes.existing is None:
        yield from _of_services(network.cidrs)


def _overlaps(cidrs: tuple[str, ...]) -> Iterator[Problem]:
    ranges = [ipaddress.IPv4Network(cidr) for cidr in cidrs]
    for place, mine in enumerate(ranges):
        for other in ranges[:place]:
            if mine.overlaps(other):
                yield Problem(
                    path=(*_FURTHER, place - 1),
                    code="overlap",
                    message=f"{mine} overlaps {other}, and ranges of a VPC never do; look both "
                    "up, and give each once",
                    also_reads=(_FIRST,),
                )


def _of_services(cidrs: tuple[str, ...]) -> Iterator[Problem]:
    ranges = [ipaddress.IPv4Network(cidr) for cidr in cidrs]
    free = [
        cidr
        for cidr in SERVICE_RANGES
        if not any(mine.overlaps(ipaddress.IPv4Network(cidr)) for mine in ranges)
    ]
    if not free:
        yield Problem(
            path=_FURTHER,
            code="service-ranges",
            message=f"with network.vpc_cidr they overlap both {' and '.join(SERVICE_RANGES)}, and "
            "EKS takes a cluster's service addresses from one of these; make the cluster yourself, "
            "with a range of its own, and name it in kubernetes.existing",
            also_reads=(_FIRST, ("kubernetes", "existing")),
        )
