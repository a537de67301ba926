"""Wait until nothing of a deleted cluster is left in its subnets, as a CloudFormation resource.

EKS, HyperPod and Lambda delete their network interfaces some minutes after they report that they
are gone, and the VPC CNI leaves those of nodes that ended abruptly. Until then no subnet and no
security group can be deleted. So this function, at deletion, waits; deletes what lies about
unattached; deletes the security groups that EKS and the load balancer controller leave behind, by
their tags with the cluster's name; and at the end of its time says what is left, in words that
somebody can act on.

Called by the CDK's provider framework, which reports to CloudFormation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

PAUSE_SECONDS = 15
SHORT_PAUSE_SECONDS = 2
"""Where all that was left has just been deleted."""

RESERVE_SECONDS = 60
"""Of the function's time, kept back for the last look and the report."""

LONGEST_REASON = 3000
"""CloudFormation cuts off what is longer than 4,096 bytes."""

_AWS = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 5})

_MAKERS = {
    "aws-K8S-": "VPC CNI",
    "Amazon EKS ": "EKS",
    "AWS Lambda VPC ENI": "Lambda",
}
"""How their makers describe interfaces, which then do not belong to this stack."""

_GONE = "InvalidNetworkInterfaceID.NotFound"
_STILL_NAMED = "DependencyViolation"
_NO_GROUP = "InvalidGroup.NotFound"

GROUP_TAGS = {
    "aws:eks:cluster-name": "EKS, for the cluster",
    "elbv2.k8s.aws/cluster": "the load balancer controller, for the cluster",
}
"""Tags, with the cluster's name as their value, of security groups that no template names."""

_MANAGED = {"Name": "tag:GuardDutyManaged", "Values": ["true"]}


class LeftoverError(Exception):
    """What is still in the way, for CloudFormation's event list."""


class Context(Protocol):
    """What is used of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the call."""
        ...


def maker_of(interface: Mapping[str, Any]) -> str | None:
    """Name the service whose interface it is; None for what a stack deletes by itself.

    >>> maker_of({"Description": "aws-K8S-i-0123"}), maker_of({"Description": "NAT gateway"})
    ('VPC CNI', None)
    """
    said = str(interface.get("Description", ""))
    for beginning, maker in _MAKERS.items():
        if said.startswith(beginning):
            return maker
    return "SageMaker" if "sagemaker" in said.lower() else None


@dataclass(frozen=True)
class Place:
    """Where to look.

    Attributes:
        vpc: The VPC.
        subnets: Its subnets.
        cluster: Whose security groups go with the VPC, in a VPC that goes.
        groups: In a VPC that stays: only interfaces with one of these groups hold something up,
            and nothing may be deleted.
    """

    vpc: str
    subnets: Sequence[str]
    cluster: str | None = None
    groups: Sequence[str] = ()


