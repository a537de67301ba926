"""The HyperPod construct in somebody else's stack."""

import json
import re
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from kascade.aws import (
    Batch,
    Capacity,
    FsxLustre,
    FsxOpenZfs,
    HyperPodCluster,
    HyperPodSettings,
    InstanceGroup,
    Instances,
    SoftwareUpdates,
    Taint,
)
from kascade.catalog.regions import REGIONS, WITHOUT_HYPERPOD
from kascade.errors import KascadeError

KEY = "arn:aws:kms:us-west-2:111122223333:key/0123-abcd"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/mine"
LUSTRE = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
ZFS = "fs-0123456789abcdef1.fsx.us-west-2.amazonaws.com"
IMPORTED = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdef123456"
ONE = Instances.of("ml.g6e.4xlarge")


class ExternalStack(cdk.Stack):
    """A stack with a VPC and an EKS cluster of its own."""

    def __init__(self, region: str | None = "us-west-2", name: str = "Theirs") -> None:
        super().__init__(
            cdk.App(), name, env=cdk.Environment(account="111122223333", region=region)
        )
        zones = [f"{region}a", f"{region}b"] if region else None
        self.vpc = ec2.Vpc(self, "Vpc", availability_zones=zones)
        self.eks = eks.Cluster.from_cluster_attributes(
            self,
            "Eks",
            cluster_name="theirs",
            vpc=self.vpc,
            cluster_security_group_id="sg-0123456789abcdef0",
        )

    def hyperpod(self, **changes: Any) -> HyperPodCluster:
        given: dict[str, Any] = {
            "cluster": self.eks,
            "vpc": self.vpc,
            "instance_groups": {"gpu": InstanceGroup(instances=ONE, count=2)},
        }
        return HyperPodCluster(self, "HyperPod", **(given | changes))

    def template(self) -> assertions.Template:
        return assertions.Template.from_stack(self)

    def cluster(self) -> dict[str, Any]:
        found = self.template().find_resources("AWS::SageMaker::Cluster")
        (resource,) = found.values()
        return dict(resource["Properties"])


def rendered(**changes: Any) -> dict[str, Any]:
    stack = ExternalStack()
    stack.hyperpod().add_instance_group(
        "more", InstanceGroup(**{"instances": ONE, "count": 2, **changes})
    )
    (_, group) = stack.cluster()["InstanceGroups"]
    return dict(group)


@pytest.mark.parametrize("region", [*sorted(set(REGIONS) - set(WITHOUT_HYPERPOD)), None])
@pytest.mark.parametrize("name", ["T", "A-stack-of-the-longest-name-that-anybody-would-write" * 2])
def test_its_own_script_has_a_bucket_name_in_every_region(region: str | None, name: str) -> None:
    """With no region given, one that fits in all of them."""
    stack = ExternalStack(region, name)
    made = stack.hyperpod(instance_groups=None).lifecycle.bucket.node.default_child
    assert isinstance(made, s3.CfnBucket)
    bucket = stack.resolve(made.bucket_name)
    if region is None:
        (_, parts) = bucket["Fn::Join"]
        longest = max(REGIONS, key=len)
        bucket = "".join(part if isinstance(part, str) else longest for part in parts)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", bucket)
    assert bucket.startswith("sagemaker-")


def test_it_needs_no_more_than_a_cluster_and_a_vpc() -> None:
    stack = ExternalStack()
    stack.hyperpod()
    cluster = stack.cluster()
    assert cluster["NodeProvisioningMode"] == "Continuous"
    assert cluster["NodeRecovery"] == "Automatic"
    assert cluster["TieredStorageConfig"] == {"Mode": "Disable"}
    assert [set(s) for s in cluster["VpcConfig"]["Subnets"]] == [{"Ref"}, {"Ref"}]
    assert "Private" in json.dumps(cluster["VpcConfig"]["Subnets"])
    assert len(cluster["ClusterName"]) <= 63
    template = stack.template()
    template.resource_count_is("AWS::S3::Bucket", 1)
    (bucket,) = template.find_resources("AWS::S3::Bucket").values()
    assert bucket["Properties"]["BucketName"].startswith("sagemaker-")
    # Nodes among each other both ways, and with the EKS cluster both ways.
    template.resource_count_is("AWS::EC2::SecurityGroupIngress", 3)
    template.resource_count_is("AWS::EC2::SecurityGroupEgress", 1)
    (resource,) = template.find_resources("AWS::SageMaker::Cluster").values()
    waited_for = " ".join(resource["DependsOn"])
    for name in ("ExecutionRole", "LifecycleBucket", "LifecycleUpload", "NodesToEks"):
        assert name in waited_for


