"""Empty a bucket when its stack is deleted, as a CloudFormation resource.

S3 deletes no bucket that holds something. This resource stands between the bucket and whatever
writes to it, so it is deleted when nobody writes any more and the bucket is still there.

It leaves the template as soon as one of the two keys is taken back, and CloudFormation deletes it
then, too. That is no wish to lose what the bucket holds: so the function asks what happens to the
whole stack, and empties only where that goes.

Called by the CDK's provider framework, which reports to CloudFormation.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

GOING = frozenset({"DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"})
"""States of a stack that ends: deleted, or taken back at its first creation."""

RESERVE_SECONDS = 60
"""Of the function's time, kept back for the report."""

_AWS = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "max_attempts": 5})
_GONE = "NoSuchBucket"


class LeftoverError(Exception):
    """What is still there, for CloudFormation's event list."""


class Context(Protocol):
    """What is used of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the call."""
        ...


class Drain:
    """One deletion."""

    def __init__(self, s3: Any, cloudformation: Any) -> None:
        """Take the clients."""
        self._s3 = s3
        self._cloudformation = cloudformation

    def run(self, event: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Handle one event; only the deletion of the whole stack does anything.

        Raises:
            LeftoverError: Something is still there.
        """
        bucket = str(event["ResourceProperties"]["BucketName"])
        if event["RequestType"] == "Delete":
            if self._stack_goes(str(event["StackId"])):
                self._empty(bucket, context)
            else:
                log.info("The stack stays, and so does what %s holds", bucket)
        return {"PhysicalResourceId": event.get("PhysicalResourceId") or f"drain-{bucket}"}

    def _stack_goes(self, stack: str) -> bool:
        (found,) = self._cloudformation.describe_stacks(StackName=stack)["Stacks"]
        return found["StackStatus"] in GOING

    def _empty(self, bucket: str, context: Context) -> None:
        """Delete every version of every object, page by page as S3 lists them."""
        deleted = 0
        try:
            for page in self._s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
                if context.get_remaining_time_in_millis() < RESERVE_SECONDS * 1000:
                    raise LeftoverError(_unfinished(bucket, deleted))
                versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
                if versions:
                    self._delete(bucket, versions)
                deleted += len(versions)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != _GONE:
                raise
        log.info("Deleted %d objects of %s", deleted, bucket)

    def _delete(self, bucket: str, versions: list[Mapping[str, Any]]) -> None:
        objects = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in versions]
        # A page has as many as one call takes.
        answer = self._s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        errors = answer.get("Errors", ())
        if errors:
            first = errors[0]
            msg = (
                f"{len(errors)} objects of {bucket} cannot be deleted, such as {first.get('Key')}: "
                f"{first.get('Code')} {first.get('Message', '')}. Delete them by hand, then delete "
                "this stack again; docs/deletion.md says how."
            )
            raise LeftoverError(msg)


def _unfinished(bucket: str, deleted: int) -> str:
    return (
        f"{deleted} objects of {bucket} are deleted, and time is up before the rest. Delete this "
        "stack again, or run aws s3 rm --recursive before; docs/deletion.md says how."
    )


def on_event(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Lambda's entry point."""
    clients = (boto3.client(name, config=_AWS) for name in ("s3", "cloudformation"))
    return Drain(*clients).run(event, context)
