"""Findings of cdk-nag that stay, each with its reason beside the construct it is found on."""

from collections.abc import Iterable
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct


def accept(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge a finding, such as ``AwsSolutions-S1``, of a construct and of all below it."""
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=rule, reason=reason))


def accept_managed_policies(construct: IConstruct, names: Iterable[str], reason: str) -> None:
    """Acknowledge policies that AWS manages, each by name: a further one is a new finding."""
    stack = cdk.Stack.of(construct)
    for name in names:
        policy = iam.ManagedPolicy.from_aws_managed_policy_name(name)
        written = _as_written(stack.resolve(policy.managed_policy_arn))
        accept(construct, f"AwsSolutions-IAM4[Policy::{written}]", reason)


def accept_wildcards(construct: IConstruct, resources: Iterable[str], reason: str) -> None:
    """Acknowledge resources with a wildcard in them, given as the policy statement has them."""
    stack = cdk.Stack.of(construct)
    for resource in resources:
        written = _as_written(stack.resolve(resource))
        accept(construct, f"AwsSolutions-IAM5[Resource::{written}]", reason)


def _as_written(value: Any) -> str:
    """Write a resolved value the way cdk-nag names it.

    >>> _as_written({"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::x/*"]]})
    'arn:<AWS::Partition>:s3:::x/*'
    >>> _as_written({"Fn::GetAtt": ["Bucket", "Arn"]})
    '<Bucket.Arn>'
    """
    match value:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_as_written(part) for part in parts)
        case _:
            return str(value)
