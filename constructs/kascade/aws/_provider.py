"""The provider in front of a function of ours, which answers CloudFormation for it."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as cr
from constructs import Construct

from kascade.aws._logs import log_group
from kascade.aws._nag import accept_wildcards


def provider_of(
    scope: Construct, handler: lambda_.Function, *, description: str, log_retention_days: int
) -> cr.Provider:
    """Make a provider with a role and a log group of its own.

    Args:
        scope: Parent construct; gets ``ProviderLog``, ``ProviderRole`` and ``Provider``.
        handler: The function it calls.
        description: Of its role.
        log_retention_days: Of its log group.
    """
    logs = log_group(scope, "ProviderLog", retention_days=log_retention_days)
    role = iam.Role(
        scope,
        "ProviderRole",
        description=description,
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
    )
    logs.grant_write(role)
    accept_wildcards(
        role,
        [f"{handler.function_arn}:*"],
        "The CDK lets its provider call every version of the one function it fronts.",
    )
    return cr.Provider(
        scope,
        "Provider",
        on_event_handler=handler,
        log_group=logs,
        framework_on_event_role=role,
    )
