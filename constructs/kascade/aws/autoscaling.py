"""HyperPod's managed Karpenter, which adds instances to groups and takes them away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from kascade.aws._nag import accept_wildcards

_GRANTED: Final = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
    "RetireGrant",
)
"""What a volume's grant is for (reported: page sagemaker-hyperpod-eks-autoscaling)."""


def _volumes(keys: Sequence[str]) -> dict[str, iam.PolicyDocument]:
    """Rights on the keys of the instances' volumes, by way of SageMaker alone."""
    if not keys:
        return {}
    through = {"StringLike": {"kms:ViaService": "sagemaker.*.amazonaws.com"}}
    grant = iam.PolicyStatement(
        actions=["kms:CreateGrant"],
        resources=list(keys),
        conditions={
            **through,
            "Bool": {"kms:GrantIsForAWSResource": "true"},
            "ForAllValues:StringEquals": {"kms:GrantOperations": list(_GRANTED)},
        },
    )
    describe = iam.PolicyStatement(
        actions=["kms:DescribeKey"], resources=list(keys), conditions=through
    )
    return {"Volumes": iam.PolicyDocument(statements=[grant, describe])}


class KarpenterAutoscaling(Construct):
    """Turns autoscaling on for a cluster whose groups begin empty.

    While it is on, HyperPod lets nobody change the role of the cluster: this one has no name
    and nothing in it that a change of the configuration would replace.

    Attributes:
        role: What HyperPod's Karpenter runs as.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        hyperpod: sagemaker.CfnCluster,
        volume_keys: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        # The cluster's id is unknown before it exists, and it is made with this role.
        clusters = cdk.Stack.of(self).format_arn(
            service="sagemaker", resource="cluster", resource_name="*"
        )
        self.role = iam.Role(
            self,
            "ClusterRole",
            assumed_by=iam.ServicePrincipal("hyperpod.sagemaker.amazonaws.com"),
            description="HyperPod's Karpenter: adds and removes instances",
            inline_policies={
                "Nodes": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=[
                                "sagemaker:BatchAddClusterNodes",
                                "sagemaker:BatchDeleteClusterNodes",
                            ],
                            resources=[clusters],
                        )
                    ]
                )
            }
            | _volumes(volume_keys),
        )
        accept_wildcards(
            self.role,
            [clusters],
            "A HyperPod cluster's ARN ends with an id that only exists once it does, and the "
            "cluster is made with this role.",
        )
        hyperpod.auto_scaling = sagemaker.CfnCluster.ClusterAutoScalingConfigProperty(
            mode="Enable", auto_scaler_type="Karpenter"
        )
        hyperpod.cluster_role = self.role.role_arn
        hyperpod.node.add_dependency(self.role)