def test_a_group_may_come_after_the_cluster_was_made() -> None:
    stack = ExternalStack()
    cluster = stack.hyperpod(instance_groups=None)
    for name in ("a", "b"):
        cluster.add_instance_group(name, InstanceGroup(instances=ONE, count=1))
    names = [group["InstanceGroupName"] for group in stack.cluster()["InstanceGroups"]]
    assert names == ["a", "b"]


def test_without_a_group_there_is_no_cluster() -> None:
    stack = ExternalStack()
    stack.hyperpod(instance_groups=None)
    with pytest.raises(RuntimeError, match="needs an instance group; call add_instance_group"):
        stack.template()


def test_a_plain_group_says_no_more_than_it_must() -> None:
    group = rendered()
    assert set(group) == {
        "ExecutionRole",
        "InstanceCount",
        "InstanceGroupName",
        "InstanceStorageConfigs",
        "InstanceType",
        "LifeCycleConfig",
        "ThreadsPerCore",
    }


def test_several_types_keep_their_order() -> None:
    types = ["ml.g6e.8xlarge", "ml.g6e.4xlarge"]
    group = rendered(instances=Instances.any_of(types))
    assert group["InstanceRequirements"] == {"InstanceTypes": types}
    assert "InstanceType" not in group


def test_capacity_is_one_of_three() -> None:
    spot = rendered(capacity=Capacity.spot())
    assert spot["CapacityRequirements"] == {"Spot": {}}
    assert "TrainingPlanArn" not in spot
    planned = rendered(
        instances=Instances.of("ml.p4d.24xlarge"), capacity=Capacity.training_plan(PLAN)
    )
    assert planned["TrainingPlanArn"] == PLAN
    assert "CapacityRequirements" not in planned


def test_nodes_are_labelled_tainted_and_checked() -> None:
    group = rendered(labels={"team": "a"}, taints=[Taint(key="team")], threads_per_core=1)
    assert group["KubernetesConfig"] == {
        "Labels": {"team": "a"},
        "Taints": [{"Key": "team", "Effect": "NoSchedule"}],
    }
    assert group["ThreadsPerCore"] == 1
    checked = rendered(deep_health_checks=["InstanceStress"], min_count=1)
    assert checked["OnStartDeepHealthChecks"] == ["InstanceStress"]
    assert checked["MinInstanceCount"] == 1
    adapter = rendered(instances=Instances.of("ml.g6e.8xlarge"), network_interface="efa-only")
    assert adapter["NetworkInterface"] == {"InterfaceType": "efa-only"}


def test_volumes_have_keys_and_the_root_volume_no_size() -> None:
    stack = ExternalStack()
    key = kms.Key.from_key_arn(stack, "Key", KEY)
    stack.hyperpod(
        instance_groups={
            "gpu": InstanceGroup(
                instances=ONE,
                count=1,
                volume_gib=300,
                volume_key=key,
                root_volume_key=key,
                file_systems=[
                    FsxLustre(dns_name=LUSTRE, mount_name="x", mount_path="/fsx"),
                    FsxOpenZfs(dns_name=ZFS),
                ],
            )
        }
    )
    (group,) = stack.cluster()["InstanceGroups"]
    assert group["InstanceStorageConfigs"] == [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 300, "VolumeKmsKeyId": KEY}},
        {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": KEY}},
        {"FsxLustreConfig": {"DnsName": LUSTRE, "MountName": "x", "MountPath": "/fsx"}},
        {"FsxOpenZfsConfig": {"DnsName": ZFS}},
    ]
    stack.template().has_resource_properties(
        "AWS::IAM::Role",
        {
            "Policies": assertions.Match.array_with(
                [
                    {
                        "PolicyName": "Node",
                        "PolicyDocument": assertions.Match.object_like(
                            {
                                "Statement": assertions.Match.array_with(
                                    [
                                        {
                                            "Action": ["kms:CreateGrant", "kms:DescribeKey"],
                                            "Effect": "Allow",
                                            "Resource": KEY,
                                        }
                                    ]
                                )
                            }
                        ),
                    }
                ]
            )
        },
    )


