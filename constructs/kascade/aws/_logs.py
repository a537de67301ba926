"""Log groups with a stated retention."""

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct


def log_group(
    scope: Construct, construct_id: str, *, retention_days: int, name: str | None = None
) -> logs.LogGroup:
    """Make a log group that keeps its events for a given time.

    It goes with its stack, unless an app decides otherwise (``kascade.aws.removal``).

    CloudWatch encrypts it with a key of its own. A customer key would cost a key policy that
    trusts the log service and adds nothing here: no group of this library holds prompts or
    answers.
    """
    group = logs.LogGroup(
        scope, construct_id, log_group_name=name, removal_policy=cdk.RemovalPolicy.DESTROY
    )
    cast("logs.CfnLogGroup", group.node.default_child).retention_in_days = retention_days
    return group


def streams_of(log_group_arn: str) -> str:
    """Every stream of a group; Lambda names them, so no policy can."""
    return f"{log_group_arn}:log-stream:*"


def log_writing(log_group_arn: str) -> iam.PolicyStatement:
    """Let a function write to one group, and make none."""
    return iam.PolicyStatement(
        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
        resources=[log_group_arn, streams_of(log_group_arn)],
    )
