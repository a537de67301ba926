"""The add-ons of HyperPod's features, read in the template that CloudFormation gets."""

import json
from pathlib import Path
from typing import Any

import pytest

from kascade.catalog.addons import FEATURE_ADDONS, MINIMUM_VERSIONS, OPERATOR_ROLE_PREFIX
from kascade.errors import KascadeError
from kascade.plan import (
    AddonPlan,
    FeaturesPlan,
    InferenceAddonPlan,
    ObservabilityAddonPlan,
)
from tests.unit.aws.builders import Synthesis, make_cluster_plan, make_plan, synthesize
from tests.unit.aws.test_stacks import needs

ADDON, ROLE = "AWS::EKS::Addon", "AWS::IAM::Role"
INFERENCE = "amazon-sagemaker-hyperpod-inference"
TRAINING = "amazon-sagemaker-hyperpod-training-operator"
GOVERNANCE = "amazon-sagemaker-hyperpod-taskgovernance"
OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"
WORKSPACE = "arn:aws:aps:us-west-2:111122223333:workspace/ws-1"


def addon(name: str, version: str | None = None) -> AddonPlan:
    return AddonPlan(name=name, version=version, needs_nodes=True, configuration={})


def features(**changes: Any) -> FeaturesPlan:
    given: dict[str, Any] = {
        "dependencies": (
            addon("cert-manager"),
            addon("metrics-server"),
            addon("aws-fsx-csi-driver"),
        ),
        "inference": InferenceAddonPlan(
            addon=addon(INFERENCE, "v1.3.0-eksbuild.1"),
            role_name="SageMakerHyperPodInference-demo-us-west-2",
            tls_bucket="hyperpod-tls-demo",
        ),
        "task_governance": addon(GOVERNANCE),
        "training_operator": addon(TRAINING),
        "observability": ObservabilityAddonPlan(
            addon=addon(OBSERVABILITY),
            workspace_arn=WORKSPACE,
            workspace_endpoint="https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1/",
        ),
    }
    return FeaturesPlan(**(given | changes))


def make(folder: Path, **changes: Any) -> Synthesis:
    return synthesize(folder, make_plan(cluster=make_cluster_plan(features=features(**changes))))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return make(tmp_path_factory.mktemp("features"))


def id_of(made: Synthesis, name: str) -> str:
    (found,) = (
        logical_id
        for logical_id, resource in made.resources("cluster", ADDON).items()
        if resource["Properties"]["AddonName"] == name
    )
    return found


def properties(made: Synthesis, name: str) -> dict[str, Any]:
    found: dict[str, Any] = made.resources("cluster", ADDON)[id_of(made, name)]["Properties"]
    return found


def role(made: Synthesis, beginning: str) -> dict[str, Any]:
    (found,) = (
        resource["Properties"]
        for name, resource in made.resources("cluster", ROLE).items()
        if name.startswith(beginning)
    )
    return dict(found)


def test_what_the_inference_addon_looks_for_comes_before_it(made: Synthesis) -> None:
    before = needs(made, "cluster", id_of(made, INFERENCE))
    for name in ("cert-manager", "metrics-server", "aws-fsx-csi-driver", "coredns"):
        assert id_of(made, name) in before, name
    kinds = {made.templates["cluster"]["Resources"][name]["Type"] for name in before}
    assert {"AWS::SageMaker::Cluster", "AWS::IAM::OIDCProvider", "AWS::S3::BucketPolicy"} <= kinds


@pytest.mark.parametrize(
    "name",
    ["cert-manager", "metrics-server", "aws-fsx-csi-driver", GOVERNANCE, TRAINING, OBSERVABILITY],
)
def test_every_addon_of_a_feature_comes_after_hyperpod_and_system_nodes(
    made: Synthesis, name: str
) -> None:
    before = needs(made, "cluster", id_of(made, name))
    kinds = {made.templates["cluster"]["Resources"][found]["Type"] for found in before}
    assert {"AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"} <= kinds


