"""Who may assume a role: a service account of the cluster, by the cluster's OIDC provider."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.catalog.addons import ServiceAccount

AUDIENCE: Final = "sts.amazonaws.com"


class ClusterIdentity(Construct):
    """The cluster's issuer of tokens, made known to IAM.

    Trust in one account is written as one text with the issuer filled in by CloudFormation: an
    issuer is known once the cluster is, and a condition's key is the one place where a template
    takes no function. So no custom resource is needed.

    Attributes:
        provider: The OIDC provider.
    """

    def __init__(self, scope: Construct, construct_id: str, *, issuer_url: str) -> None:
        super().__init__(scope, construct_id)
        self.provider = iam.CfnOIDCProvider(
            self, "Provider", url=issuer_url, client_id_list=[AUDIENCE]
        )
        self._issuer = cdk.Fn.select(1, cdk.Fn.split("//", issuer_url))

    def trust(self, account: ServiceAccount, *, services: Iterable[str] = ()) -> str:
        """Write a trust policy for one service account.

        Args:
            account: Whose tokens are accepted.
            services: AWS services that may assume the role as well.
        """
        statements: list[dict[str, object]] = [
            {"Effect": "Allow", "Principal": {"Service": name}, "Action": "sts:AssumeRole"}
            for name in services
        ]
        statements.append(
            {
                "Effect": "Allow",
                "Principal": {"Federated": "${Provider}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {"${Issuer}:aud": AUDIENCE, "${Issuer}:sub": account.subject}
                },
            }
        )
        text = json.dumps({"Version": "2012-10-17", "Statement": statements})
        return cdk.Fn.sub(text, {"Issuer": self._issuer, "Provider": self.provider.ref})


def pods_of(cluster_name: str) -> iam.PrincipalBase:
    """Principal: EKS Pod Identity, for pods of one cluster.

    EKS names the cluster in a session tag, and lets a trust policy ask for it; without that any
    association of the account with the role would do.

    Args:
        cluster_name: The EKS cluster's.
    """
    return iam.ServicePrincipal(
        "pods.eks.amazonaws.com",
        conditions={"StringEquals": {"aws:RequestTag/eks-cluster-name": cluster_name}},
    ).with_session_tags()


def service_account_role(  # noqa: PLR0913 - what a role is
    scope: Construct,
    construct_id: str,
    *,
    trust: str,
    description: str,
    policies: Mapping[str, Sequence[iam.PolicyStatement]],
    managed_policies: Iterable[str] = (),
    role_name: str | None = None,
) -> iam.CfnRole:
    """Make a role whose trust is such a text, complete once it exists."""
    return iam.CfnRole(
        scope,
        construct_id,
        assume_role_policy_document=trust,
        description=description,
        managed_policy_arns=[
            iam.ManagedPolicy.from_aws_managed_policy_name(name).managed_policy_arn
            for name in managed_policies
        ]
        or None,
        policies=[
            iam.CfnRole.PolicyProperty(
                policy_name=name,
                policy_document=iam.PolicyDocument(statements=list(statements)),
            )
            for name, statements in policies.items()
        ],
        role_name=role_name,
    )
