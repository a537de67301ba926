"""What a network waits for before its subnets go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.aws._waiter import Waiter

GROUP_TAGS: Final = ("aws:eks:cluster-name", "elbv2.k8s.aws/cluster")
"""As in the function, which stands alone; a test compares."""


class InterfaceDrain(Waiter):
    """At deletion, waits until no network interface of EKS, HyperPod or Lambda is left.

    Those services delete their interfaces later than they say, and a subnet with an interface in it
    cannot be deleted. The wait is bounded; what is left then is named, one by one, in the reason of
    the failure. Creation and updates return at once.

    Interfaces that nothing uses any more are deleted: in this VPC only, by the right's condition.
    So are the security groups that EKS and the load balancer controller made for the cluster and
    left: by the tag with the cluster's name. Neither is named by any template.

    In a VPC that stays only interfaces with the deployment's own groups are waited for, since those
    groups go; and nothing is deleted.
    """

    def __init__(  # noqa: PLR0913 - where to look, and what to stand before
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        holds: Sequence[ec2.ISecurityGroup],
        log_retention_days: int,
        cluster_name: str | None = None,
    ) -> None:
        """Watch some subnets.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            vpc: A VPC that goes with its stack, if ``cluster_name`` is given.
            subnets: Where interfaces are looked for.
            holds: Security groups that stay until they are gone.
            log_retention_days: Of the logs of both functions.
            cluster_name: Of the EKS cluster whose leftover groups go; None in a VPC that stays.
        """
        stack = cdk.Stack.of(scope)

        def ec2_arn(resource: str, name: str) -> str:
            return stack.format_arn(service="ec2", resource=resource, resource_name=name)

        interfaces, groups = ec2_arn("network-interface", "*"), ec2_arn("security-group", "*")
        here = {"ArnEquals": {"ec2:Vpc": ec2_arn("vpc", vpc.vpc_id)}}
        rights = [
            iam.PolicyStatement(
                actions=[
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeVpcEndpoints",
                ],
                resources=["*"],
            )
        ]
        told: dict[str, object] = {
            "VpcId": vpc.vpc_id,
            "SubnetIds": [s.subnet_id for s in subnets],
        }
        if cluster_name is None:
            told["SecurityGroupIds"] = [group.security_group_id for group in holds]
        else:
            told["ClusterName"] = cluster_name
            rights.append(
                iam.PolicyStatement(
                    actions=["ec2:DeleteNetworkInterface"], resources=[interfaces], conditions=here
                )
            )
            rights += [
                iam.PolicyStatement(
                    actions=["ec2:DeleteSecurityGroup"],
                    resources=[groups],
                    conditions={**here, "StringEquals": {f"aws:ResourceTag/{tag}": cluster_name}},
                )
                for tag in GROUP_TAGS
            ]
        super().__init__(
            scope,
            construct_id,
            program="interface_drain",
            description="Waits for network interfaces to go before their subnets",
            role_description="Deletes unused network interfaces of one VPC while it is being "
            "deleted",
            rights=rights,
            wildcards=["*"] if cluster_name is None else ["*", interfaces, groups],
            wildcards_reason="Describe calls know no resource; interfaces and groups get their ids "
            "from the services that make them, and conditions hold the rights to delete to this "
            "VPC, and of groups to those with this cluster's tag.",
            resource_type="Custom::InterfaceDrain",
            properties=told,
            log_retention_days=log_retention_days,
        )
        self.resource.node.add_dependency(*subnets, *holds)