def test_the_training_operator_comes_after_cert_manager_governance_and_its_role(
    made: Synthesis,
) -> None:
    before = needs(made, "cluster", id_of(made, TRAINING))
    assert {id_of(made, "cert-manager"), id_of(made, GOVERNANCE)} <= before
    (association,) = made.resources("cluster", "AWS::EKS::PodIdentityAssociation")
    assert association in before
    given = made.only("cluster", "AWS::EKS::PodIdentityAssociation")["Properties"]
    assert (given["Namespace"], given["ServiceAccount"]) == (
        "aws-hyperpod",
        "hp-training-operator-controller-manager",
    )
    # EKS rejects an association inside this add-on.
    assert "PodIdentityAssociations" not in properties(made, TRAINING)


def test_the_inference_addon_gets_its_roles_bucket_and_cluster(made: Synthesis) -> None:
    separator, parts = properties(made, INFERENCE)["ConfigurationValues"]["Fn::Join"]
    assert separator == ""
    text = "".join(part if isinstance(part, str) else _short(part) for part in parts)
    assert json.loads(text) == {
        "executionRoleArn": "FeaturesOperatorRole.Arn",
        "tlsCertificateS3Bucket": "FeaturesCertificates",
        "hyperpodClusterArn": "HyperPodCluster.ClusterArn",
        "alb": {
            "enabled": True,
            "serviceAccount": {"create": True, "roleArn": "FeaturesBalancerRole.Arn"},
        },
        "keda": {
            "enabled": True,
            "auth": {"aws": {"irsa": {"enabled": True, "roleArn": "FeaturesKedaRole.Arn"}}},
        },
    }
    assert properties(made, INFERENCE)["AddonVersion"] == "v1.3.0-eksbuild.1"


def _short(reference: dict[str, Any]) -> str:
    match reference:
        case {"Ref": str(name)}:
            return name[:-8]
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"{name[:-8]}.{attribute}"
    raise AssertionError(reference)


TRUSTS = {
    "FeaturesOperatorRole": (
        ["sagemaker.amazonaws.com"],
        "system:serviceaccount:hyperpod-inference-system:hyperpod-inference-controller-manager",
    ),
    "FeaturesKedaRole": ([], "system:serviceaccount:hyperpod-inference-system:keda-operator"),
    "FeaturesBalancerRole": (
        [],
        "system:serviceaccount:hyperpod-inference-system:aws-load-balancer-controller",
    ),
}


@pytest.mark.parametrize("name", TRUSTS)
def test_a_trust_policy_names_one_service_account_and_its_audience(
    made: Synthesis, name: str
) -> None:
    services, subject = TRUSTS[name]
    text, values = role(made, name)["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert json.loads(text) == {
        "Version": "2012-10-17",
        "Statement": [
            *(
                {"Effect": "Allow", "Principal": {"Service": one}, "Action": "sts:AssumeRole"}
                for one in services
            ),
            {
                "Effect": "Allow",
                "Principal": {"Federated": "${Provider}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        "${Issuer}:aud": "sts.amazonaws.com",
                        "${Issuer}:sub": subject,
                    }
                },
            },
        ],
    }
    (provider,) = made.resources("cluster", "AWS::IAM::OIDCProvider")
    (cluster,) = made.resources("cluster", "AWS::EKS::Cluster")
    url = {"Fn::GetAtt": [cluster, "OpenIdConnectIssuerUrl"]}
    assert values == {
        "Issuer": {"Fn::Select": [1, {"Fn::Split": ["//", url]}]},
        "Provider": {"Ref": provider},
    }


def test_the_operators_role_has_the_name_that_the_addon_accepts(
    made: Synthesis, tmp_path: Path
) -> None:
    assert role(made, "FeaturesOperatorRole")["RoleName"].startswith(OPERATOR_ROLE_PREFIX)
    wrong = InferenceAddonPlan(
        addon=addon(INFERENCE), role_name="demo-inference", tls_bucket="hyperpod-tls-demo"
    )
    with pytest.raises(KascadeError, match=f"do not begin with {OPERATOR_ROLE_PREFIX}"):
        make(tmp_path, inference=wrong)


def test_whatever_changes_something_is_scoped(made: Synthesis) -> None:
    looks = ("Describe", "Get", "List")
    seen = 0
    for name, resource in made.resources("cluster", ROLE).items():
        if not name.startswith("Features"):
            continue
        for policy in resource["Properties"].get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                actions = statement["Action"]
                actions = [actions] if isinstance(actions, str) else actions
                seen += 1
                if statement["Resource"] == "*":
                    assert all(a.partition(":")[2].startswith(looks) for a in actions), name
    assert seen > 15


