"""What stays when a deployment is deleted, and what goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from kascade.errors import KascadeError

ALLOW_DESTROY: Final = "kascade:allow-destroy"
"""The second key, a context flag; the first is ``on_delete: destroy`` of the configuration."""

_AUTO_DELETE: Final = "AutoDeleteObjectsCustomResource"
_AUTO_DELETE_TAG: Final = "aws-cdk:auto-delete-objects"
_AFTER_ALL_TAGS: Final = 400

_METADATA: Final = "kascade:on-delete"


def keep_or_destroy(scope: IConstruct, *, destroy: bool) -> None:
    """Decide for every log group and bucket below a construct, whoever made it.

    Kept ones go all the same when the very operation that makes them is rolled back. Everything
    else is a cache, or a copy of what git holds, and goes with its stack.

    Call it once, when everything else is in place.

    Args:
        scope: An app, a stack, or less.
        destroy: True when both keys are given.

    Raises:
        KascadeError: ``destroy`` is no truth value. Context of the command line is text, and
            "false" would be as good as true.
    """
    if not isinstance(destroy, bool):
        msg = (
            f"destroy is {destroy!r}; give True or False. Context from the command line is text: "
            "compare it, as in str(value).lower() == 'true'"
        )
        raise KascadeError(msg)
    for resource in _holding(scope):
        if destroy:
            resource.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        else:
            # By override: the CDK refuses to keep a bucket that was made to be emptied.
            resource.add_override("DeletionPolicy", "RetainExceptOnCreate")
            resource.add_override("UpdateReplacePolicy", "Retain")
        # CloudFormation takes a changed policy for no change at all, unless another comes along.
        resource.add_metadata(_METADATA, "destroy" if destroy else "retain")
        if not destroy and isinstance(resource, s3.CfnBucket):
            _leave_contents(resource)


def _holding(scope: IConstruct) -> Iterator[cdk.CfnResource]:
    for construct in scope.node.find_all():
        if isinstance(construct, logs.CfnLogGroup | s3.CfnBucket):
            yield construct


def _leave_contents(bucket: s3.CfnBucket) -> None:
    """Keep CDK's function from emptying a bucket that stays."""
    made_by = bucket.node.scope
    if made_by is not None and made_by.node.try_remove_child(_AUTO_DELETE):
        # It also empties a bucket when the resource leaves the template, as it just did; the tag is
        # what it goes by.
        cdk.Tags.of(bucket).remove(_AUTO_DELETE_TAG, priority=_AFTER_ALL_TAGS)