class Drain:
    """One deletion."""

    def __init__(self, ec2: Any, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the client and, for tests, a way to wait."""
        self._ec2 = ec2
        self._sleep = sleep

    def run(self, event: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Handle one event; only a deletion does anything.

        Raises:
            LeftoverError: Something is still there at the end of the time.
        """
        told = event["ResourceProperties"]
        vpc = str(told["VpcId"])
        place = Place(
            vpc=vpc,
            subnets=list(told["SubnetIds"]),
            cluster=told.get("ClusterName"),
            groups=list(told.get("SecurityGroupIds", [])),
        )
        if event["RequestType"] == "Delete":
            self._wait(place, context)
        return {"PhysicalResourceId": event.get("PhysicalResourceId") or f"drain-{vpc}"}

    def _wait(self, place: Place, context: Context) -> None:
        while True:
            left, groups = self._interfaces(place), self._cluster_groups(place)
            if not left and not groups:
                break
            unused = [i for i in left if i["Status"] == "available" and not place.groups]
            for interface in unused:
                self._delete(interface)
            if len(unused) == len(left):
                for group in groups:
                    self._delete_group(group)
            left_ms = context.get_remaining_time_in_millis()
            if left_ms < (PAUSE_SECONDS + RESERVE_SECONDS) * 1000:
                break
            log.info("%d network interfaces are left, %d of them unused", len(left), len(unused))
            self._sleep(PAUSE_SECONDS if len(unused) < len(left) else SHORT_PAUSE_SECONDS)
        left, groups = self._interfaces(place), self._cluster_groups(place)
        strangers = [] if place.groups else self._strangers(place.vpc)
        if left or groups or strangers:
            named = [*map(_in_words, left), *map(_group_in_words, groups), *strangers]
            raise LeftoverError(_report(place, named))

    def _interfaces(self, place: Place) -> list[dict[str, Any]]:
        filters = [{"Name": "subnet-id", "Values": list(place.subnets)}]
        if place.groups:
            filters.append({"Name": "group-id", "Values": list(place.groups)})
        pages = self._ec2.get_paginator("describe_network_interfaces").paginate(Filters=filters)
        found = [i for page in pages for i in page["NetworkInterfaces"]]
        return [i for i in found if i.get("SubnetId") in place.subnets and maker_of(i) is not None]

    def _cluster_groups(self, place: Place) -> list[dict[str, Any]]:
        """Find security groups that EKS, or a controller in the cluster, made and left."""
        if place.cluster is None:
            return []
        found: list[dict[str, Any]] = []
        for tag in GROUP_TAGS:
            groups = self._ec2.describe_security_groups(
                Filters=[
                    {"Name": "vpc-id", "Values": [place.vpc]},
                    {"Name": f"tag:{tag}", "Values": [place.cluster]},
                ]
            )["SecurityGroups"]
            found += [group for group in groups if _tags(group).get(tag) == place.cluster]
        return found

    def _delete_group(self, group: Mapping[str, Any]) -> None:
        """Delete a group; one that another still names goes after that one, at a later look."""
        name = group["GroupId"]
        try:
            self._ec2.delete_security_group(GroupId=name)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code not in {_STILL_NAMED, _NO_GROUP}:
                log.warning("%s was not deleted: %s", name, code)
        else:
            log.info("Deleted %s (%s)", name, group.get("GroupName"))

    def _delete(self, interface: Mapping[str, Any]) -> None:
        """Delete an interface that nothing uses; the next look says whether it went."""
        name = interface["NetworkInterfaceId"]
        try:
            self._ec2.delete_network_interface(NetworkInterfaceId=name)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code != _GONE:
                log.warning("%s was not deleted: %s", name, code)
        else:
            log.info("Deleted %s (%s)", name, interface.get("Description"))

    def _strangers(self, vpc: str) -> list[str]:
        """Name what GuardDuty put into the VPC, which stays as long as nobody removes it."""
        here = [{"Name": "vpc-id", "Values": [vpc]}, _MANAGED]
        endpoints = self._ec2.describe_vpc_endpoints(Filters=here)["VpcEndpoints"]
        groups = self._ec2.describe_security_groups(Filters=here)["SecurityGroups"]
        return [
            *(
                f"{e['VpcEndpointId']} (endpoint of GuardDuty)"
                for e in endpoints
                if _managed(e) and e.get("State") not in {"deleting", "deleted"}
            ),
            *(f"{g['GroupId']} (security group of GuardDuty)" for g in groups if _managed(g)),
        ]


def _tags(item: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}


def _managed(item: Mapping[str, Any]) -> bool:
    return _tags(item).get("GuardDutyManaged") == "true"


def _group_in_words(group: Mapping[str, Any]) -> str:
    tags = _tags(group)
    maker = next(f"{made} {tags[tag]}" for tag, made in GROUP_TAGS.items() if tag in tags)
    return f"{group['GroupId']} (security group {group.get('GroupName', '')!r} of {maker})"


def _in_words(interface: Mapping[str, Any]) -> str:
    return (
        f"{interface['NetworkInterfaceId']} ({maker_of(interface)}, "
        f"{interface.get('InterfaceType', 'interface')}, {interface['Status']}, "
        f"{interface.get('Description', '')!r})"
    )


def _report(place: Place, things: Sequence[str]) -> str:
    held = "its subnets and security groups"
    if place.groups:
        held = f"the security group {', '.join(place.groups)}"
    text = f"{len(things)} things are left in {place.vpc}, so {held} cannot go: {'; '.join(things)}"
    if len(text) > LONGEST_REASON:
        text = f"{text[:LONGEST_REASON]}..."
    return (
        f"{text}. Delete what made them (nodes, functions, clusters; GuardDuty's endpoints and "
        "groups by hand), then delete this stack again; docs/deletion.md says how."
    )


def on_event(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Lambda's entry point."""
    return Drain(boto3.client("ec2", config=_AWS)).run(event, context)