def test_only_the_balancers_of_this_cluster_can_be_deleted(made: Synthesis) -> None:
    (policy,) = role(made, "FeaturesBalancerRole")["Policies"]
    deleting = [
        statement
        for statement in policy["PolicyDocument"]["Statement"]
        if "elasticloadbalancing:DeleteLoadBalancer" in statement["Action"]
    ]
    (cluster,) = made.resources("cluster", "AWS::EKS::Cluster")
    tag = {"aws:ResourceTag/elbv2.k8s.aws/cluster": {"Ref": cluster}}
    assert [statement["Condition"] for statement in deleting] == [{"StringEquals": tag}]


def test_certificates_lie_in_a_private_bucket(made: Synthesis) -> None:
    (bucket,) = (
        resource["Properties"]
        for name, resource in made.resources("cluster", "AWS::S3::Bucket").items()
        if name.startswith("Features")
    )
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert {"Key": "CreatedBy", "Value": "HyperPod-Inference"} in bucket["Tags"]


def test_observability_writes_to_the_named_workspace_alone(made: Synthesis) -> None:
    given = properties(made, OBSERVABILITY)
    assert json.loads(given["ConfigurationValues"]) == {
        "ampWorkspace": {
            "arn": WORKSPACE,
            "prometheusEndpoint": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1/",
        }
    }
    (policy,) = role(made, "FeaturesObservabilityRole")["Policies"]
    write = policy["PolicyDocument"]["Statement"][0]
    assert (write["Action"], write["Resource"]) == ("aps:RemoteWrite", WORKSPACE)


def test_without_the_operator_nothing_of_it_is_there(tmp_path: Path) -> None:
    made = make(tmp_path, dependencies=(addon("cert-manager"),), inference=None)
    assert not made.resources("cluster", "AWS::IAM::OIDCProvider")
    assert [name for name in made.resources("cluster", ROLE) if name.startswith("Features")] != []
    assert not any(
        name.startswith(("FeaturesOperator", "FeaturesKeda", "FeaturesBalancer"))
        for name in made.resources("cluster", ROLE)
    )


def test_pinned_versions_are_no_older_than_the_operator_needs() -> None:
    def number(version: str) -> tuple[int, ...]:
        return tuple(map(int, version.removeprefix("v").replace("-eksbuild", "").split(".")))

    pinned = [
        (name, version) for table in FEATURE_ADDONS.values() for name, version in table.items()
    ]
    assert len(pinned) >= 9
    for name, version in pinned:
        assert number(version) >= number(MINIMUM_VERSIONS[name]), name


# --- load balancers ----------------------------------------------------------------------------


def test_load_balancers_are_waited_for_while_their_controller_is_there(made: Synthesis) -> None:
    (name,) = made.resources("cluster", "Custom::BalancerDrain")
    drain = made.only("cluster", "Custom::BalancerDrain")["Properties"]
    assert id_of(made, INFERENCE) in needs(made, "cluster", name)
    (cluster,) = made.resources("cluster", "AWS::EKS::Cluster")
    assert drain["ClusterName"] == {"Ref": cluster}
    assert "NetworkVpc" in drain["VpcId"]["Fn::ImportValue"]
    assert drain["ServiceTimeout"] == "960"


def test_the_function_that_waits_may_only_look(made: Synthesis) -> None:
    (policy,) = (
        resource["Properties"]["PolicyDocument"]["Statement"]
        for name, resource in made.resources("cluster", "AWS::IAM::Policy").items()
        if name.startswith("BalancerDrainHandlerRole")
    )
    (group,) = (
        name
        for name in made.resources("cluster", "AWS::Logs::LogGroup")
        if name.startswith("BalancerDrainHandlerLog")
    )
    logs = {"Fn::GetAtt": [group, "Arn"]}
    assert [(s["Action"], s["Resource"]) for s in policy] == [
        (["logs:CreateLogStream", "logs:PutLogEvents"], logs),
        (
            [
                "ec2:DescribeSecurityGroups",
                "elasticloadbalancing:DescribeLoadBalancers",
                "elasticloadbalancing:DescribeTags",
            ],
            "*",
        ),
    ]


def test_without_the_operator_nobody_waits_for_load_balancers(tmp_path: Path) -> None:
    made = make(tmp_path, inference=None)
    assert not made.resources("cluster", "Custom::BalancerDrain")