def test_a_group_elsewhere_gets_rights_there() -> None:
    stack = ExternalStack()
    subnet = ec2.Subnet.from_subnet_id(stack, "Far", "subnet-far")
    cluster = stack.hyperpod()
    cluster.add_instance_group(
        "far",
        InstanceGroup(instances=ONE, count=1, vpc_subnets=ec2.SubnetSelection(subnets=[subnet])),
    )
    home, far = stack.cluster()["InstanceGroups"]
    assert "OverrideVpcConfig" not in home
    assert far["OverrideVpcConfig"]["Subnets"] == ["subnet-far"]
    assert (
        far["OverrideVpcConfig"]["SecurityGroupIds"]
        == stack.cluster()["VpcConfig"]["SecurityGroupIds"]
    )
    roles = json.dumps(stack.template().find_resources("AWS::IAM::Role"))
    assert "subnet/subnet-far" in roles
    assert "subnet-far" not in json.dumps(stack.cluster()["VpcConfig"])


def test_updates_roll_and_roll_back() -> None:
    stack = ExternalStack()
    alarm = cloudwatch.Alarm.from_alarm_name(stack, "Alarm", "latency")
    updates = SoftwareUpdates(
        schedule="cron(0 3 ? * SUN *)",
        batch=Batch.percentage(25),
        wait=cdk.Duration.minutes(10),
        rollback_alarms=[alarm],
    )
    group = InstanceGroup(instances=ONE, count=4, software_updates=updates)
    stack.hyperpod(instance_groups={"gpu": group})
    (written,) = stack.cluster()["InstanceGroups"]
    batch = {"Type": "CAPACITY_PERCENTAGE", "Value": 25}
    assert written["ScheduledUpdateConfig"] == {
        "ScheduleExpression": "cron(0 3 ? * SUN *)",
        "DeploymentConfig": {
            "AutoRollbackConfiguration": [{"AlarmName": "latency"}],
            "RollingUpdatePolicy": {
                "MaximumBatchSize": batch,
                "RollbackMaximumBatchSize": batch,
            },
            "WaitIntervalInSeconds": 600,
        },
    }


def test_tiered_storage_is_a_setting() -> None:
    stack = ExternalStack()
    settings = HyperPodSettings(node_recovery="None", tiered_storage_percentage=20)
    stack.hyperpod(settings=settings)
    cluster = stack.cluster()
    assert cluster["NodeRecovery"] == "None"
    assert cluster["TieredStorageConfig"] == {
        "Mode": "Enable",
        "InstanceMemoryAllocationPercentage": 20,
    }


GRANTS: dict[str, tuple[Callable[[Any, iam.Role], object], set[str]]] = {
    "anything": (
        lambda c, r: c.grant(r, "sagemaker:BatchRebootClusterNodes"),
        {"sagemaker:BatchRebootClusterNodes"},
    ),
    "reading": (
        lambda c, r: c.grant_read(r),
        {
            "sagemaker:DescribeCluster",
            "sagemaker:DescribeClusterEvent",
            "sagemaker:DescribeClusterNode",
            "sagemaker:ListClusterEvents",
            "sagemaker:ListClusterNodes",
        },
    ),
    "software": (
        lambda c, r: c.grant_update_software(r),
        {"sagemaker:DescribeCluster", "sagemaker:UpdateClusterSoftware"},
    ),
    "volumes": (
        lambda c, r: c.grant_node_volumes(r),
        {"sagemaker:AttachClusterNodeVolume", "sagemaker:DetachClusterNodeVolume"},
    ),
}


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("name", GRANTS)
def test_a_grant_names_this_cluster_alone(name: str, imported: bool) -> None:
    stack = ExternalStack()
    arn = IMPORTED
    cluster: Any = (
        HyperPodCluster.from_hyperpod_cluster_attributes(
            stack, "Known", cluster_arn=arn, cluster_name="known"
        )
        if imported
        else stack.hyperpod()
    )
    grant, actions = GRANTS[name]
    role = iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal())
    grant(cluster, role)
    (policy,) = (
        stack.template().find_resources("AWS::IAM::Policy").values()
        if imported
        else [
            found
            for key, found in stack.template().find_resources("AWS::IAM::Policy").items()
            if key.startswith("Role")
        ]
    )
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    allowed = statement["Action"]
    assert set(allowed if isinstance(allowed, list) else [allowed]) == actions
    assert statement["Resource"] == stack.resolve(cluster.cluster_arn)


def test_metrics_are_those_of_the_eks_cluster() -> None:
    stack = ExternalStack()
    cluster = stack.hyperpod()
    metric = cluster.metric_failed_node_count(statistic="Maximum")
    assert (metric.namespace, metric.metric_name) == (
        "ContainerInsights",
        "cluster_failed_node_count",
    )
    assert metric.dimensions == {"ClusterName": "theirs"}
    assert metric.statistic == "Maximum"
    assert cluster.metric("x", namespace="Mine").namespace == "Mine"
    imported = HyperPodCluster.from_hyperpod_cluster_attributes(
        stack, "Known", cluster_arn=IMPORTED, cluster_name="known"
    )
    with pytest.raises(KascadeError, match="give eks_cluster_name"):
        imported.metric("cluster_node_count")


