"""What empties a bucket before its stack deletes it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from kascade.aws._waiter import Waiter


class BucketDrain(Waiter):
    """At the deletion of its stack, deletes what a bucket holds, so that the bucket can go.

    Whatever writes to the bucket must depend on ``resource``: it is then deleted first. Nothing
    happens at creation, at updates, or where this construct alone leaves the template. Use it
    only where both keys of ``kascade.aws.removal`` are given: a bucket that is kept keeps all.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, bucket: s3.Bucket, log_retention_days: int
    ) -> None:
        """Watch over one bucket.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            bucket: Of the same stack.
            log_retention_days: Of the logs of both functions.
        """
        stack = cdk.Stack.of(scope)
        objects = bucket.arn_for_objects("*")
        super().__init__(
            scope,
            construct_id,
            program="bucket_drain",
            description="Empties a bucket when its stack is deleted",
            role_description="Deletes what one bucket holds when its stack is deleted",
            rights=[
                iam.PolicyStatement(
                    actions=["s3:ListBucketVersions"], resources=[bucket.bucket_arn]
                ),
                iam.PolicyStatement(
                    actions=["s3:DeleteObject", "s3:DeleteObjectVersion"], resources=[objects]
                ),
                iam.PolicyStatement(
                    actions=["cloudformation:DescribeStacks"], resources=[stack.stack_id]
                ),
            ],
            wildcards=[objects],
            wildcards_reason="Others name the files of this one bucket.",
            resource_type="Custom::BucketDrain",
            properties={"BucketName": bucket.bucket_name},
            log_retention_days=log_retention_days,
        )
