"""Regions, zones, a VPC and its address ranges."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from kascade.catalog.regions import REGIONS, WITHOUT_MANAGED_GRAFANA
from kascade.config.blocks import (
    ExistingVpcConfig,
    NetworkConfig,
    ServingConfig,
    SubnetConfig,
)
from kascade.errors import ConfigPath, Problem
from kascade.rules._words import near, unread
from kascade.rules.context import Context
from kascade.units import counted

_MAX_BUCKET_NAME = 63
"""Characters that S3 allows."""


_LARGEST_SUBNET, _SMALLEST_SUBNET = 16, 28
"""Prefix lengths (VPC user guide, "Subnet CIDR blocks")."""


VPC: ConfigPath = ("network", "existing")


SERVICE_RANGES: Final = ("10.100.0.0/16", "172.20.0.0/16")
"""EKS takes a cluster's service addresses from one of these, and asks that they overlap no range of
the VPC (EKS API, KubernetesNetworkConfigRequest)."""


_FIRST: ConfigPath = ("network", "vpc_cidr")


_FURTHER: ConfigPath = ("network", "existing", "further_cidrs")


def region_and_zones(context: Context) -> Iterator[Problem]:
    """Say which region or zone does not exist, and what its name leaves too little room for."""
    config = context.config
    region = REGIONS.get(config.region)
    longest = _MAX_BUCKET_NAME - len(f"sagemaker--lifecycle-{'0' * 12}-{config.region}")
    if region is not None and len(config.name) > longest:
        yield Problem(
            path=("name",),
            code="name-too-long",
            message=f"{config.name!r} has {len(config.name)} characters; in {config.region} at "
            f"most {longest} fit the name of the lifecycle script's bucket",
            also_reads=(("region",),),
        )
    if region is None:
        yield Problem(
            path=("region",),
            code="unknown-region",
            message=f"{config.region!r} is no region where HyperPod offers these instance types; "
            f"allowed: {', '.join(sorted(REGIONS))}.{near(config.region, REGIONS)}",
        )
    else:
        for index, zone in enumerate(config.zones):
            if zone not in region.zones:
                yield Problem(
                    path=("zones", index),
                    code="unknown-zone",
                    message=f"{zone!r} is no zone of {region.name}; its zones are "
                    f"{', '.join(region.zones)}",
                    also_reads=(("region",),),
                )


def services_of_the_region(context: Context) -> Iterator[Problem]:
    """Find services that the region does not have."""
    config = context.config
    if config.observability.enabled and config.region in WITHOUT_MANAGED_GRAFANA:
        there = ", ".join(name for name in REGIONS if name not in WITHOUT_MANAGED_GRAFANA)
        yield Problem(
            path=("observability",),
            code="no-managed-grafana",
            message=f"{config.region} has no Managed Grafana, which shows the metrics; set "
            f"observability.enabled: false, or choose a region that has it: {there}",
            also_reads=(("region",),),
        )


def check_vpc(config: ServingConfig, vpc: ExistingVpcConfig) -> Iterator[Problem]:
    """Find what an existing VPC cannot be, and what nothing reads beside it."""
    default = NetworkConfig()
    if config.network.nat == "per_zone":
        yield unread(("network", "nat"), "the VPC has its own ways out", VPC)
    if config.network.flow_log_retention_days != default.flow_log_retention_days:
        yield unread(
            ("network", "flow_log_retention_days"), "the VPC's flow logs are its owner's", VPC
        )
    zones = len(config.zones)
    for field, subnets in (
        ("private_subnets", vpc.private_subnets),
        ("collector_subnets", vpc.collector_subnets),
    ):
        path = (*VPC, field)
        if len(subnets) != zones and (subnets or field == "private_subnets"):
            yield Problem(
                path=path,
                code="subnets-of-zones",
                message=f"there are {len(subnets)} for {counted(zones, 'zone')} "
                f"({', '.join(config.zones)}); give one for each, in their order",
                also_reads=(("zones",),),
            )
        yield from _of_subnets(path, subnets, config.network.cidrs)
    if vpc.collector_subnets and not config.observability.enabled:
        yield Problem(
            path=(*VPC, "collector_subnets"),
            code="unread",
            message="nothing reads them while observability.enabled is false; leave them out",
            also_reads=(("observability", "enabled"),),
        )
    yield from _twice(vpc)


def _of_subnets(
    path: ConfigPath, subnets: Sequence[SubnetConfig], cidrs: Sequence[str]
) -> Iterator[Problem]:
    ranges = [ipaddress.IPv4Network(cidr) for cidr in cidrs]
    for index, subnet in enumerate(subnets):
        network = ipaddress.IPv4Network(subnet.cidr)
        if not _LARGEST_SUBNET <= network.prefixlen <= _SMALLEST_SUBNET:
            yield Problem(
                path=(*path, index, "cidr"),
                code="subnet-size",
                message=f"{subnet.cidr} is a /{network.prefixlen}; a subnet of AWS is "
                f"/{_LARGEST_SUBNET} to /{_SMALLEST_SUBNET}, so look its range up",
            )
        elif not any(network.subnet_of(whole) for whole in ranges):
            yield Problem(
                path=(*path, index, "cidr"),
                code="subnet-outside",
                message=f"{subnet.cidr} is not in {' or '.join(cidrs)}; give in network.vpc_cidr "
                "the range of the VPC, and any further ones in network.existing.further_cidrs",
                also_reads=(("network", "vpc_cidr"), (*VPC, "further_cidrs")),
            )


def _twice(vpc: ExistingVpcConfig) -> Iterator[Problem]:
    """A subnet named twice, or addresses that two of them claim."""
    named = [
        ((*VPC, field, index), subnet)
        for field, subnets in (
            ("private_subnets", vpc.private_subnets),
            ("collector_subnets", vpc.collector_subnets),
        )
        for index, subnet in enumerate(subnets)
    ]
    for place, (path, subnet) in enumerate(named):
        for _, other in named[:place]:
            if other.id == subnet.id:
                yield Problem(
                    path=(*path, "id"),
                    code="duplicate",
                    message=f"{subnet.id} is duplicated; each zone and purpose takes its own",
                )
            elif ipaddress.IPv4Network(other.cidr).overlaps(ipaddress.IPv4Network(subnet.cidr)):
                yield Problem(
                    path=(*path, "cidr"),
                    code="overlap",
                    message=f"{subnet.cidr} overlaps {other.cidr} of {other.id}, and subnets of a "
                    "VPC never do; look both up",
                )


def address_ranges(context: Context) -> Iterator[Problem]:
    """Find what no VPC can have."""
    config = context.config
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
