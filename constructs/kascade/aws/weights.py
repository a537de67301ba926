"""What the S3 CSI driver may read: the folders that hold weights, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.aws._nag import accept_wildcards
from kascade.aws._trust import pods_of
from kascade.plan import BucketAccess

S3_SERVICE_ACCOUNT: Final = "s3-csi-driver-sa"
"""Of the driver's DaemonSet, in kube-system; it hands its credentials to each Mountpoint."""

_ID_DIGITS: Final = 12


def weights_role(scope: Construct, construct_id: str, *, cluster_name: str) -> iam.Role:
    """Make the driver's role, which may read nothing yet.

    One role for all models: the driver has one identity, and rights by pod exist for IRSA only.

    Args:
        scope: Parent construct.
        construct_id: Id below the parent.
        cluster_name: The EKS cluster's.
    """
    return iam.Role(
        scope,
        construct_id,
        assumed_by=pods_of(cluster_name),
        description="S3 CSI driver, by EKS Pod Identity: reads weights",
    )


class WeightsRights(Construct):
    """The rights of the driver's role, one policy for each folder.

    They stand in the stack of the engines, which depend on them. A swap of models or weights is
    then another policy: CloudFormation makes it before the engines change, and takes the old one
    away after everything else. Where the change is rolled back the old one has never gone. So a
    policy is named after what it lets read, and never changes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        role: iam.IRole,
        folders: Sequence[BucketAccess],
    ) -> None:
        """Give the rights.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            role: The driver's.
            folders: What may be read.
        """
        super().__init__(scope, construct_id)
        for folder in folders:
            self._allow(role, folder)

    def _allow(self, role: iam.IRole, folder: BucketAccess) -> None:
        bucket = cdk.Stack.of(self).format_arn(
            service="s3", region="", account="", resource=folder.bucket
        )
        objects = f"{bucket}/{folder.prefix}/*"
        statements = [
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[bucket],
                conditions={"StringLike": {"s3:prefix": f"{folder.prefix}/*"}},
            ),
            iam.PolicyStatement(actions=["s3:GetObject"], resources=[objects]),
        ]
        if folder.kms_key_arn is not None:
            statements.append(
                iam.PolicyStatement(actions=["kms:Decrypt"], resources=[folder.kms_key_arn])
            )
        policy = iam.Policy(self, _id(folder), roles=[role], statements=statements)
        accept_wildcards(
            policy, [objects], "Every file of a folder that holds one model's weights."
        )


def _id(folder: BucketAccess) -> str:
    what = "\n".join((folder.bucket, folder.prefix, folder.kms_key_arn or ""))
    return hashlib.sha256(what.encode()).hexdigest()[:_ID_DIGITS]
