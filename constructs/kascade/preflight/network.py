"""Ranges of networks, and a VPC that exists already."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from kascade.plan import ExistingVpcPlan
from kascade.preflight.rows import Finding, Subject, each, fail, ok, warn

_STACK_TAG = "aws:cloudformation:stack-name"


def check_ranges(subject: Subject) -> Iterator[Finding]:
    """Look for other networks of the account with the same addresses."""
    plan = subject.plan.network
    mine = [ipaddress.ip_network(cidr) for cidr in plan.vpc_cidrs]
    own_stack = f"{subject.plan.name}-network"
    clashes = []
    for vpc in subject.account.items("ec2", "DescribeVpcs", "Vpcs"):
        if _tag(vpc, _STACK_TAG) == own_stack or (
            plan.existing is not None and vpc["VpcId"] == plan.existing.vpc_id
        ):
            continue
        ranges = _ranges(vpc)
        if any(net.overlaps(ipaddress.ip_network(cidr)) for net in mine for cidr in ranges):
            clashes.append((vpc["VpcId"], ranges))
    if not clashes:
        yield ok(f"no other VPC has addresses of {', '.join(plan.vpc_cidrs)}")
        return
    connected = _connected(subject)
    for vpc_id, ranges in clashes:
        via = connected.get(vpc_id)
        said = f"{vpc_id} ({', '.join(ranges)}) overlaps {', '.join(plan.vpc_cidrs)}"
        if via:
            said += f", and it is connected to other networks by {via}"
        yield warn(
            f"{said}; the two can never be peered or share a transit gateway",
            "leave it if they never have to, or choose another network.vpc_cidr now: it is fixed "
            "from the first deployment on"
            if plan.existing is None
            else "leave it if they never have to; the range is the existing VPC's",
        )


def _connected(subject: Subject) -> dict[str, str]:
    """What connects each VPC to others."""
    by: dict[str, str] = {}
    for peering in subject.account.items(
        "ec2", "DescribeVpcPeeringConnections", "VpcPeeringConnections"
    ):
        for side in ("AccepterVpcInfo", "RequesterVpcInfo"):
            vpc = (peering.get(side) or {}).get("VpcId")
            if vpc and (peering.get("Status") or {}).get("Code") == "active":
                by[vpc] = str(peering["VpcPeeringConnectionId"])
    return by


def _ranges(vpc: Mapping[str, Any]) -> list[str]:
    extra = [
        one["CidrBlock"]
        for one in vpc.get("CidrBlockAssociationSet") or []
        if (one.get("CidrBlockState") or {}).get("State", "associated") == "associated"
    ]
    return sorted({vpc["CidrBlock"], *extra})


def _tag(thing: Mapping[str, Any], key: str) -> str | None:
    for tag in thing.get("Tags") or []:
        if tag["Key"] == key:
            return str(tag["Value"])
    return None


def check_existing_network(subject: Subject) -> Iterator[Finding]:
    """Hold a VPC that exists, and its subnets, against what the configuration says of them."""
    existing = subject.plan.network.existing
    if existing is None:
        yield ok("none is named")
        return
    looks = (_vpc, _dns, _subnets, _security_groups, _endpoints)
    yield from each(looks, lambda look: look(subject, existing))


def _vpc(subject: Subject, existing: ExistingVpcPlan) -> Iterator[Finding]:
    found = subject.account.call(
        "ec2", "DescribeVpcs", absent=("InvalidVpcID.NotFound",), VpcIds=[existing.vpc_id]
    )
    vpcs = (found or {}).get("Vpcs") or []
    if not vpcs:
        yield fail(f"{subject.region} has no {existing.vpc_id}", "correct network.existing.vpc_id")
        return
    ranges = _ranges(vpcs[0])
    stated = sorted(subject.plan.network.vpc_cidrs)
    missing = [cidr for cidr in stated if cidr not in ranges]
    unnamed = [cidr for cidr in ranges if cidr not in stated]
    if missing:
        yield fail(
            f"{existing.vpc_id} has {', '.join(ranges)}, and the configuration says "
            f"{', '.join(stated)}",
            f"set network.vpc_cidr: {ranges[0]}"
            + (f" and further_cidrs: [{', '.join(ranges[1:])}]" if ranges[1:] else ""),
        )
    elif unnamed:
        yield warn(
            f"{existing.vpc_id} has {', '.join(unnamed)}, too, which is kept out of every rule",
            f"add them to network.existing.further_cidrs: [{', '.join(unnamed)}]",
        )
    else:
        yield ok(f"{existing.vpc_id} has {', '.join(ranges)}")


def _dns(subject: Subject, existing: ExistingVpcPlan) -> Iterator[Finding]:
    off = []
    for attribute, key in (
        ("enableDnsSupport", "EnableDnsSupport"),
        ("enableDnsHostnames", "EnableDnsHostnames"),
    ):
        found = subject.account.call(
            "ec2",
            "DescribeVpcAttribute",
            absent=("InvalidVpcID.NotFound",),
            VpcId=existing.vpc_id,
            Attribute=attribute,
        )
        if found is None:
            return
        if not found[key]["Value"]:
            off.append(attribute)
    if off:
        yield fail(
            f"{existing.vpc_id} has {' and '.join(off)} off, without which nodes do not find EKS",
            f"turn {'them' if len(off) > 1 else 'it'} on (VPC console, Edit VPC settings)",
        )
    else:
        yield ok("names are resolved in it")


def _subnets(subject: Subject, existing: ExistingVpcPlan) -> Iterator[Finding]:
    plan = subject.plan.network
    wanted = list(
        zip(existing.private_subnet_ids, plan.zones, plan.private_cidrs, strict=False)
    ) + list(zip(existing.collector_subnet_ids, plan.zones, plan.collector_cidrs, strict=False))
    ids = sorted({subnet for subnet, _, _ in wanted})
    # By a filter, since one that is not there would hide the others.
    found = {
        subnet["SubnetId"]: subnet
        for subnet in subject.account.items(
            "ec2", "DescribeSubnets", "Subnets", Filters=[{"Name": "subnet-id", "Values": ids}]
        )
    }
    for name, zone, cidr in wanted:
        subnet = found.get(name)
        if subnet is None:
            yield fail(f"{subject.region} has no {name}", "correct it in network.existing")
            continue
        wrong = [
            f"{what} {subnet[key]}, not {stated}"
            for what, key, stated in (
                ("in", "VpcId", existing.vpc_id),
                ("in", "AvailabilityZone", zone),
                ("", "CidrBlock", cidr),
            )
            if subnet[key] != stated
        ]
        if wrong:
            yield fail(
                f"{name} is {'; '.join(one.strip() for one in wrong)}",
                "correct network.existing: one subnet for each zone, in the order of zones",
            )
        else:
            yield ok(f"{name} is in {zone}, {subnet['AvailableIpAddressCount']} addresses free")


def _security_groups(subject: Subject, existing: ExistingVpcPlan) -> Iterator[Finding]:
    named = list(subject.plan.cluster.security_group_ids)
    if subject.plan.cluster.existing is not None:
        named.append(subject.plan.cluster.existing.security_group_id)
    if not named:
        return
    found = {
        group["GroupId"]: group["VpcId"]
        for group in subject.account.items(
            "ec2",
            "DescribeSecurityGroups",
            "SecurityGroups",
            Filters=[{"Name": "group-id", "Values": sorted(named)}],
        )
    }
    for name in named:
        if found.get(name) == existing.vpc_id:
            yield ok(f"{name} is in {existing.vpc_id}")
        else:
            where = f"in {found[name]}" if name in found else f"not in {subject.region}"
            yield fail(
                f"security group {name} is {where}, and it has to be in {existing.vpc_id}",
                "correct hyperpod.security_group_ids or kubernetes.existing.security_group_id",
            )


def _endpoints(subject: Subject, existing: ExistingVpcPlan) -> Iterator[Finding]:
    """A VPC takes one endpoint with private DNS for each service."""
    if not subject.needs.services or subject.stack("observability") is not None:
        return
    wanted = {f"com.amazonaws.{subject.region}.{name}" for name in subject.needs.services}
    filters = [
        {"Name": "vpc-id", "Values": [existing.vpc_id]},
        {"Name": "vpc-endpoint-type", "Values": ["Interface"]},
    ]
    for one in subject.account.items(
        "ec2", "DescribeVpcEndpoints", "VpcEndpoints", Filters=filters
    ):
        if one["ServiceName"] in wanted and one.get("PrivateDnsEnabled"):
            yield fail(
                f"{existing.vpc_id} has {one['VpcEndpointId']} for {one['ServiceName']} already, "
                "and a VPC takes one of a name",
                "turn its private DNS off, or leave it out: observability.enabled: false",
            )
