"""Which addresses go where: subnets cut from the VPC, the same for the life of a deployment."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

MAX_ZONES: Final = 4
"""Zones that the cut leaves room for, so that adding one later moves nothing."""

PRIVATE_EXTRA_BITS: Final = 3
"""A private subnet is an eighth of the VPC: four of them are the first half."""

PUBLIC_PREFIX_LENGTH: Final = 26
"""Room for NAT gateways."""

COLLECTOR_PREFIX_LENGTH: Final = 27
"""The managed collector puts one interface into each subnet; AWS itself keeps five addresses."""


AWS_RESERVED_ADDRESSES: Final = 5
"""AWS keeps the first four addresses and the last of each subnet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnets:
    """CIDRs by purpose, one for each zone."""

    private: tuple[str, ...]
    public: tuple[str, ...]
    collector: tuple[str, ...]


def cut(vpc_cidr: str, *, zones: int) -> Subnets:
    """Cut a VPC into subnets; each zone's place depends on nothing but its position.

    Args:
        vpc_cidr: The VPC, /16 to /20.
        zones: How many zones, at most :data:`MAX_ZONES`.

    >>> subnets = cut("10.0.0.0/16", zones=2)
    >>> subnets.private
    ('10.0.0.0/19', '10.0.32.0/19')
    >>> subnets.public, subnets.collector
    (('10.0.128.0/26', '10.0.128.64/26'), ('10.0.129.0/27', '10.0.129.32/27'))
    >>> cut("10.0.0.0/16", zones=3).private[:2] == subnets.private
    True
    """
    vpc = ipaddress.IPv4Network(vpc_cidr)
    eighths = list(vpc.subnets(prefixlen_diff=PRIVATE_EXTRA_BITS))
    small = list(eighths[MAX_ZONES].subnets(new_prefix=PUBLIC_PREFIX_LENGTH))
    public, rest = small[:MAX_ZONES], small[MAX_ZONES : 2 * MAX_ZONES]
    collector = [
        half for block in rest for half in block.subnets(new_prefix=COLLECTOR_PREFIX_LENGTH)
    ]
    return Subnets(
        private=tuple(map(str, eighths[:zones])),
        public=tuple(map(str, public[:zones])),
        collector=tuple(map(str, collector[:zones])),
    )


def usable(cidr: str) -> int:
    """Addresses of a subnet that AWS leaves to us: all but five.

    >>> usable("10.0.0.0/19")
    8187
    """
    return ipaddress.IPv4Network(cidr).num_addresses - AWS_RESERVED_ADDRESSES
