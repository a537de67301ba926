"""Wait until nothing of a deleted cluster is left in its subnets, as a CloudFormation resource.

EKS, HyperPod and Lambda delete their network interfaces some minutes after they report that they
are gone, and the VPC CNI leaves those of nodes that ended abruptly. Until then no subnet and no
security group can be deleted. So this function, at deletion, waits; deletes what lies about
unattached; and at the end of its time says what is left, in words that somebody can act on.

Called by the CDK's provider framework, which reports to CloudFormation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
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
        vpc = str(event["ResourceProperties"]["VpcId"])
        subnets = list(event["ResourceProperties"]["SubnetIds"])
        if event["RequestType"] == "Delete":
            self._wait(vpc, subnets, context)
        return {"PhysicalResourceId": event.get("PhysicalResourceId") or f"drain-{vpc}"}

    def _wait(self, vpc: str, subnets: Sequence[str], context: Context) -> None:
        while left := self._interfaces(subnets):
            unused = [interface for interface in left if interface["Status"] == "available"]
            for interface in unused:
                self._delete(interface)
            left_ms = context.get_remaining_time_in_millis()
            if left_ms < (PAUSE_SECONDS + RESERVE_SECONDS) * 1000:
                break
            log.info("%d network interfaces are left, %d of them unused", len(left), len(unused))
            self._sleep(PAUSE_SECONDS if len(unused) < len(left) else SHORT_PAUSE_SECONDS)
        left = self._interfaces(subnets)
        strangers = self._strangers(vpc)
        if left or strangers:
            raise LeftoverError(_report(vpc, [*map(_in_words, left), *strangers]))

    def _interfaces(self, subnets: Sequence[str]) -> list[dict[str, Any]]:
        pages = self._ec2.get_paginator("describe_network_interfaces").paginate(
            Filters=[{"Name": "subnet-id", "Values": list(subnets)}]
        )
        found = [i for page in pages for i in page["NetworkInterfaces"]]
        return [i for i in found if i.get("SubnetId") in subnets and maker_of(i) is not None]

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


def _managed(item: Mapping[str, Any]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}
    return tags.get("GuardDutyManaged") == "true"


def _in_words(interface: Mapping[str, Any]) -> str:
    return (
        f"{interface['NetworkInterfaceId']} ({maker_of(interface)}, "
        f"{interface.get('InterfaceType', 'interface')}, {interface['Status']}, "
        f"{interface.get('Description', '')!r})"
    )


def _report(vpc: str, things: Sequence[str]) -> str:
    text = (
        f"{len(things)} things are left in {vpc}, so its subnets and security groups cannot go: "
        f"{'; '.join(things)}"
    )
    if len(text) > LONGEST_REASON:
        text = f"{text[:LONGEST_REASON]}..."
    return (
        f"{text}. Delete what made them (nodes, functions, clusters; GuardDuty's endpoints and "
        "groups by hand), then delete this stack again; docs/deletion.md says how."
    )


def on_event(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Lambda's entry point."""
    return Drain(boto3.client("ec2", config=_AWS)).run(event, context)
