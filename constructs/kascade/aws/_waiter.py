"""A custom resource that does nothing until it is deleted, and then waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from kascade.aws._logs import log_group
from kascade.aws._nag import accept_wildcards
from kascade.aws._provider import provider_of
from kascade.aws.timeouts import SERVICE_TIMEOUT_SECONDS

_HANDLERS: Final = Path(__file__).parent.parent / "handlers"
_HANDLER_TIMEOUT: Final = cdk.Duration.minutes(14)
"""Lambda allows 15, and the provider's own function waits that long for this one."""


class Waiter(Construct):
    """A function that waits, with its role and logs, and the resource that calls it.

    CloudFormation deletes it before all that ``resource`` depends on, which so stays until the
    function has answered.

    Attributes:
        resource: What to make depend on whatever should stay.
    """

    def __init__(  # noqa: PLR0913 - a program, what it may do and what it is told
        self,
        scope: Construct,
        construct_id: str,
        *,
        program: str,
        description: str,
        role_description: str,
        rights: Sequence[iam.PolicyStatement],
        wildcards: Sequence[str],
        wildcards_reason: str,
        resource_type: str,
        properties: Mapping[str, Any],
        log_retention_days: int,
    ) -> None:
        """Make the function and its resource.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            program: Folder of ``kascade.handlers``.
            description: Of the function.
            role_description: Of the function's role.
            rights: What the function may do, beside writing its log.
            wildcards: Resources of ``rights`` with a wildcard in them.
            wildcards_reason: Why they have one.
            resource_type: Begins with ``Custom::``.
            properties: What the function is told.
            log_retention_days: Of the logs of both functions.
        """
        super().__init__(scope, construct_id)
        handler_log = log_group(self, "HandlerLog", retention_days=log_retention_days)
        role = self._make_role("HandlerRole", role_description)
        handler_log.grant_write(role)
        for statement in rights:
            role.add_to_policy(statement)
        accept_wildcards(role, wildcards, wildcards_reason)
        handler = lambda_.Function(
            self,
            "Handler",
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset(
                str(_HANDLERS / program), exclude=["__pycache__", "__init__.py", "*.pyc"]
            ),
            handler="index.on_event",
            role=role,
            timeout=_HANDLER_TIMEOUT,
            memory_size=256,
            log_group=handler_log,
        )
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type=resource_type,
            service_token=provider_of(
                self,
                handler,
                description="Calls the function that waits, for CloudFormation",
                log_retention_days=log_retention_days,
            ).service_token,
            service_timeout=cdk.Duration.seconds(SERVICE_TIMEOUT_SECONDS),
            properties=dict(properties),
        )

    def _make_role(self, construct_id: str, description: str) -> iam.Role:
        return iam.Role(
            self,
            construct_id,
            description=description,
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
