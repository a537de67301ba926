"""Log groups and buckets of anybody's constructs follow one rule; waits of any have an end."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import custom_resources as cr

from kascade.aws.removal import keep_or_destroy
from kascade.aws.timeouts import bound_custom_resources


def template_of(directory: Path, stack: cdk.Stack) -> dict[str, Any]:
    cdk.App.of(stack).synth()  # type: ignore[union-attr]
    resources: dict[str, Any] = json.loads((directory / "S.template.json").read_text())["Resources"]
    return resources


@pytest.fixture
def stack(tmp_path: Path) -> cdk.Stack:
    return cdk.Stack(cdk.App(outdir=str(tmp_path)), "S")


@pytest.mark.parametrize("destroy", [True, False])
def test_a_bucket_that_stays_keeps_what_it_holds(
    tmp_path: Path, stack: cdk.Stack, destroy: bool
) -> None:
    s3.Bucket(stack, "Bucket", auto_delete_objects=True, removal_policy=cdk.RemovalPolicy.DESTROY)
    logs.LogGroup(stack, "Log")
    keep_or_destroy(stack, destroy=destroy)
    resources = template_of(tmp_path, stack)
    (bucket,) = [r for r in resources.values() if r["Type"] == "AWS::S3::Bucket"]
    (group,) = [r for r in resources.values() if r["Type"] == "AWS::Logs::LogGroup"]
    emptying = [r for r in resources.values() if r["Type"] == "Custom::S3AutoDeleteObjects"]
    tags = [t["Key"] for t in bucket.get("Properties", {}).get("Tags", [])]
    if destroy:
        assert bucket["DeletionPolicy"] == group["DeletionPolicy"] == "Delete"
        assert (len(emptying), tags) == (1, ["aws-cdk:auto-delete-objects"])
    else:
        assert bucket["DeletionPolicy"] == group["DeletionPolicy"] == "RetainExceptOnCreate"
        assert (emptying, tags) == ([], [])


def test_a_wait_without_an_end_gets_one_and_any_other_is_left(
    tmp_path: Path, stack: cdk.Stack
) -> None:
    token = "arn:aws:lambda:us-west-2:111122223333:function:f"  # noqa: S105 - an address
    cdk.CustomResource(stack, "Own", service_token=token, resource_type="Custom::Own")
    cdk.CustomResource(
        stack,
        "Short",
        service_token=token,
        resource_type="Custom::Short",
        service_timeout=cdk.Duration.seconds(77),
    )
    cdk.CfnCustomResource(stack, "Plain", service_token=token)
    cdk.CfnCustomResource(stack, "Given", service_token=token, service_timeout=88)
    cdk.CfnJson(stack, "Json", value={"key": "value"})
    call = cr.AwsSdkCall(
        service="S3", action="listBuckets", physical_resource_id=cr.PhysicalResourceId.of("x")
    )
    cr.AwsCustomResource(
        stack,
        "Call",
        on_create=call,
        policy=cr.AwsCustomResourcePolicy.from_sdk_calls(resources=["*"]),
    )
    bound_custom_resources(stack)
    waits = {
        (resource["Type"], int(resource["Properties"]["ServiceTimeout"]))
        for resource in template_of(tmp_path, stack).values()
        if resource["Type"].startswith(("Custom::", "AWS::CloudFormation::Custom"))
    }
    assert waits == {
        ("Custom::Own", 960),
        ("Custom::Short", 77),
        ("AWS::CloudFormation::CustomResource", 960),
        ("AWS::CloudFormation::CustomResource", 88),
        ("Custom::AWSCDKCfnJson", 960),
        ("Custom::AWS", 960),
    }
