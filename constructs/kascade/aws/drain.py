"""What a network waits for before its subnets go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as cr
from constructs import Construct, IDependable

from kascade.aws._logs import log_group
from kascade.aws._nag import accept_wildcards
from kascade.aws.timeouts import SERVICE_TIMEOUT_SECONDS

_HANDLER: Final = Path(__file__).parent.parent / "handlers" / "interface_drain"
_HANDLER_TIMEOUT: Final = cdk.Duration.minutes(14)
"""Lambda allows 15, and the provider's own function waits that long for this one."""


class InterfaceDrain(Construct):
    """At deletion, waits until no network interface of EKS, HyperPod or Lambda is left.

    Those services delete their interfaces later than they say, and a subnet with an interface in it
    cannot be deleted. The wait is bounded; what is left then is named, one by one, in the reason of
    the failure. Creation and updates return at once.

    Interfaces that nothing uses any more are deleted: in this VPC only, by the right's condition.
    """

    def __init__(  # noqa: PLR0913 - where to look, and what to stand before
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        holds: Sequence[IDependable],
        log_retention_days: int,
    ) -> None:
        """Watch some subnets.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            vpc: A VPC that goes with its stack.
            subnets: Where interfaces are looked for.
            holds: What else stays until they are gone, such as security groups.
            log_retention_days: Of the logs of both functions.
        """
        super().__init__(scope, construct_id)
        handler = self._make_handler(vpc, log_retention_days)
        resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::InterfaceDrain",
            service_token=self._make_provider(handler, log_retention_days).service_token,
            service_timeout=cdk.Duration.seconds(SERVICE_TIMEOUT_SECONDS),
            properties={"VpcId": vpc.vpc_id, "SubnetIds": [s.subnet_id for s in subnets]},
        )
        resource.node.add_dependency(*subnets, *holds)

    def _make_handler(self, vpc: ec2.IVpc, retention_days: int) -> lambda_.Function:
        logs = log_group(self, "HandlerLog", retention_days=retention_days)
        role = iam.Role(
            self,
            "HandlerRole",
            description="Deletes unused network interfaces of one VPC while it is being deleted",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        logs.grant_write(role)
        stack = cdk.Stack.of(self)

        def ec2_arn(resource: str, name: str) -> str:
            return stack.format_arn(service="ec2", resource=resource, resource_name=name)

        interfaces = ec2_arn("network-interface", "*")
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeVpcEndpoints",
                ],
                resources=["*"],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["ec2:DeleteNetworkInterface"],
                resources=[interfaces],
                conditions={"ArnEquals": {"ec2:Vpc": ec2_arn("vpc", vpc.vpc_id)}},
            )
        )
        accept_wildcards(
            role,
            ["*", interfaces],
            "Describe calls know no resource; interfaces get their ids from the services that make "
            "them, and the condition holds the right to delete to this VPC.",
        )
        return lambda_.Function(
            self,
            "Handler",
            description="Waits for network interfaces to go before their subnets",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset(
                str(_HANDLER), exclude=["__pycache__", "__init__.py", "*.pyc"]
            ),
            handler="index.on_event",
            role=role,
            timeout=_HANDLER_TIMEOUT,
            memory_size=256,
            log_group=logs,
        )

    def _make_provider(self, handler: lambda_.Function, retention_days: int) -> cr.Provider:
        logs = log_group(self, "ProviderLog", retention_days=retention_days)
        role = iam.Role(
            self,
            "ProviderRole",
            description="Calls the function that waits, for CloudFormation",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        logs.grant_write(role)
        accept_wildcards(
            role,
            [f"{handler.function_arn}:*"],
            "The CDK lets its provider call every version of the one function it fronts.",
        )
        return cr.Provider(
            self,
            "Provider",
            on_event_handler=handler,
            log_group=logs,
            framework_on_event_role=role,
        )
