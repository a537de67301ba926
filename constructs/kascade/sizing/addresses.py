"""Whether the private subnets have room for all nodes and their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kascade.config.blocks import ServingConfig
from kascade.errors import ConfigPath, Problem
from kascade.plan import HOME_ZONES
from kascade.sizing import network
from kascade.sizing.draft import Draft, Group

ADDRESSES_PER_SYSTEM_NODE: Final = 1 + 112
"""An m7i.xlarge or m5.xlarge with prefix delegation runs up to 110 pods, in blocks of 16."""

ADDRESS_BLOCK: Final = 16
"""Prefix delegation gives a node its pods' addresses in blocks of a /28."""

LARGEST_MAX_PODS: Final = 49
"""HyperPod's largest pod limit, for types whose own is not published."""

USUAL_RANGES: Final = 5
"""IPv4 ranges of one VPC before its owner asks AWS for more (VPC user guide, "Amazon VPC
quotas")."""


def addresses_fit(draft: Draft, groups: Mapping[str, Group]) -> None:
    """Reject subnets that the nodes and their pods would exhaust.

    Each zone has to hold the groups that name it, and the home zones together all that stands in
    them: the system nodes and the groups without a zone, too.
    """
    config = draft.config
    cidrs = _private_cidrs(config)
    if len(cidrs) != len(config.zones):
        return  # has a sentence of its own
    subnets = dict(zip(config.zones, cidrs, strict=True))
    home = config.zones[:HOME_ZONES]
    # Where nodes that are there already stand, only their owner knows.
    anywhere = home if config.hyperpod.existing is None else config.zones
    nodes = [(home, config.kubernetes.system_group.max_count * ADDRESSES_PER_SYSTEM_NODE)]
    for group in groups.values():
        zone = group.config.zone
        nodes.append((anywhere if zone is None else (zone,), _addresses(group)))

    def bound_to(zones: Sequence[str]) -> int:
        return sum(addresses for places, addresses in nodes if set(places) <= set(zones))

    for place, (zone, cidr) in enumerate(subnets.items()):
        if bound_to([zone]) > network.usable(cidr):
            _too_small(draft, place, f"{cidr} of {zone} holds", bound_to([zone]), (cidr,))
    for zones in dict.fromkeys((home, anywhere)):
        mine = [subnets[zone] for zone in zones]
        if bound_to(zones) > sum(map(network.usable, mine)):
            _too_small(draft, None, f"{_named(config, zones, mine)} hold", bound_to(zones), mine)


def advise_on_ranges(config: ServingConfig) -> list[Problem]:
    """Note a VPC with more ranges than a VPC may usually have."""
    count = len(config.network.cidrs)
    if count <= USUAL_RANGES:
        return []
    return [
        Problem(
            path=("network", "existing", "further_cidrs"),
            message=f"with vpc_cidr there are {count} ranges, and AWS allows a VPC {USUAL_RANGES} "
            "unless its quota was raised; look up that all of them are the VPC's",
        )
    ]


def _private_cidrs(config: ServingConfig) -> tuple[str, ...]:
    existing = config.network.existing
    if existing is not None:
        return tuple(subnet.cidr for subnet in existing.private_subnets)
    return network.cut(config.network.vpc_cidr, zones=len(config.zones)).private


def _addresses(group: Group) -> int:
    """One address for each node, and its pods' in blocks."""
    slots = group.instance.max_pods or LARGEST_MAX_PODS
    return group.config.count * (1 + -(-slots // ADDRESS_BLOCK) * ADDRESS_BLOCK)


def _named(config: ServingConfig, zones: Sequence[str], cidrs: Sequence[str]) -> str:
    if len(zones) < len(config.zones):
        return f"the private subnets of the home zones {' and '.join(zones)}"
    whole = config.network.vpc_cidr if config.network.existing is None else ", ".join(cidrs)
    return f"the private subnets of {whole}"


def _too_small(
    draft: Draft, place: int | None, which: str, wanted: int, cidrs: Sequence[str]
) -> None:
    existing = draft.config.network.existing
    path: ConfigPath = ("network", "vpc_cidr")
    if existing is not None:
        path = ("network", "existing", "private_subnets")
        path = path if place is None else (*path, place, "cidr")
    larger = "a larger VPC, up to a /16," if existing is None else "larger subnets"
    there = " there" if len(cidrs) < len(draft.config.zones) else ""
    draft.problems.append(
        Problem(
            path=path,
            message=f"{which} {sum(map(network.usable, cidrs)):,} addresses, but all nodes{there} "
            f"and their pods may take {wanted:,}; use {larger} or fewer nodes{there}",
            also_reads=(("instance_groups",), ("zones",)),
        )
    )
