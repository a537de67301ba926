"""What the S3 CSI driver may read: the folders that hold weights, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.aws._nag import accept_wildcards
from kascade.sizing.plan import BucketAccess

S3_SERVICE_ACCOUNT: Final = "s3-csi-driver-sa"
"""Of the driver's DaemonSet, in kube-system; it hands its credentials to each Mountpoint."""


def weights_reader(
    scope: Construct, construct_id: str, *, folders: Sequence[BucketAccess]
) -> iam.Role:
    """Make the driver's role.

    One role for all models: the driver has one identity, and rights by pod exist for IRSA only.

    Args:
        scope: Parent construct.
        construct_id: Id below the parent.
        folders: What may be read.
    """
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("pods.eks.amazonaws.com").with_session_tags(),
        description="S3 CSI driver, by EKS Pod Identity: reads weights",
    )
    for folder in folders:
        bucket = _arn(scope, folder.bucket)
        objects = f"{bucket}/{folder.prefix}/*"
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[bucket],
                conditions={"StringLike": {"s3:prefix": f"{folder.prefix}/*"}},
            )
        )
        role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[objects]))
        accept_wildcards(role, [objects], "Every file of a folder that holds one model's weights.")
    keys = sorted({folder.kms_key_arn for folder in folders if folder.kms_key_arn is not None})
    if keys:
        role.add_to_policy(iam.PolicyStatement(actions=["kms:Decrypt"], resources=keys))
    return role


def _arn(scope: Construct, bucket: str) -> str:
    return cdk.Stack.of(scope).format_arn(service="s3", region="", account="", resource=bucket)
