"""Mistakes about what is there already: a VPC, an EKS cluster, a HyperPod cluster."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Iterator, Sequence

from kascade.catalog.addons import S3_CSI
from kascade.config.blocks import (
    BASE_ADDONS,
    AddonsConfig,
    ExistingEksConfig,
    ExistingVpcConfig,
    HyperPodConfig,
    InstanceGroupConfig,
    KubernetesConfig,
    NetworkConfig,
    ServingConfig,
    SubnetConfig,
)
from kascade.errors import ConfigPath, Problem
from kascade.units import counted

_OF_INSTANCES = (
    "capacity",
    "deep_health_checks",
    "efa",
    "labels",
    "min_count",
    "root_volume_kms_key_arn",
    "volume_gib",
    "volume_kms_key_arn",
)
"""What a group says of instances that HyperPod has yet to make."""

_ADDONS = (*BASE_ADDONS, S3_CSI)
"""Those that are asked for here; the names of others are read by nobody."""

_NO_SLIPS = frozenset({"aws-efs-csi-driver", "aws-fsx-csi-driver"})
"""Add-ons of AWS whose names are near one of those above."""

_NEAR = 0.75
"""How alike two names have to be, by difflib's measure. ``aws-ebs-csi`` and its driver are at 0.76,
and of AWS's other add-ons none is above 0.69."""

_LARGEST_SUBNET, _SMALLEST_SUBNET = 16, 28
"""Prefix lengths (VPC user guide, "Subnet CIDR blocks")."""

_VPC: ConfigPath = ("network", "existing")
_EKS: ConfigPath = ("kubernetes", "existing")
_HYPERPOD: ConfigPath = ("hyperpod", "existing")


def check_existing(config: ServingConfig) -> Iterator[Problem]:
    """Find what cannot stand on what.

    Args:
        config: A configuration whose fields are valid one by one.
    """
    vpc, eks, hyperpod = (
        config.network.existing,
        config.kubernetes.existing,
        config.hyperpod.existing,
    )
    if eks is not None and vpc is None:
        yield Problem(
            path=_EKS,
            code="eks-without-vpc",
            message="an EKS cluster that is there stands in a VPC that is there; name it and its "
            "subnets in network.existing",
            also_reads=(_VPC,),
        )
    if hyperpod is not None and eks is None:
        yield Problem(
            path=_HYPERPOD,
            code="hyperpod-without-eks",
            message="a HyperPod cluster that is there stands on an EKS cluster that is there; name "
            "it in kubernetes.existing",
            also_reads=(_EKS,),
        )
    if vpc is not None:
        yield from _of_the_vpc(config, vpc)
    if eks is not None:
        yield from _unread_by_eks(config.kubernetes)
        yield from _of_addons(eks)
    if hyperpod is not None:
        yield from _of_hyperpod(config, hyperpod.cluster_arn)


def _of_the_vpc(config: ServingConfig, vpc: ExistingVpcConfig) -> Iterator[Problem]:
    default = NetworkConfig()
    if config.network.nat == "per_zone":
        yield _unread(("network", "nat"), "the VPC has its own ways out", _VPC)
    if config.network.flow_log_retention_days != default.flow_log_retention_days:
        yield _unread(
            ("network", "flow_log_retention_days"), "the VPC's flow logs are its owner's", _VPC
        )
    zones = len(config.zones)
    for field, subnets in (
        ("private_subnets", vpc.private_subnets),
        ("collector_subnets", vpc.collector_subnets),
    ):
        path = (*_VPC, field)
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
            path=(*_VPC, "collector_subnets"),
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
                also_reads=(("network", "vpc_cidr"), (*_VPC, "further_cidrs")),
            )


def _twice(vpc: ExistingVpcConfig) -> Iterator[Problem]:
    """A subnet named twice, or addresses that two of them claim."""
    named = [
        ((*_VPC, field, index), subnet)
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
                    message=f"{subnet.id} stands twice; each zone and purpose takes its own",
                )
            elif ipaddress.IPv4Network(other.cidr).overlaps(ipaddress.IPv4Network(subnet.cidr)):
                yield Problem(
                    path=(*path, "cidr"),
                    code="overlap",
                    message=f"{subnet.cidr} overlaps {other.cidr} of {other.id}, and subnets of a "
                    "VPC never do; look both up",
                )


def _unread_by_eks(kubernetes: KubernetesConfig) -> Iterator[Problem]:
    if kubernetes.public_access_cidrs:
        yield _unread(
            ("kubernetes", "public_access_cidrs"), "who reaches it is its owner's choice", _EKS
        )
    if kubernetes.addons != AddonsConfig():
        yield _unread(
            ("kubernetes", "addons"), "HyperPod's add-ons on it are its owner's choice", _EKS
        )


def _of_addons(eks: ExistingEksConfig) -> Iterator[Problem]:
    for index, name in enumerate(eks.addons):
        near = difflib.get_close_matches(name, _ADDONS, n=2, cutoff=_NEAR)
        if near and name not in _ADDONS and name not in _NO_SLIPS:
            meant = " or ".join(near)
            yield Problem(
                path=(*_EKS, "addons", index),
                code="addon-name",
                message=f"got {name}, which nothing here asks for and which is near {meant}; "
                f"write {meant}, or leave it out",
            )


def _of_hyperpod(config: ServingConfig, arn: str) -> Iterator[Problem]:
    region, account = arn.split(":")[3:5]
    for given, wanted, field in (
        (region, config.region, "region"),
        (account, config.account or account, "account"),
    ):
        if given != wanted:
            yield Problem(
                path=(*_HYPERPOD, "cluster_arn"),
                code="cluster-elsewhere",
                message=f"the cluster is in {field} {given} and the deployment in {wanted}; make "
                "them one",
                also_reads=((field,),),
            )
    yield from _unread_by_hyperpod(config)


def _unread_by_hyperpod(config: ServingConfig) -> Iterator[Problem]:
    for index, group in enumerate(config.instance_groups):
        for field in _OF_INSTANCES:
            if getattr(group, field) != InstanceGroupConfig.model_fields[field].get_default():
                yield _unread(
                    ("instance_groups", index, field), "its instances are made already", _HYPERPOD
                )
    if config.kubernetes.dependencies_chart is not None:
        yield _unread(
            ("kubernetes", "dependencies_chart"), "the cluster brought what it needs", _HYPERPOD
        )
    for field in ("efa_device_plugin", "health_agent", "nvidia_device_plugin"):
        if getattr(config.images, field) is not None:
            yield _unread(("images", field), "the cluster brought it", _HYPERPOD)
    default = HyperPodConfig()
    for field in ("node_recovery", "security_group_ids", "software_updates", "autoscaling"):
        if getattr(config.hyperpod, field) != getattr(default, field):
            yield _unread(("hyperpod", field), "the cluster keeps its own settings", _HYPERPOD)


def _unread(path: ConfigPath, reason: str, existing: ConfigPath) -> Problem:
    return Problem(
        path=path,
        code="unread",
        message=f"nothing reads it with {'.'.join(map(str, existing))}: {reason}; leave it out",
        also_reads=(existing,),
    )
