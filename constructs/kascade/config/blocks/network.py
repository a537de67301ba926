"""The VPC, made or existing."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kascade.config.blocks.values import (
    Block,
    Cidr,
    LogRetention,
    WrongValueError,
    checked_cidr,
    matching,
)

_SUBNET = re.compile(r"subnet-[0-9a-f]{8}([0-9a-f]{9})?")

_VPC = re.compile(r"vpc-[0-9a-f]{8}([0-9a-f]{9})?")

_LARGEST_RANGE = 16

_SMALLEST_RANGE = 28
"""Prefix lengths of a VPC's IPv4 ranges (VPC user guide, "VPC CIDR blocks")."""

_MOST_RANGES = 50
"""Ranges that AWS's quota may be raised to (VPC user guide, "Amazon VPC quotas")."""

_VPC_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")

_FURTHER_RANGES = (*_VPC_RANGES, "198.18.0.0/15")
"""Pods of EKS may stand in 198.19.0.0/16 as well (EKS best practices, custom networking)."""


def _range_of_a_vpc(value: str, *, smallest: int, whose: str, known: tuple[str, ...]) -> str:
    network = ipaddress.IPv4Network(checked_cidr(value))
    if not _LARGEST_RANGE <= network.prefixlen <= smallest:
        msg = f"{value!r} is a /{network.prefixlen}; {whose} takes /{_LARGEST_RANGE} to /{smallest}"
        raise WrongValueError("network-size", msg)
    if not any(network.subnet_of(ipaddress.IPv4Network(whole)) for whole in known):
        msg = f"{value!r} is not in the private ranges {', '.join(known)}; give one that is"
        raise WrongValueError("not-private", msg)
    return value


def _vpc_cidr(value: str) -> str:
    # Below /20 no room for pods.
    return _range_of_a_vpc(value, smallest=20, whose="a VPC here", known=_VPC_RANGES)


def _further_cidr(value: str) -> str:
    return _range_of_a_vpc(
        value, smallest=_SMALLEST_RANGE, whose="a range of a VPC", known=_FURTHER_RANGES
    )


class SubnetConfig(Block):
    """An existing subnet."""

    id: Annotated[str, matching(_SUBNET, "the id of a subnet (subnet-...)")] = Field(
        examples=["subnet-0123456789abcdef0"], description="Its id."
    )
    cidr: Cidr = Field(examples=["10.1.0.0/19"], description="Its addresses.")


class ExistingVpcConfig(Block):
    """A VPC of yours. Its routes, endpoints and flow logs stay yours."""

    vpc_id: Annotated[str, matching(_VPC, "the id of a VPC (vpc-...)")] = Field(
        examples=["vpc-0123456789abcdef0"], description="Its id."
    )
    private_subnets: tuple[SubnetConfig, ...] = Field(
        min_length=2,
        max_length=4,
        description="Subnets of nodes and pods, one for each zone, in the order of `zones`.",
    )
    collector_subnets: tuple[SubnetConfig, ...] = Field(
        default=(),
        max_length=4,
        description="Subnets of the metrics collector, likewise. Without them it gets the private "
        "ones, and then every address in these may read the pods' metrics.",
    )
    further_cidrs: tuple[Annotated[str, AfterValidator(_further_cidr)], ...] = Field(
        default=(),
        max_length=_MOST_RANGES - 1,
        description="All other ranges of the VPC, beside `vpc_cidr`: /16 to /28 each, also those "
        "that hold none of these subnets.",
    )


class NetworkConfig(Block):
    """The VPC."""

    existing: ExistingVpcConfig | None = Field(
        default=None,
        description="An existing VPC. `vpc_cidr` then is its range; if it has several, "
        "one of them.",
    )

    vpc_cidr: Annotated[str, AfterValidator(_vpc_cidr)] = Field(
        default="10.0.0.0/16",
        description="Address space of the VPC, /16 to /20. Cannot be changed during the life of a "
        "deployment.",
    )
    nat: Literal["one", "per_zone", "none"] = Field(
        default="one",
        description="Ways out to the internet: one NAT gateway in all, one in each zone, or none. "
        "With none, images come from ECR of the same region and weights from S3 or a claim.",
    )
    flow_log_retention_days: LogRetention = Field(
        default=30, description="Days that flow logs are kept."
    )

    @property
    def cidrs(self) -> tuple[str, ...]:
        """Every range of the VPC, ``vpc_cidr`` first."""
        return (self.vpc_cidr, *(self.existing.further_cidrs if self.existing else ()))
