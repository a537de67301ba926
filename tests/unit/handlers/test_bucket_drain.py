"""The function that empties a bucket whose stack goes, against an S3 that keeps versions."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from kascade.handlers.bucket_drain.index import Drain, LeftoverError

BUCKET = "hyperpod-tls-a"
STACK = "arn:aws:cloudformation:us-west-2:111122223333:stack/a-cluster/0a"
EVENT = {
    "RequestType": "Delete",
    "StackId": STACK,
    "ResourceProperties": {"BucketName": BUCKET},
}
NOBODY = Config(signature_version=UNSIGNED)


class S3:
    """A bucket of versions and delete markers; it lists them a page at a time, as S3 does."""

    def __init__(self, versions: int = 0, markers: int = 0, *, page: int = 1000) -> None:
        self.versions = [{"Key": f"v{n}", "VersionId": "null"} for n in range(versions)]
        self.markers = [{"Key": f"m{n}", "VersionId": f"{n}"} for n in range(markers)]
        self.page = page
        self.there = True
        self.refuses: dict[str, str] = {}

    def get_paginator(self, operation: str) -> "S3":
        assert operation == "list_object_versions"
        return self

    def paginate(self, *, Bucket: str) -> Iterator[Any]:  # noqa: N803 - boto3's name
        assert Bucket == BUCKET
        if not self.there:
            raise ClientError({"Error": {"Code": "NoSuchBucket"}}, "ListObjectVersions")
        listed = [*(("Versions", v) for v in self.versions)]
        listed += [("DeleteMarkers", m) for m in self.markers]
        for start in range(0, len(listed) or 1, self.page):
            page: dict[str, list[Any]] = {}
            for kind, item in listed[start : start + self.page]:
                page.setdefault(kind, []).append(item)
            yield page

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> Any:  # noqa: N803 - boto3's
        assert Bucket == BUCKET
        assert 1 <= len(Delete["Objects"]) <= 1000  # as the service has it
        assert Delete["Quiet"]
        if self.refuses:
            return {"Errors": [{"Key": Delete["Objects"][0]["Key"], **self.refuses}]}
        gone = {(o["Key"], o["VersionId"]) for o in Delete["Objects"]}
        self.versions = [v for v in self.versions if (v["Key"], v["VersionId"]) not in gone]
        self.markers = [m for m in self.markers if (m["Key"], m["VersionId"]) not in gone]
        return {}

    @property
    def left(self) -> int:
        return len(self.versions) + len(self.markers)


class CloudFormation:
    """One stack in one state."""

    def __init__(self, status: str) -> None:
        self.status = status

    def describe_stacks(self, *, StackName: str) -> Any:  # noqa: N803 - boto3's name
        assert StackName == STACK
        return {"Stacks": [{"StackName": "a-cluster", "StackStatus": self.status}]}


class Clock:
    def __init__(self, *left_ms: int) -> None:
        self.left_ms = list(left_ms)

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms.pop(0) if self.left_ms else 840_000


def run(
    s3: S3, kind: str = "Delete", *, status: str = "DELETE_IN_PROGRESS", clock: Clock | None = None
) -> Any:
    event = {
        "RequestType": kind,
        "StackId": STACK,
        "ResourceProperties": {"BucketName": BUCKET},
        "PhysicalResourceId": f"drain-{BUCKET}",
    }
    return Drain(s3, CloudFormation(status)).run(event, clock or Clock())


@pytest.mark.parametrize("status", ["DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"])
def test_all_versions_and_markers_go_with_the_stack(status: str) -> None:
    s3 = S3(versions=1500, markers=700)
    assert run(s3, status=status) == {"PhysicalResourceId": f"drain-{BUCKET}"}
    assert s3.left == 0


@pytest.mark.parametrize(
    "status",
    [
        "UPDATE_IN_PROGRESS",
        "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
    ],
)
def test_nothing_goes_while_the_stack_stays(status: str) -> None:
    """As when one of the keys is taken back, and this resource leaves the template."""
    s3 = S3(versions=3)
    run(s3, status=status)
    assert s3.left == 3


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_nothing_goes_before_the_deletion(kind: str) -> None:
    s3 = S3(versions=3)
    run(s3, kind)
    assert s3.left == 3


def test_an_empty_bucket_and_none_at_all_are_right() -> None:
    run(S3())
    absent = S3()
    absent.there = False
    run(absent)


def test_what_s3_keeps_is_named() -> None:
    s3 = S3(versions=2)
    s3.refuses = {"Code": "AccessDenied", "Message": "Object Lock"}
    with pytest.raises(LeftoverError, match=r"1 objects of hyperpod-tls-a .* v0: AccessDenied Obj"):
        run(s3)


def test_the_end_of_the_time_is_said() -> None:
    s3 = S3(versions=30, page=10)
    with pytest.raises(LeftoverError, match=r"10 objects of hyperpod-tls-a are deleted, and time"):
        run(s3, clock=Clock(840_000, 59_000))
    assert s3.left == 20


def test_other_errors_are_not_swallowed() -> None:
    client = boto3.client("s3", region_name="us-west-2", config=NOBODY)
    with Stubber(client) as stub:
        stub.add_client_error("list_object_versions", "AccessDenied")
        with pytest.raises(ClientError):
            Drain(client, CloudFormation("DELETE_IN_PROGRESS")).run(
                EVENT,
                Clock(),
            )


def test_the_calls_are_the_ones_that_aws_knows() -> None:
    """Parameters and answers against botocore's own model."""
    client = boto3.client("s3", region_name="us-west-2", config=NOBODY)
    listed = {"Versions": [{"Key": "a", "VersionId": "null"}], "IsTruncated": False}
    with Stubber(client) as stub:
        stub.add_response("list_object_versions", listed, {"Bucket": BUCKET})
        stub.add_response(
            "delete_objects",
            {},
            {
                "Bucket": BUCKET,
                "Delete": {"Objects": [{"Key": "a", "VersionId": "null"}], "Quiet": True},
            },
        )
        Drain(client, CloudFormation("DELETE_IN_PROGRESS")).run(
            {
                "RequestType": "Delete",
                "StackId": STACK,
                "ResourceProperties": {"BucketName": BUCKET},
            },
            Clock(),
        )
        stub.assert_no_pending_responses()
