"""Wait until a cluster's controller has deleted its load balancers, as a CloudFormation resource.

The AWS Load Balancer Controller deletes a load balancer some time after the object that asked for
it. If the controller goes first, nobody does: the load balancer costs money for ever, and its
interfaces keep the VPC. So this function, at deletion, waits; and at the end of its time says what
is left, in words that somebody can act on. It deletes nothing: while it waits the controller is
still there, and would make again what an object still asks for.

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

LONGEST_REASON = 3000
"""CloudFormation cuts off what is longer than 4,096 bytes."""

TAG = "elbv2.k8s.aws/cluster"
"""The controller's own, on all that it makes; its value is the EKS cluster's name."""

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

    def __init__(self, elbv2: Any, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the client and, for tests, a way to wait."""
        self._elbv2 = elbv2
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
        while left := self._balancers(vpc, cluster):
            if context.get_remaining_time_in_millis() < (PAUSE_SECONDS + RESERVE_SECONDS) * 1000:
                raise LeftoverError(_report(vpc, cluster, left))
            log.info("%d load balancers of %s are left", len(left), cluster)
            self._sleep(PAUSE_SECONDS)

    def _balancers(self, vpc: str, cluster: str) -> list[dict[str, Any]]:
        pages = self._elbv2.get_paginator("describe_load_balancers").paginate()
        here = [b for page in pages for b in page["LoadBalancers"] if b.get("VpcId") == vpc]
        arns = [b["LoadBalancerArn"] for b in here]
        owned = {
            arn
            for start in range(0, len(arns), ARNS_PER_CALL)
            for arn, tags in self._tags(arns[start : start + ARNS_PER_CALL])
            if tags.get(TAG) == cluster
        }
        return [b for b in here if b["LoadBalancerArn"] in owned]

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


def _report(vpc: str, cluster: str, left: Sequence[Mapping[str, Any]]) -> str:
    things = "; ".join(f"{b['LoadBalancerName']} ({b['LoadBalancerArn']})" for b in left)
    text = (
        f"Load balancers that the controller of the EKS cluster {cluster} made and has not "
        f"deleted, {len(left)} in {vpc}: {things}"
    )
    if len(text) > LONGEST_REASON:
        text = f"{text[:LONGEST_REASON]}..."
    return (
        f"{text}. Delete the InferenceEndpointConfig, Ingress or Service that each stands for, and "
        "the controller deletes it; where there is none any more, run aws elbv2 "
        "delete-load-balancer --load-balancer-arn ARN. Then delete this stack again; "
        "docs/deletion.md says how."
    )


def on_event(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Lambda's entry point."""
    return Drain(boto3.client("elbv2", config=_AWS)).run(event, context)
