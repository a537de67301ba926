"""HyperPod's managed Karpenter, which adds instances to groups and takes them away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.aws._given import an, refuse, wrong
from kascade.aws._nag import accept_wildcards
from kascade.aws.hyperpod import HyperPodCluster

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

_CLUSTER: Final = an(
    HyperPodCluster, "a HyperPodCluster that is made in this app, not its resource"
)


def _mistakes(hyperpod: HyperPodCluster) -> Iterator[str]:
    """What the pages below sagemaker-hyperpod-eks-autoscaling say does not work."""
    if hyperpod.settings.node_recovery != "Automatic":
        yield (
            f"the cluster's node_recovery is {hyperpod.settings.node_recovery!r}; with autoscaling "
            "HyperPod has to replace instances itself, so use 'Automatic'"
        )
    for name, group in hyperpod.instance_groups.items():
        where = f"instance group {name!r}"
        if group.count:
            yield (
                f"{where} has a count of {group.count}, and Karpenter's groups begin empty; make "
                "it 0, and bound the instances in a NodePool"
            )
        if group.capacity.kind == "training_plan":
            yield (
                f"{where} is of a training plan, whose instances are paid for whether they run or "
                "not; use on-demand or spot capacity"
            )
        if group.deep_health_checks:
            yield (
                f"{where} has deep health checks, in whose hours Karpenter adds further instances "
                "for the pods that wait; leave them out"
            )


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

    Make it when the cluster has all its groups: the rights are on the keys of their volumes.

    Attributes:
        role: What HyperPod's Karpenter runs as.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        hyperpod: HyperPodCluster,
    ) -> None:
        """Turn it on.

        Args:
            scope: Where in the construct tree.
            construct_id: Under which name.
            hyperpod: The cluster itself, not its ``resource``.

        Raises:
            KascadeError: It is no such cluster, or its groups do not begin empty; with every
                reason.
        """
        super().__init__(scope, construct_id)
        refuse(self.node.path, wrong("hyperpod", hyperpod, _CLUSTER))
        refuse(self.node.path, list(_mistakes(hyperpod)))
        keys = {key.key_arn for group in hyperpod.instance_groups.values() for key in group.keys}
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
            | _volumes(sorted(keys)),
        )
        accept_wildcards(
            self.role,
            [clusters],
            "A HyperPod cluster's ARN ends with an id that only exists once it does, and the "
            "cluster is made with this role.",
        )
        hyperpod.scale_with(self.role)
