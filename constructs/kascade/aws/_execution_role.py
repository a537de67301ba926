"""What HyperPod nodes run as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from kascade.aws._nag import accept_managed_policies, accept_wildcards

_INSTANCE_POLICY: Final = "AmazonSageMakerClusterInstanceRolePolicy"
_INTERFACE_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)


def _allow(actions: Sequence[str], resources: Sequence[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


class ExecutionRole(iam.Role):
    """The rights AWS's own HyperPod templates give, as narrow as each action allows.

    All inline, so that the role is complete once it exists. Subnets, security groups and keys of
    groups that are added later join the same policies.
    """

    def __init__(  # noqa: PLR0913 - what its rights are bound to
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_arn: str,
        vpc_id: str,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
        bucket: s3.IBucket,
    ) -> None:
        stack = cdk.Stack.of(scope)

        def ec2_arn(resource: str, name: str) -> str:
            return stack.format_arn(service="ec2", resource=resource, resource_name=name)

        instances, interfaces = ec2_arn("instance", "*"), ec2_arn("network-interface", "*")
        objects = bucket.arn_for_objects("*")
        # Any account's: AWS publishes its agents from accounts of its own.
        repositories = f"arn:{cdk.Aws.PARTITION}:ecr:*:*:repository/*"
        places = [
            *(ec2_arn("subnet", name) for name in subnet_ids),
            *(ec2_arn("security-group", name) for name in security_group_ids),
        ]
        networking = iam.PolicyDocument(
            statements=[
                _allow(["ec2:AttachNetworkInterface"], [instances, interfaces]),
                _allow(["ec2:CreateTags"], [interfaces]),
                _allow(_INTERFACE_ACTIONS, [instances, interfaces, ec2_arn("vpc", vpc_id)]),
                _allow([*_INTERFACE_ACTIONS, "ec2:DetachNetworkInterface"], places),
                _allow(["ec2:DetachNetworkInterface"], [instances, interfaces]),
                _allow(
                    [
                        "ec2:DescribeDhcpOptions",
                        "ec2:DescribeInstanceTypes",
                        "ec2:DescribeInstances",
                        "ec2:DescribeNetworkInterfaces",
                        "ec2:DescribeSecurityGroups",
                        "ec2:DescribeSubnets",
                        "ec2:DescribeTags",
                        "ec2:DescribeVpcs",
                    ],
                    ["*"],
                ),
            ]
        )
        images = [
            _allow(["ecr:GetAuthorizationToken"], ["*"]),
            _allow(
                [
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                [repositories],
            ),
        ]
        node = iam.PolicyDocument(
            statements=[
                _allow(["cloudwatch:DescribeAlarms"], ["*"]),
                _allow(["eks-auth:AssumeRoleForPodIdentity"], [cluster_arn]),
                _allow(["s3:ListBucket"], [bucket.bucket_arn]),
                _allow(["s3:GetObject"], [objects]),
            ]
        )
        super().__init__(
            scope,
            construct_id,
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description="HyperPod nodes",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_INSTANCE_POLICY)],
            inline_policies={
                "PodNetworking": networking,
                "Images": iam.PolicyDocument(statements=images),
                "Node": node,
            },
        )
        self._networking, self._node = networking, node
        self._allowed = set(places)
        accept_managed_policies(
            self,
            [_INSTANCE_POLICY],
            "HyperPod's documented policy for its nodes; AWS extends it together with the agents "
            "that run on them.",
        )
        accept_wildcards(
            self,
            ["*", instances, interfaces, repositories, objects],
            "Nodes and their network interfaces get their ids at run time; describe calls, ECR's "
            "token and DescribeAlarms know no resource; images come from AWS's registries too; "
            "the bucket holds the lifecycle script only.",
        )

    def admit_places(self, subnet_ids: Sequence[str], security_group_ids: Sequence[str]) -> None:
        """Let nodes have interfaces in further subnets and security groups."""
        stack = cdk.Stack.of(self)
        kinds = {"subnet": subnet_ids, "security-group": security_group_ids}
        places = [
            stack.format_arn(service="ec2", resource=kind, resource_name=name)
            for kind, names in kinds.items()
            for name in names
        ]
        new = [place for place in dict.fromkeys(places) if place not in self._allowed]
        if new:
            self._networking.add_statements(
                _allow([*_INTERFACE_ACTIONS, "ec2:DetachNetworkInterface"], new)
            )
        self._allowed.update(new)

    def admit_keys(self, keys: Sequence[kms.IKey]) -> None:
        """Let HyperPod encrypt volumes with keys of a person's own.

        With the role's right to create grants HyperPod adds and renews nodes (SageMaker Developer
        Guide, page smcluster-cmk). The key's own policy must allow it, too.
        """
        arns = dict.fromkeys(key.key_arn for key in keys)
        new = [arn for arn in arns if arn not in self._allowed]
        if new:
            self._node.add_statements(_allow(["kms:CreateGrant", "kms:DescribeKey"], new))
        self._allowed.update(new)
