"""Wait until a cluster's controller has deleted what it made in EC2, as a CloudFormation resource.

The AWS Load Balancer Controller deletes a load balancer some time after the object that asked for
it, and its security groups after that. If the controller goes first, nobody does: the load balancer
costs money for ever, and its interfaces and groups keep the VPC. So this function, at deletion,
waits; and at the end of its time says what is left, in words that somebody can act on. It deletes
nothing: while it waits the controller is still there, and would make again what an object still
asks for.

Called by the CDK's provider framework, which reports to CloudFormation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

PAUSE_SECONDS = 15

RESERVE_SECONDS = 60
"""Of the function's time, kept back for the report."""

LONGEST_LIST = 1400
"""Of load balancers, and of groups; CloudFormation cuts off what is longer than 4,096 bytes."""

TAG = "elbv2.k8s.aws/cluster"
"""The controller's own, on all that it makes; its value is the EKS cluster's name.

On security groups, too: on the one of each load balancer beside the tags of its Ingress
(kubernetes-sigs/aws-load-balancer-controller, ``pkg/deploy/tracking/provider.go``), and on the one
that all share, beside ``elbv2.k8s.aws/resource: backend-sg`` (``docs/deploy/security_groups.md``).
The first goes once the load balancer is gone (``pkg/deploy/ec2/security_group_synthesizer.go``,
``PostSynthesize``), the second with the last Ingress or Service that needs it, before the
controller takes its finalizer off that (``controllers/ingress/group_controller.go``;
``pkg/networking/backend_sg_provider.go``, ``Release``, which tries for two minutes while
interfaces still use the group). It deletes the shared one by an id that it only keeps in memory:
a controller that starts anew while its last Ingress goes leaves it.
"""

ARNS_PER_CALL = 20
"""Most that DescribeTags takes."""

_AWS = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 5})
_GONE = "LoadBalancerNotFound"


class LeftoverError(Exception):
    """What is still there, for CloudFormation's event list."""


class Context(Protocol):
    """What is used of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the call."""
        ...


class Drain:
    """One deletion."""

    def __init__(
        self, elbv2: Any, ec2: Any, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Take the clients and, for tests, a way to wait."""
        self._elbv2 = elbv2
        self._ec2 = ec2
        self._sleep = sleep

    def run(self, event: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Handle one event; only a deletion does anything.

        Raises:
            LeftoverError: Something is still there at the end of the time.
        """
        vpc = str(event["ResourceProperties"]["VpcId"])
        cluster = str(event["ResourceProperties"]["ClusterName"])
        if event["RequestType"] == "Delete":
            self._wait(vpc, cluster, context)
        return {"PhysicalResourceId": event.get("PhysicalResourceId") or f"balancers-{cluster}"}

    def _wait(self, vpc: str, cluster: str, context: Context) -> None:
        while any(left := (self._balancers(vpc, cluster), self._groups(vpc, cluster))):
            balancers, groups = left
            if context.get_remaining_time_in_millis() < (PAUSE_SECONDS + RESERVE_SECONDS) * 1000:
                raise LeftoverError(_report(vpc, cluster, balancers, groups))
            log.info(
                "%d load balancers and %d security groups of %s are left",
                len(balancers),
                len(groups),
                cluster,
            )
            self._sleep(PAUSE_SECONDS)

    def _groups(self, vpc: str, cluster: str) -> list[str]:
        filters = [
            {"Name": "vpc-id", "Values": [vpc]},
            {"Name": f"tag:{TAG}", "Values": [cluster]},
        ]
        pages = self._ec2.get_paginator("describe_security_groups").paginate(Filters=filters)
        found = [group for page in pages for group in page["SecurityGroups"]]
        return [f"{group['GroupName']} ({group['GroupId']})" for group in found]

    def _balancers(self, vpc: str, cluster: str) -> list[str]:
        pages = self._elbv2.get_paginator("describe_load_balancers").paginate()
        here = [b for page in pages for b in page["LoadBalancers"] if b.get("VpcId") == vpc]
        arns = [b["LoadBalancerArn"] for b in here]
        owned = {
            arn
            for start in range(0, len(arns), ARNS_PER_CALL)
            for arn, tags in self._tags(arns[start : start + ARNS_PER_CALL])
            if tags.get(TAG) == cluster
        }
        return [
            f"{b['LoadBalancerName']} ({b['LoadBalancerArn']})"
            for b in here
            if b["LoadBalancerArn"] in owned
        ]

    def _tags(self, arns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        try:
            described = self._elbv2.describe_tags(ResourceArns=list(arns))["TagDescriptions"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != _GONE:
                raise
            # One that went since it was listed spoils the answer for all.
            if len(arns) > 1:
                for arn in arns:
                    yield from self._tags([arn])
            return
        for one in described:
            yield one["ResourceArn"], {tag["Key"]: tag["Value"] for tag in one["Tags"]}


def _report(vpc: str, cluster: str, balancers: Sequence[str], groups: Sequence[str]) -> str:
    said = [
        f"The controller of the EKS cluster {cluster} made these in {vpc} and has not deleted them",
        _listed("Load balancers", balancers),
        _listed("Security groups", groups),
    ]
    if balancers:
        said.append(
            "Delete the InferenceEndpointConfig, Ingress or Service that each load balancer stands "
            "for, and the controller deletes it, its security groups too; where there is none any "
            "more, run aws elbv2 delete-load-balancer --load-balancer-arn ARN"
        )
    if groups:
        said.append(
            "A security group whose Ingresses and load balancers are all gone was forgotten by a "
            "controller that started anew: take it out of the rules of others, and run aws ec2 "
            "delete-security-group --group-id ID"
        )
    said.append("Then delete this stack again; docs/deletion.md says how")
    return ". ".join(part for part in said if part) + "."


def _listed(kind: str, things: Sequence[str]) -> str:
    if not things:
        return ""
    text = f"{kind}, {len(things)}: {'; '.join(things)}"
    return text if len(text) <= LONGEST_LIST else f"{text[:LONGEST_LIST]}.."


def on_event(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Lambda's entry point."""
    elbv2, ec2 = (boto3.client(name, config=_AWS) for name in ("elbv2", "ec2"))
    return Drain(elbv2, ec2).run(event, context)
