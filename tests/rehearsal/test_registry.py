"""The checks that stand in for AWS's own can say no, and say yes to what is right."""

from pathlib import Path
from typing import Any

import cfnlint
import pytest

from tests.rehearsal.aws.registry import Registry, RegistryError

pytestmark = pytest.mark.rehearsal

CLUSTER = "AWS::SageMaker::Cluster"
ROLE = "arn:aws:iam::000000000000:role/nodes"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(Path(cfnlint.__file__).parent / "data" / "schemas", "us-west-2")


def cluster(**changes: Any) -> dict[str, Any]:
    group = {
        "InstanceGroupName": "gpu",
        "InstanceType": "ml.g6e.4xlarge",
        "InstanceCount": 2,
        "ExecutionRole": ROLE,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/x", "OnCreate": "on_create.sh"},
    }
    return {
        "ClusterName": "kascade",
        "VpcConfig": {"SecurityGroupIds": ["sg-0a1b2c3d"], "Subnets": ["subnet-0a1b2c3d"]},
        "Orchestrator": {
            "Eks": {"ClusterArn": "arn:aws:eks:us-west-2:000000000000:cluster/kascade"}
        },
        "InstanceGroups": [{**group, **changes.pop("group", {})}],
        **changes,
    }


def test_what_is_right_passes(registry: Registry) -> None:
    assert registry.schema(CLUSTER).faults(cluster()) == []


def test_text_passes_for_a_number(registry: Registry) -> None:
    assert registry.schema(CLUSTER).faults(cluster(group={"InstanceCount": "2"})) == []


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (cluster(NodeRecoverie="Automatic"), "'NodeRecoverie' was unexpected"),
        (cluster(group={"ThreadPerCore": 2}), "InstanceGroups/0: Additional properties"),
        (cluster(group={"ExecutionRole": None}), "InstanceGroups/0/ExecutionRole: None is not"),
        (cluster(group={"InstanceCount": -1}), "InstanceGroups/0/InstanceCount: -1 is less"),
        (cluster(group={"InstanceCount": "two"}), "InstanceGroups/0/InstanceCount: 'two' is not"),
        (cluster(NodeRecovery="Sometimes"), "'Sometimes' is not one of"),
        (cluster(ClusterName="no_underscores"), "ClusterName: 'no_underscores' does not match"),
        (cluster(FailureMessage="x"), "FailureMessage: is read-only"),
        (cluster(group={"CurrentCount": 2}), "InstanceGroups/0/CurrentCount: is read-only"),
    ],
)
def test_what_is_wrong_is_named(registry: Registry, properties: dict[str, Any], said: str) -> None:
    assert said in "; ".join(registry.schema(CLUSTER).faults(properties))


def test_a_missing_property_is_named(registry: Registry) -> None:
    faults = registry.schema("AWS::EKS::Addon").faults({"AddonName": "coredns"})
    assert faults == ["properties: 'ClusterName' is a required property"]


def test_words_that_json_schema_lacks(registry: Registry) -> None:
    rule = {"IpProtocol": "tcp", "GroupId": "sg-0a1b2c3d"}
    (none,) = registry.schema("AWS::EC2::SecurityGroupIngress").faults(rule)
    assert "needs exactly one of" in none
    both = {**rule, "CidrIp": "10.0.0.0/8", "SourceSecurityGroupId": "sg-0a1b2c3d"}
    assert registry.schema("AWS::EC2::SecurityGroupIngress").faults(both)


def test_a_changed_create_only_property_replaces_at_any_depth(registry: Registry) -> None:
    schema, old = registry.schema(CLUSTER), cluster()
    assert schema.replacing(old, cluster(group={"InstanceCount": 3}, NodeRecovery="None")) == []
    subnets = {"SecurityGroupIds": ["sg-0a1b2c3d"], "Subnets": ["subnet-0a1b2c3d", "subnet-1"]}
    assert schema.replacing(old, cluster(VpcConfig=subnets)) == ["VpcConfig"]
    other = {"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:000000000000:cluster/other"}}
    assert schema.replacing(old, cluster(Orchestrator=other)) == ["Orchestrator/Eks"]


def test_a_name_of_its_own_is_an_identity(registry: Registry) -> None:
    assert registry.schema(CLUSTER).own_identity(cluster()) == ("kascade",)
    assert registry.schema("AWS::EC2::NatGateway").own_identity({"SubnetId": "subnet-1"}) is None


def test_an_unknown_type_is_a_sentence(registry: Registry) -> None:
    with pytest.raises(
        RegistryError, match=r"^The registry of us-west-2 has no type AWS::No::Such"
    ):
        registry.schema("AWS::No::Such")
