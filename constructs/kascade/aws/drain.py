"""What a network waits for before its subnets go."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from kascade.aws._waiter import Waiter


class InterfaceDrain(Waiter):
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
        stack = cdk.Stack.of(scope)

        def ec2_arn(resource: str, name: str) -> str:
            return stack.format_arn(service="ec2", resource=resource, resource_name=name)

        interfaces = ec2_arn("network-interface", "*")
        super().__init__(
            scope,
            construct_id,
            program="interface_drain",
            description="Waits for network interfaces to go before their subnets",
            role_description="Deletes unused network interfaces of one VPC while it is being "
            "deleted",
            rights=[
                iam.PolicyStatement(
                    actions=[
                        "ec2:DescribeNetworkInterfaces",
                        "ec2:DescribeSecurityGroups",
                        "ec2:DescribeVpcEndpoints",
                    ],
                    resources=["*"],
                ),
                iam.PolicyStatement(
                    actions=["ec2:DeleteNetworkInterface"],
                    resources=[interfaces],
                    conditions={"ArnEquals": {"ec2:Vpc": ec2_arn("vpc", vpc.vpc_id)}},
                ),
            ],
            wildcards=["*", interfaces],
            wildcards_reason="Describe calls know no resource; interfaces get their ids from the "
            "services that make them, and the condition holds the right to delete to this VPC.",
            resource_type="Custom::InterfaceDrain",
            properties={"VpcId": vpc.vpc_id, "SubnetIds": [s.subnet_id for s in subnets]},
            log_retention_days=log_retention_days,
        )
        self.resource.node.add_dependency(*subnets, *holds)
