"""What a plan says of instance groups, in the template."""

import json
from pathlib import Path
from typing import Any

from kascade.plan import SoftwareUpdatesPlan
from tests.unit.aws import builders
from tests.unit.aws.builders import Synthesis, make_cluster_plan, make_group, make_plan

HYPERPOD = "AWS::SageMaker::Cluster"
KEY = "arn:aws:kms:us-west-2:111122223333:key/0123-abcd"


def synthesize(folder: Path, *groups: Any, **changes: Any) -> Synthesis:
    plan = make_plan(cluster=make_cluster_plan(groups=groups, **changes))
    return builders.synthesize(folder, plan)


def cluster(synthesis: Synthesis) -> dict[str, Any]:
    return dict(synthesis.only("cluster", HYPERPOD)["Properties"])


def test_the_cluster_lives_in_the_home_zones(tmp_path: Path) -> None:
    synthesis = synthesize(tmp_path, make_group(zone=None))
    home = ["privateSubnet1", "privateSubnet2"]
    subnets = cluster(synthesis)["VpcConfig"]["Subnets"]
    assert [name in json.dumps(subnet) for name, subnet in zip(home, subnets, strict=True)] == [
        True,
        True,
    ]
    eks = synthesis.only("cluster", "AWS::EKS::Cluster")["Properties"]["ResourcesVpcConfig"]
    system = synthesis.only("cluster", "AWS::EKS::Nodegroup")["Properties"]
    for named in (eks["SubnetIds"], system["Subnets"]):
        assert len(named) == 2
        assert "privateSubnet3" not in json.dumps(named)


def test_a_group_in_a_later_zone_has_its_subnet_and_rights_in_it(tmp_path: Path) -> None:
    synthesis = synthesize(tmp_path, make_group(zone="us-west-2c"))
    (group,) = cluster(synthesis)["InstanceGroups"]
    (subnet,) = group["OverrideVpcConfig"]["Subnets"]
    assert "privateSubnet3" in json.dumps(subnet)
    roles = synthesis.resources("cluster", "AWS::IAM::Role")
    (role,) = (r for name, r in roles.items() if "ExecutionRole" in name)
    (networking,) = (
        p for p in role["Properties"]["Policies"] if p["PolicyName"] == "PodNetworking"
    )
    named = [
        statement["Action"]
        for statement in networking["PolicyDocument"]["Statement"]
        if "privateSubnet3" in json.dumps(statement["Resource"])
    ]
    assert len(named) == 1
    assert "ec2:CreateNetworkInterface" in named[0]


def test_a_spot_group_of_several_types(tmp_path: Path) -> None:
    synthesis = synthesize(
        tmp_path,
        make_group(capacity="spot", min_count=1, other_types=("ml.g6e.24xlarge",)),
    )
    (group,) = cluster(synthesis)["InstanceGroups"]
    assert group["CapacityRequirements"] == {"Spot": {}}
    assert group["InstanceRequirements"] == {
        "InstanceTypes": ["ml.g6e.12xlarge", "ml.g6e.24xlarge"]
    }
    assert group["MinInstanceCount"] == 1
    assert "InstanceType" not in group


def test_reserved_groups_keys_threads_and_adapters(tmp_path: Path) -> None:
    arn = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/mine"
    synthesis = synthesize(
        tmp_path,
        make_group(
            instance_type="ml.p4d.24xlarge",
            capacity="training_plan",
            training_plan_arn=arn,
            threads_per_core=1,
            network_interface="efa",
            volume_kms_key_arn=KEY,
            root_volume_kms_key_arn=KEY,
        ),
    )
    (group,) = cluster(synthesis)["InstanceGroups"]
    assert group["TrainingPlanArn"] == arn
    assert group["ThreadsPerCore"] == 1
    assert group["NetworkInterface"] == {"InterfaceType": "efa"}
    assert group["InstanceStorageConfigs"] == [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 200, "VolumeKmsKeyId": KEY}},
        {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": KEY}},
    ]


def test_further_security_groups_stand_behind_the_deployments_own(tmp_path: Path) -> None:
    synthesis = synthesize(tmp_path, make_group(), security_group_ids=("sg-00000001",))
    properties = cluster(synthesis)
    assert len(properties["VpcConfig"]["SecurityGroupIds"]) == 2
    assert properties["VpcConfig"]["SecurityGroupIds"][1] == "sg-00000001"
    (group,) = properties["InstanceGroups"]
    assert (
        group["OverrideVpcConfig"]["SecurityGroupIds"]
        == properties["VpcConfig"]["SecurityGroupIds"]
    )
    roles = json.dumps(synthesis.resources("cluster", "AWS::IAM::Role"))
    assert "security-group/sg-00000001" in roles


def test_updates_are_of_every_group(tmp_path: Path) -> None:
    updates = SoftwareUpdatesPlan(
        schedule="cron(0 3 ? * SUN *)",
        batch_size=2,
        batch_is_percentage=False,
        wait_seconds=60,
        rollback_alarms=("latency",),
    )
    synthesis = synthesize(
        tmp_path, make_group("a"), make_group("b", zone=None), software_updates=updates
    )
    batch = {"Type": "INSTANCE_COUNT", "Value": 2}
    for group in cluster(synthesis)["InstanceGroups"]:
        assert group["ScheduledUpdateConfig"] == {
            "ScheduleExpression": "cron(0 3 ? * SUN *)",
            "DeploymentConfig": {
                "AutoRollbackConfiguration": [{"AlarmName": "latency"}],
                "RollingUpdatePolicy": {
                    "MaximumBatchSize": batch,
                    "RollbackMaximumBatchSize": batch,
                },
                "WaitIntervalInSeconds": 60,
            },
        }
