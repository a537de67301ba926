"""An end to every wait for a function of the template."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from constructs import IConstruct

SERVICE_TIMEOUT_SECONDS: Final = 960
"""Lambda ends a function after 900 s; whoever has not answered by then will not."""


def bound_custom_resources(scope: IConstruct) -> None:
    """Give every custom resource below a construct a ``ServiceTimeout``, save those that have one.

    A function that dies without an answer leaves CloudFormation waiting for an hour, and a rollback
    for another (aws-cdk #33837). The CDK sets the timeout on none of the resources that it makes by
    itself: manifests, Helm charts and values of EKS, rules of a default security group, SDK calls.
    Call it last, when everything else is in place.
    """
    for construct in scope.node.find_all():
        if not isinstance(construct, cdk.CfnResource):
            continue
        if is_custom(construct.cfn_resource_type) and "ServiceTimeout" not in _given(construct):
            construct.add_property_override("ServiceTimeout", SERVICE_TIMEOUT_SECONDS)


def is_custom(resource_type: str) -> bool:
    """Say whether a function answers for resources of this type.

    >>> is_custom("Custom::AWSCDK-EKS-HelmChart"), is_custom("AWS::S3::Bucket")
    (True, False)
    """
    return resource_type.startswith("Custom::") or (
        resource_type == "AWS::CloudFormation::CustomResource"
    )


def _given(resource: cdk.CfnResource) -> set[str]:
    """Name the properties that its maker gave it, as the template will have them."""
    if isinstance(resource, cdk.CfnCustomResource):
        return {"ServiceTimeout"} if resource.service_timeout is not None else set()
    return set(resource._cfn_properties)