def test_connections_open_the_nodes_group() -> None:
    stack = ExternalStack()
    cluster = stack.hyperpod()
    cluster.connections.allow_from(ec2.Peer.ipv4("10.9.0.0/16"), ec2.Port.tcp(443), "Office")
    groups = stack.template().find_resources("AWS::EC2::SecurityGroup")
    (rule,) = next(
        found["Properties"]["SecurityGroupIngress"]
        for key, found in groups.items()
        if key.startswith("HyperPod")
    )
    assert (rule["CidrIp"], rule["FromPort"]) == ("10.9.0.0/16", 443)


def test_a_construct_can_be_told_to_connect_to_it() -> None:
    """What takes an IConnectable takes a cluster."""
    stack = ExternalStack()
    cluster = stack.hyperpod()
    other = ec2.SecurityGroup(stack, "Other", vpc=stack.vpc)
    other.connections.allow_to(cluster, ec2.Port.tcp(8000))
    stack.template().has_resource_properties(
        "AWS::EC2::SecurityGroupIngress", {"FromPort": 8000, "ToPort": 8000}
    )


def test_a_closed_vpc_gives_its_isolated_subnets() -> None:
    stack = ExternalStack()
    closed = ec2.Vpc(
        stack,
        "Closed",
        availability_zones=["us-west-2a"],
        subnet_configuration=[
            ec2.SubnetConfiguration(name="in", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
        ],
    )
    stack.hyperpod(vpc=closed)
    assert "Closed" in json.dumps(stack.cluster()["VpcConfig"]["Subnets"])


def test_subnets_can_be_selected_by_type() -> None:
    stack = ExternalStack()
    selection = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
    stack.hyperpod(vpc_subnets=selection)
    assert len(stack.cluster()["VpcConfig"]["Subnets"]) == 2


WRONG_GROUPS: dict[str, tuple[str, dict[str, Any], str]] = {
    "name with an underscore": ("gpu_a", {}, "use 1 to 63 letters, digits and inner hyphens"),
    "no types": ("a", {"instances": Instances.any_of([])}, "any_of got 0 types"),
    "21 types": (
        "a",
        {"instances": Instances.any_of([f"ml.c5.{n}xlarge" for n in range(21)])},
        "any_of got 21 types; HyperPod takes 1 to 20",
    ),
    "a type twice": (
        "a",
        {"instances": Instances.any_of(["ml.g6e.xlarge", "ml.g6e.xlarge"])},
        "any_of names ml.g6e.xlarge twice",
    ),
    "an EC2 type": ("a", {"instances": Instances.of("g6e.xlarge")}, "is no HyperPod type"),
    "too many wanted": ("a", {"min_count": 3}, "min_count is 3, which is not between 0 and the 2"),
    "too many": ("a", {"count": 7000}, "count is 7000; HyperPod takes 0 to 6758"),
    "EFA on a size without": (
        "a",
        {"instances": Instances.of("ml.g6e.2xlarge"), "network_interface": "efa"},
        "ml.g6e.2xlarge has no Elastic Fabric Adapter",
    ),
    "unknown interface": ("a", {"network_interface": "ena"}, "allowed: 'efa' or 'efa-only'"),
    "threads": ("a", {"threads_per_core": 3}, "threads_per_core is 3; allowed: 1 or 2"),
    "unknown check": ("a", {"deep_health_checks": ["Quick"]}, "deep health check Quick; allowed"),
    "checks without GPUs": (
        "a",
        {"instances": Instances.of("ml.c5.xlarge"), "deep_health_checks": ["InstanceStress"]},
        "deep health checks test GPUs, and ml.c5.xlarge has none",
    ),
    "checks on tainted nodes": (
        "a",
        {"deep_health_checks": ["InstanceStress"], "taints": [Taint(key="x")]},
        "tolerate no taint of yours",
    ),
    "a volume of nothing": ("a", {"volume_gib": 0}, "volume_gib is 0; HyperPod takes 1 to 16384"),
    "five file systems": (
        "a",
        {
            "file_systems": [
                FsxOpenZfs(dns_name=f"fs-0000000{n}.example", mount_path=f"/{n}") for n in range(5)
            ]
        },
        "6 volumes and file systems; HyperPod takes 4 in all",
    ),
    "no schedule": (
        "a",
        {"software_updates": SoftwareUpdates(schedule="daily")},
        "'daily' is not a schedule that HyperPod takes, such as cron",
    ),
    "batch of 101 percent": (
        "a",
        {
            "software_updates": SoftwareUpdates(
                schedule="cron(0 3 ? * SUN *)", batch=Batch.percentage(101)
            )
        },
        "a batch of 101 percent; allowed: 1 to 100",
    ),
    "batch of none": (
        "a",
        {"software_updates": SoftwareUpdates(schedule="cron(0 3 ? * SUN *)", batch=Batch.nodes(0))},
        "a batch of 0 nodes; it must be 1 at least",
    ),
    "a long wait": (
        "a",
        {
            "software_updates": SoftwareUpdates(
                schedule="cron(0 3 ? * SUN *)", wait=cdk.Duration.hours(2)
            )
        },
        "a wait of 7200 seconds; allowed: 3600",
    ),
    "17 subnets": (
        "a",
        {"vpc_subnets": "subnets"},
        "vpc_subnets selects 17 subnets; HyperPod takes 1 to 16",
    ),
    "a name twice": ("gpu", {}, "there is a group 'gpu' already"),
    "groups without subnets": ("a", {"security_groups": "groups"}, "need vpc_subnets beside them"),
}


@pytest.mark.parametrize("name", WRONG_GROUPS)
def test_a_wrong_group_is_a_sentence(name: str) -> None:
    group_name, changes, words = WRONG_GROUPS[name]
    stack = ExternalStack()
    if changes.get("vpc_subnets"):
        subnets = [ec2.Subnet.from_subnet_id(stack, f"S{n}", f"subnet-{n}") for n in range(17)]
        changes = {"vpc_subnets": ec2.SubnetSelection(subnets=subnets)}
    if changes.get("security_groups"):
        changes = {"security_groups": [ec2.SecurityGroup(stack, "Own", vpc=stack.vpc)]}
    cluster = stack.hyperpod()
    with pytest.raises(KascadeError) as caught:
        cluster.add_instance_group(
            group_name, InstanceGroup(**{"instances": ONE, "count": 2, **changes})
        )
    first, sentence = str(caught.value).split("\n")
    assert first == f"Theirs/HyperPod, instance group {group_name!r}: 1 problem"
    assert words in sentence


def test_all_mistakes_of_a_group_are_told_at_once() -> None:
    cluster = ExternalStack().hyperpod()
    with pytest.raises(KascadeError) as caught:
        cluster.add_instance_group(
            "a_b",
            InstanceGroup(instances=ONE, count=1, min_count=2, threads_per_core=0),  # type: ignore[arg-type]
        )
    assert ": 3 problems" in str(caught.value)


WRONG_CLUSTERS: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"cluster_name": "my_cluster"}, "'my_cluster' cannot name a HyperPod cluster"),
    "six security groups": ({"security_groups": 6}, "6 security groups; HyperPod takes 1 to 5"),
    "ten percent": (
        {"settings": HyperPodSettings(tiered_storage_percentage=10)},
        "tiered_storage_percentage is 10; HyperPod takes 20 to 100",
    ),
    "no subnet": (
        {"vpc_subnets": ec2.SubnetSelection(subnets=[])},
        "vpc_subnets selects 0 subnets",
    ),
}


@pytest.mark.parametrize("name", WRONG_CLUSTERS)
def test_a_wrong_cluster_is_a_sentence(name: str) -> None:
    changes, words = WRONG_CLUSTERS[name]
    stack = ExternalStack()
    if count := changes.get("security_groups"):
        changes = {
            "security_groups": [
                ec2.SecurityGroup(stack, f"Own{n}", vpc=stack.vpc) for n in range(count)
            ]
        }
    with pytest.raises(KascadeError, match=words):
        stack.hyperpod(**changes)


def test_a_cluster_of_unknown_group_needs_one_named() -> None:
    stack = ExternalStack()
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare", vpc=stack.vpc)
    with pytest.raises(KascadeError, match="give security_groups here"):
        stack.hyperpod(cluster=bare)
    own = ec2.SecurityGroup(stack, "Own", vpc=stack.vpc)
    HyperPodCluster(
        stack,
        "Second",
        cluster=bare,
        vpc=stack.vpc,
        security_groups=[own],
        instance_groups={"gpu": InstanceGroup(instances=ONE, count=1)},
    )
    assert len(stack.template().find_resources("AWS::SageMaker::Cluster")) == 1
