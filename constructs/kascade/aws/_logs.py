"""Log groups with a stated retention."""

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct


def log_group(
    scope: Construct, construct_id: str, *, retention_days: int, name: str | None = None
) -> logs.LogGroup:
    """Make a log group that keeps its events for a given time and goes with its stack.

    CloudWatch encrypts it with a key of its own. A customer key would cost a key policy that
    trusts the log service and adds nothing here: no group of this library holds prompts or
    answers.
    """
    group = logs.LogGroup(
        scope, construct_id, log_group_name=name, removal_policy=cdk.RemovalPolicy.DESTROY
    )
    cast("logs.CfnLogGroup", group.node.default_child).retention_in_days = retention_days
    return group
