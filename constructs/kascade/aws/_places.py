"""Where nodes live: subnets and security groups that a person selected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aws_cdk import aws_ec2 as ec2

from kascade.aws._given import is_list_token, is_token, repeated

MAX_SECURITY_GROUPS: Final = 5
MAX_SUBNETS: Final = 16
"""Limits of AWS::SageMaker::Cluster in CloudFormation's registry."""

_UNKNOWN_LENGTH: Final = (
    "are a list whose length is not known at synth; state it where they are imported, such as "
    "Fn.split(',', Fn.import_value('subnets'), 2)"
)


def subnets_of(vpc: ec2.IVpc, selection: ec2.SubnetSelection | None) -> tuple[list[str], list[str]]:
    """Return the ids of selected subnets, and what is wrong with them.

    Args:
        vpc: Of the nodes.
        selection: Without it: private ones with a way out, else isolated ones.
    """
    try:
        subnets = _selected(vpc, selection)
    except RuntimeError as error:  # the CDK's, for a name or a kind that the VPC has none of
        return [], [f"vpc_subnets: {str(error).splitlines()[0]}"]
    ids = [subnet.subnet_id for subnet in subnets]
    if any(is_list_token(name) for name in ids):
        return ids, [f"the subnets of the VPC {_UNKNOWN_LENGTH}"]
    public = {subnet.subnet_id for subnet in vpc.public_subnets}
    return ids, list(_of_subnets(subnets, ids, public))


def _selected(vpc: ec2.IVpc, selection: ec2.SubnetSelection | None) -> Sequence[ec2.ISubnet]:
    if selection is None:
        return vpc.private_subnets or vpc.isolated_subnets
    if selection.subnets is not None:
        return selection.subnets
    return vpc.select_subnets(
        availability_zones=selection.availability_zones,
        one_per_az=selection.one_per_az,
        subnet_filters=selection.subnet_filters,
        subnet_group_name=selection.subnet_group_name,
        subnet_type=selection.subnet_type,
    ).subnets


def _of_subnets(
    subnets: Sequence[ec2.ISubnet], ids: Sequence[str], public: set[str]
) -> Iterator[str]:
    if not 1 <= len(ids) <= MAX_SUBNETS:
        selected = f"vpc_subnets selects {len(ids)} subnets"
        yield f"{selected}; HyperPod takes 1 to {MAX_SUBNETS}, none of them public"
    for subnet in subnets:
        if isinstance(subnet, ec2.PublicSubnet) or subnet.subnet_id in public:
            yield (
                f"vpc_subnets selects {_named(subnet.subnet_id, subnet.node.path)}, which is "
                "public, and HyperPod's nodes get no public address; select private or isolated "
                "subnets"
            )
    paths = {subnet.subnet_id: subnet.node.path for subnet in subnets}
    for name in repeated(ids):
        yield f"vpc_subnets selects {_named(name, paths[name])} twice; name each subnet once"


def of_security_groups(groups: Sequence[ec2.ISecurityGroup], least: int = 0) -> Iterator[str]:
    """Say what is wrong with security groups of nodes.

    Args:
        groups: The groups.
        least: How many there must be.
    """
    if not least <= len(groups) <= MAX_SECURITY_GROUPS:
        yield f"{len(groups)} security groups; HyperPod takes {least} to {MAX_SECURITY_GROUPS}"
    paths = {group.security_group_id: group.node.path for group in groups}
    for name in repeated([group.security_group_id for group in groups]):
        yield f"security_groups has {_named(name, paths[name])} twice; name each once"


def _named(name: str, path: str) -> str:
    return path if is_token(name) else name
