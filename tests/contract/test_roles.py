"""Which IAM roles a deployment has, and who may assume each: a table, and all templates.

A role that is not in the table is one too many, one that is missing breaks a feature, and a wrong
subject is an AssumeRoleWithWebIdentity that AWS rejects at run time. Names are the ids of the
constructs; what CloudFormation adds to them is cut off.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kascade import ServingPlan
from tools.outputs import Outputs

Template = dict[str, Any]
Trusts = dict[str, frozenset[str]]

LAMBDA = frozenset({"lambda.amazonaws.com"})
PODS = frozenset({"pods.eks.amazonaws.com +TagSession of this cluster"})
SAGEMAKER = frozenset({"sagemaker.amazonaws.com"})


def account(name: str) -> str:
    """How a service account of the inference add-on is trusted."""
    return f"oidc system:serviceaccount:hyperpod-inference-system:{name} for sts.amazonaws.com"


def expected(plan: ServingPlan) -> Trusts:
    """The table, by what the plan has chosen."""
    features = plan.cluster.features
    own_vpc, own_eks = plan.network.existing is None, plan.cluster.existing is None
    framework = "ProviderframeworkonEventServiceRole"
    addons = {addon.name for addon in plan.cluster.addons}
    rows: list[tuple[bool, str, frozenset[str]]] = [
        # network
        (own_vpc, "NetworkVpcFlowLogIAMRole", frozenset({"vpc-flow-logs.amazonaws.com"})),
        (own_vpc, "CustomVpcRestrictDefaultSGCustomResourceProviderRole", LAMBDA),
        (True, "DrainHandlerRole", LAMBDA),
        (True, "DrainProviderRole", LAMBDA),
        # EKS
        (own_eks, "EksClusterRole", frozenset({"eks.amazonaws.com"})),
        (True, "EksKubectlRole", LAMBDA),
        (own_eks, f"EksClusterKubectl{framework}", LAMBDA),
        (not own_eks, f"EksKubectl{framework}", LAMBDA),
        (True, "EksSystemNodeRole", frozenset({"ec2.amazonaws.com"})),
        ("aws-ebs-csi-driver" in addons, "EksEbsCsiRole", PODS),
        (bool(plan.cluster.weights), "EksWeightsRole", PODS),
        # HyperPod
        (plan.cluster.makes_hyperpod, "HyperPodExecutionRole", SAGEMAKER),
        (
            plan.cluster.autoscaling is not None,
            "AutoscalingClusterRole",
            frozenset({"hyperpod.sagemaker.amazonaws.com"}),
        ),
        (plan.cluster.makes_hyperpod, "LifecycleUploadRole", LAMBDA),
        # observability
        (
            plan.observability is not None,
            "GrafanaRole",
            frozenset({"grafana.amazonaws.com of this account"}),
        ),
        (plan.observability is not None, "DashboardsHandlerRole", LAMBDA),
        (plan.observability is not None, "DashboardsProviderRole", LAMBDA),
    ]
    if features is not None:
        operator_managed = features.inference is not None
        rows += [
            (
                operator_managed,
                "FeaturesOperatorRole",
                SAGEMAKER | {account("hyperpod-inference-controller-manager")},
            ),
            (operator_managed, "FeaturesKedaRole", frozenset({account("keda-operator")})),
            (
                operator_managed,
                "FeaturesBalancerRole",
                frozenset({account("aws-load-balancer-controller")}),
            ),
            (operator_managed, "FeaturesFsxCsiRole", PODS),
            (operator_managed, "BalancerDrainHandlerRole", LAMBDA),
            (operator_managed, "BalancerDrainProviderRole", LAMBDA),
            (features.training_operator is not None, "FeaturesTrainingRole", PODS),
            (features.observability is not None, "FeaturesObservabilityRole", PODS),
        ]
    return {name: trust for there, name, trust in rows if there}


def found(templates: Mapping[str, Template]) -> Trusts:
    """Every role of some templates."""
    roles: Trusts = {}
    for template in templates.values():
        for logical_id, resource in template["Resources"].items():
            if resource["Type"] == "AWS::IAM::Role":
                name = re.sub(r"[0-9A-F]{8}$", "", logical_id)
                assert name not in roles, name
                roles[name] = trusted(resource["Properties"]["AssumeRolePolicyDocument"])
    return roles


def trusted(document: Any) -> frozenset[str]:
    """Write each statement of a trust policy as a word or two; an unknown one fails."""
    if set(document) == {"Fn::Sub"}:
        text, values = document["Fn::Sub"]
        assert set(values) == {"Issuer", "Provider"}
        document = json.loads(text)
    assert document["Version"] == "2012-10-17"
    return frozenset(_statement(statement) for statement in document["Statement"])


def _statement(statement: dict[str, Any]) -> str:
    match statement:
        case {
            "Effect": "Allow",
            "Principal": {"Service": str(service)},
            "Action": "sts:AssumeRole",
            **rest,
        } if not rest:
            return service
        case {
            "Effect": "Allow",
            "Principal": {"Service": str(service)},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {"aws:RequestTag/eks-cluster-name": cluster}},
            **rest,
        } if not rest and cluster:
            return f"{service} +TagSession of this cluster"
        case {
            "Effect": "Allow",
            "Principal": {"Service": str(service)},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
        }:
            return f"{service} of this account"
        case {
            "Effect": "Allow",
            "Principal": {"Federated": "${Provider}"},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {"${Issuer}:aud": str(audience), "${Issuer}:sub": str(subject)}
            },
        }:
            return f"oidc {subject} for {audience}"
        case _:
            return f"unknown statement: {json.dumps(statement, sort_keys=True)}"


def test_roles_are_those_of_the_table(
    synthesized: Callable[[str], Outputs], plan: Callable[[str], ServingPlan], config: str
) -> None:
    assert found(synthesized(config).templates()) == expected(plan(config))


# --- broken on purpose -------------------------------------------------------------------------


def _subject(template: Template, role: str, old: str, new: str) -> None:
    for name, resource in template["Resources"].items():
        if name.startswith(role):
            document = resource["Properties"]["AssumeRolePolicyDocument"]
            text = document["Fn::Sub"][0]
            assert old in text
            document["Fn::Sub"][0] = text.replace(old, new)


def _other_account(template: Template) -> None:
    """The Helm chart's account instead of the add-on's."""
    _subject(
        template,
        "FeaturesKedaRole",
        "hyperpod-inference-system:keda-operator",
        "kube-system:keda-operator",
    )


def _any_account(template: Template) -> None:
    _subject(template, "FeaturesBalancerRole", '"StringEquals"', '"StringLike"')


def _any_audience(template: Template) -> None:
    _subject(template, "FeaturesOperatorRole", '"${Issuer}:aud": "sts.amazonaws.com", ', "")


def _one_too_many(template: Template) -> None:
    (role,) = (
        resource
        for name, resource in template["Resources"].items()
        if name.startswith("HyperPodExecutionRole")
    )
    template["Resources"]["SpareRole00000000"] = copy.deepcopy(role)


def _one_missing(template: Template) -> None:
    for name in list(template["Resources"]):
        if name.startswith("FeaturesFsxCsiRole"):
            del template["Resources"][name]


@pytest.mark.parametrize(
    "spoil", [_other_account, _any_account, _any_audience, _one_too_many, _one_missing]
)
def test_a_wrong_role_is_found(
    synthesized: Callable[[str], Outputs],
    plan: Callable[[str], ServingPlan],
    spoil: Callable[[Template], None],
) -> None:
    templates = copy.deepcopy(synthesized("operator").templates())
    spoil(templates[f"{plan('operator').name}-cluster"])
    assert found(templates) != expected(plan("operator"))
