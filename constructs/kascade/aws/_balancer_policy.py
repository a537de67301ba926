"""What the AWS Load Balancer Controller may do.

The actions are those of the controller's own policy (kubernetes-sigs/aws-load-balancer-controller,
``docs/install/iam_policy.json`` of the 2.13 line, which the inference add-on's set-up page names).
Narrower than that: one account and region, security groups of one VPC, load balancers that carry
this cluster's tag and not any cluster's, of WAF and Shield only what looks, and nothing of Cognito
and Outposts, since no Ingress of the operator asks for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

_TAG: Final = "elbv2.k8s.aws/cluster"
"""On all that the controller makes; its value is the cluster's name."""

_LOOKS: Final = (
    "acm:DescribeCertificate",
    "acm:ListCertificates",
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInstances",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeIpamPools",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcPeeringConnections",
    "ec2:DescribeVpcs",
    "ec2:GetSecurityGroupsForVpc",
    "elasticloadbalancing:DescribeCapacityReservation",
    "elasticloadbalancing:DescribeListenerAttributes",
    "elasticloadbalancing:DescribeListenerCertificates",
    "elasticloadbalancing:DescribeListeners",
    "elasticloadbalancing:DescribeLoadBalancerAttributes",
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeRules",
    "elasticloadbalancing:DescribeSSLPolicies",
    "elasticloadbalancing:DescribeTags",
    "elasticloadbalancing:DescribeTargetGroupAttributes",
    "elasticloadbalancing:DescribeTargetGroups",
    "elasticloadbalancing:DescribeTargetHealth",
    "elasticloadbalancing:DescribeTrustStores",
    "iam:GetServerCertificate",
    "iam:ListServerCertificates",
    "shield:DescribeProtection",
    "shield:GetSubscriptionState",
    "waf-regional:GetWebACL",
    "waf-regional:GetWebACLForResource",
    "wafv2:GetWebACL",
    "wafv2:GetWebACLForResource",
)
"""Most know no resource; all of them change nothing."""

_OWN: Final = (
    "elasticloadbalancing:DeleteLoadBalancer",
    "elasticloadbalancing:DeleteTargetGroup",
    "elasticloadbalancing:ModifyCapacityReservation",
    "elasticloadbalancing:ModifyIpPools",
    "elasticloadbalancing:ModifyListenerAttributes",
    "elasticloadbalancing:ModifyLoadBalancerAttributes",
    "elasticloadbalancing:ModifyTargetGroup",
    "elasticloadbalancing:ModifyTargetGroupAttributes",
    "elasticloadbalancing:SetIpAddressType",
    "elasticloadbalancing:SetSecurityGroups",
    "elasticloadbalancing:SetSubnets",
)
_LISTENERS: Final = (
    "elasticloadbalancing:AddListenerCertificates",
    "elasticloadbalancing:CreateListener",
    "elasticloadbalancing:CreateRule",
    "elasticloadbalancing:DeleteListener",
    "elasticloadbalancing:DeleteRule",
    "elasticloadbalancing:ModifyListener",
    "elasticloadbalancing:ModifyRule",
    "elasticloadbalancing:RemoveListenerCertificates",
    "elasticloadbalancing:SetRulePriorities",
)


def balancer_statements(
    scope: Construct, *, cluster_name: str, vpc_id: str
) -> tuple[list[iam.PolicyStatement], list[str]]:
    """Write the controller's statements, and list their resources with a wildcard.

    Args:
        scope: Gives account and region.
        cluster_name: Of the EKS cluster, which the controller tags with.
        vpc_id: Where the load balancers stand.
    """
    stack = cdk.Stack.of(scope)

    def arn(service: str, resource: str, name: str = "*") -> str:
        return stack.format_arn(service=service, resource=resource, resource_name=name)

    vpc = arn("ec2", "vpc", vpc_id)
    groups = arn("ec2", "security-group")
    balancers = [arn("elasticloadbalancing", "loadbalancer", f"{kind}/*") for kind in _KINDS]
    targets = arn("elasticloadbalancing", "targetgroup")
    listeners = [
        arn("elasticloadbalancing", part, f"{kind}/*")
        for part in ("listener", "listener-rule")
        for kind in _KINDS
    ]
    asked = {f"aws:RequestTag/{_TAG}": cluster_name}
    carried = {f"aws:ResourceTag/{_TAG}": cluster_name}

    def allow(
        actions: Sequence[str], resources: Sequence[str], **equals: str | list[str]
    ) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            actions=list(actions),
            resources=list(resources),
            conditions={"StringEquals": equals} if equals else None,
        )

    service = "elasticloadbalancing.amazonaws.com"
    linked = stack.format_arn(
        service="iam",
        region="",
        resource="role",
        resource_name=f"aws-service-role/{service}/AWSServiceRoleForElasticLoadBalancing",
    )
    statements = [
        allow(["iam:CreateServiceLinkedRole"], [linked], **{"iam:AWSServiceName": service}),
        allow(_LOOKS, ["*"]),
        # Target groups of pods need the nodes' own groups opened, which others made.
        iam.PolicyStatement(
            actions=["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"],
            resources=[groups],
            conditions={"ArnEquals": {"ec2:Vpc": vpc}},
        ),
        allow(["ec2:CreateSecurityGroup"], [groups, vpc]),
        allow(
            ["ec2:CreateTags"],
            [groups],
            **asked,
            **{"ec2:CreateAction": "CreateSecurityGroup"},
        ),
        allow(["ec2:CreateTags", "ec2:DeleteSecurityGroup", "ec2:DeleteTags"], [groups], **carried),
        allow(
            ["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"],
            [*balancers, targets],
            **asked,
        ),
        allow(
            ["elasticloadbalancing:AddTags"],
            [*balancers, targets],
            **asked,
            **{"elasticloadbalancing:CreateAction": ["CreateTargetGroup", "CreateLoadBalancer"]},
        ),
        allow(
            ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
            [*balancers, targets],
            **carried,
        ),
        allow(
            ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
            listeners,
        ),
        allow(_OWN, [*balancers, targets, *listeners], **carried),
        allow(_LISTENERS, [*balancers, *listeners]),
        allow(
            ["elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"],
            [targets],
        ),
    ]
    return statements, ["*", groups, *balancers, targets, *listeners]


_KINDS: Final = ("app", "net")
