"""What somebody else's stack can get wrong: each is a sentence, and all are told at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import botocore.loaders
import pytest
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from kascade.aws import (
    Batch,
    Capacity,
    FsxLustre,
    FsxOpenZfs,
    HyperPodCluster,
    HyperPodSettings,
    InstanceGroup,
    Instances,
    KarpenterAutoscaling,
    SoftwareUpdates,
    Taint,
)
from kascade.catalog.training_plans import RESERVABLE_TYPES
from kascade.errors import KascadeError
from tests.checkout import ROOT
from tests.unit.aws.test_hyperpod import IMPORTED, LUSTRE, ONE, PLAN, ExternalStack

CRON = "cron(0 3 ? * SUN *)"
RESERVED = Instances.of("ml.p4d.24xlarge")
Make = Callable[[ExternalStack], dict[str, Any]]


def number(stack: ExternalStack) -> float:
    return cdk.CfnParameter(stack, "Number", type="Number").value_as_number


def text(stack: ExternalStack) -> str:
    return cdk.CfnParameter(stack, "Text").value_as_string


PUBLIC = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC, availability_zones=["us-west-2a"])


def alarm(stack: ExternalStack) -> cloudwatch.IAlarm:
    return cloudwatch.Alarm.from_alarm_name(stack, "Alarm", "latency")


def given(**changes: Any) -> Make:
    return lambda _: changes


def updates(**changes: Any) -> Make:
    return given(software_updates=SoftwareUpdates(**{"schedule": CRON, **changes}))


GROUPS: dict[str, tuple[Make, str]] = {
    # Capacity
    "a training plan that is None": (
        given(instances=RESERVED, capacity=Capacity.training_plan(None)),  # type: ignore[arg-type]
        "capacity is a training plan without its ARN; give one such as arn:aws:sagemaker",
    ),
    "an empty training plan": (
        given(instances=RESERVED, capacity=Capacity.training_plan("")),
        "capacity: '' is not the ARN of a training plan; they are like arn:aws",
    ),
    "a training plan by name": (
        given(instances=RESERVED, capacity=Capacity.training_plan("nope")),
        "capacity: 'nope' is not the ARN of a training plan",
    ),
    "a training plan of another region": (
        given(
            instances=RESERVED,
            capacity=Capacity.training_plan(PLAN.replace("us-west-2", "eu-west-1")),
        ),
        "capacity: the training plan is of eu-west-1, and the stack in us-west-2",
    ),
    "a training plan of a type that none reserves": (
        given(capacity=Capacity.training_plan(PLAN)),
        "a training plan reserves no ml.g6e.4xlarge, but ml.p4d.24xlarge,",
    ),
    "an unknown capacity": (
        given(capacity=Capacity("reserved")),  # type: ignore[arg-type]
        "capacity.kind is 'reserved'; allowed: 'on_demand' or 'spot' or 'training_plan'",
    ),
    "spot with a training plan": (
        given(capacity=Capacity("spot", PLAN)),
        f"capacity is spot and names the training plan {PLAN}; use Capacity.training_plan(arn)",
    ),
    "capacity as a string": (given(capacity="spot"), "capacity is 'spot'; give Capacity.on_demand"),
    # File systems
    "a file system of another shape": (
        given(file_systems=[{"dns_name": "x"}]),
        "file_systems[0] is {'dns_name': 'x'}; give FsxLustre(...) or FsxOpenZfs(...)",
    ),
    "a file system mounted twice": (
        given(
            file_systems=[
                FsxLustre(dns_name=LUSTRE, mount_name="x", mount_path=path) for path in ("/a", "/b")
            ]
        ),
        f"file_systems has x@{LUSTRE} twice; mount each once",
    ),
    "two file systems at one place": (
        given(
            file_systems=[
                FsxLustre(dns_name=LUSTRE, mount_name="x", mount_path="/fsx"),
                FsxOpenZfs(dns_name="fs-00000000.example", mount_path="/fsx"),
            ]
        ),
        "file_systems mounts two at /fsx; give each a mount_path of its own",
    ),
    "a file system by id": (
        given(file_systems=[FsxLustre(dns_name="fs-0123", mount_name="x")]),
        "file_systems[0].dns_name is 'fs-0123'; FSx writes them like fs-0123456789abcdef0.fsx",
    ),
    "a file system by number": (
        given(file_systems=[FsxOpenZfs(dns_name=3)]),  # type: ignore[arg-type]
        "file_systems[0].dns_name is 3; give a string",
    ),
    "a mount name with a slash": (
        given(file_systems=[FsxLustre(dns_name=LUSTRE, mount_name="/x")]),
        "file_systems[0].mount_name is '/x'; FSx writes 1 to 8 letters",
    ),
    "a relative mount path": (
        given(file_systems=[FsxLustre(dns_name=LUSTRE, mount_name="x", mount_path="fsx")]),
        "file_systems[0].mount_path is 'fsx'; give an absolute path such as /fsx",
    ),
    "a file system over the second volume": (
        given(file_systems=[FsxOpenZfs(dns_name=LUSTRE, mount_path="/opt/sagemaker")]),
        "mount_path is /opt/sagemaker, where HyperPod mounts the second volume",
    ),
    # Places
    "public subnets": (
        given(vpc_subnets=PUBLIC),
        "vpc_subnets selects Theirs/Vpc/PublicSubnet1, which is public, and HyperPod's nodes",
    ),
    "a subnet twice": (
        lambda stack: {
            "vpc_subnets": ec2.SubnetSelection(subnets=[stack.vpc.private_subnets[0]] * 2)
        },
        "vpc_subnets selects Theirs/Vpc/PrivateSubnet1 twice; name each subnet once",
    ),
    "a subnet group that is not there": (
        given(vpc_subnets=ec2.SubnetSelection(subnet_group_name="nope")),
        "There are no subnet groups with name 'nope' in this VPC",
    ),
    "a security group twice": (
        lambda stack: {
            "security_groups": [ec2.SecurityGroup(stack, "Own", vpc=stack.vpc)] * 2,
            "vpc_subnets": ec2.SubnetSelection(subnets=stack.vpc.private_subnets),
        },
        "security_groups has Theirs/Own twice; name each once",
    ),
    "a security group outside a list": (
        lambda stack: {"security_groups": ec2.SecurityGroup(stack, "Own", vpc=stack.vpc)},
        "security_groups is an object of type SecurityGroup; give a list of security groups",
    ),
    # Tokens
    "a number that is not known": (
        lambda stack: {"count": number(stack)},
        "count is a token, whose value only CloudFormation knows, and is checked at synth; give a ",
    ),
    "a smallest number that is not known": (
        lambda stack: {"min_count": number(stack)},
        "min_count is a token,",
    ),
    "a volume that is not known": (
        lambda stack: {"volume_gib": number(stack)},
        "volume_gib is a token,",
    ),
    "a share that is not known": (
        lambda stack: {
            "software_updates": SoftwareUpdates(
                schedule=CRON,
                batch=Batch.percentage(number(stack)),  # type: ignore[arg-type]
            )
        },
        "software_updates.batch.value is a token,",
    ),
    "a pause that is not known": (
        lambda stack: {
            "software_updates": SoftwareUpdates(
                schedule=CRON, wait=cdk.Duration.seconds(number(stack))
            )
        },
        "software_updates.wait is a token,",
    ),
    "a type that is not known": (
        lambda stack: {"instances": Instances.of(text(stack))},
        "Instances.of[0] is a token, whose value only CloudFormation knows",
    ),
    # Values
    "a label that Kubernetes rejects": (
        given(labels={"-team": "a"}),
        "label '-team' is no Kubernetes key; write it like team or example.com/team",
    ),
    "a label of a long domain": (
        given(labels={f"{'a.' * 127}a/team": "a"}),
        "is no Kubernetes key; write it like",
    ),
    "an empty label": (
        given(labels={"team": ""}),
        "label 'team' has the value ''; allowed: 1 to 63 letters",
    ),
    "a label that is a number": (given(labels={"team": 1}), "labels['team'] is 1; give a string"),
    "a number that is a label": (given(labels={1: "team"}), "label 1 is 1; give a string"),
    "a label of HyperPod": (
        given(labels={"sagemaker.amazonaws.com/node-health-status": "x"}),
        "those of sagemaker.amazonaws.com are set by Kubernetes or HyperPod; use a domain",
    ),
    "51 labels": (given(labels={f"l{n}": "x" for n in range(51)}), "51 labels; HyperPod takes 50"),
    "51 taints": (
        given(taints=[Taint(key=f"t{n}") for n in range(51)]),
        "51 taints; HyperPod takes 50",
    ),
    "an unknown effect": (
        given(taints=[Taint(key="team", effect="Never")]),  # type: ignore[arg-type]
        "taints[0].effect is 'Never'; allowed: 'NoSchedule' or 'PreferNoSchedule' or 'NoExecute'",
    ),
    "a taint twice": (
        given(taints=[Taint(key="team"), Taint(key="team", value="a")]),
        "the taint team:NoSchedule is duplicated",
    ),
    "a taint that Kubernetes rejects": (
        given(taints=[Taint(key="a b")]),
        "taints[0].key 'a b' is no Kubernetes key",
    ),
    "a taint of Kubernetes": (
        given(taints=[Taint(key="node.kubernetes.io/unschedulable")]),
        "taints[0].key: those of node.kubernetes.io are set by Kubernetes or HyperPod",
    ),
    "a schedule of another service": (
        updates(schedule="cron(0/5 3 ? * MON-FRI *)"),
        "'cron(0/5 3 ? * MON-FRI *)' is not a schedule that HyperPod takes, such as cron(",
    ),
    "a check twice": (
        given(deep_health_checks=["InstanceStress", "InstanceStress"]),
        "deep health check InstanceStress is duplicated; name each once",
    ),
    "two architectures": (
        given(instances=Instances.any_of(["ml.c7g.xlarge", "ml.c5.xlarge"])),
        "any_of mixes architectures, ml.c7g.xlarge (arm64), ml.c5.xlarge (x86_64), and an image",
    ),
    "several types that are no choice": (
        given(instances=Instances(("ml.c5.xlarge", "ml.c5.large"), is_choice=False)),
        "Instances of 2 types are no choice; make them by any_of",
    ),
    "a key by its alias": (
        lambda stack: {"volume_key": kms.Alias.from_alias_name(stack, "Alias", "alias/x")},
        "volume_key is an alias, and rights are given on a key alone; give the key",
    ),
    "a key of another region": (
        lambda stack: {
            "root_volume_key": kms.Key.from_key_arn(
                stack, "Key", "arn:aws:kms:eu-west-1:111122223333:key/a"
            )
        },
        "root_volume_key is of eu-west-1, and the stack in us-west-2; give a key of the same",
    ),
    "an alarm twice": (
        lambda stack: {
            "software_updates": SoftwareUpdates(schedule=CRON, rollback_alarms=[alarm(stack)] * 2)
        },
        "software_updates.rollback_alarms has the alarm latency twice; name each once",
    ),
    # Kinds of Python
    "a count in letters": (given(count="2"), "count is '2'; give a whole number such as 2"),
    "no count": (given(count=None), "count is None; give a whole number"),
    "a count that is true": (given(count=True), "count is True; give a whole number"),
    "half an instance": (given(count=2.5), "count is 2.5; give a whole number"),
    "a count that is not finite": (given(count=float("inf")), "count is inf; give a whole number"),
    "threads that are true": (given(threads_per_core=True), "threads_per_core is True; allowed: 1"),
    "types as a string": (
        given(instances="ml.g6e.4xlarge"),
        "instances is 'ml.g6e.4xlarge'; give Instances.of('ml.g6e.4xlarge') or Instances.any_of",
    ),
    "a choice of letters": (
        given(instances=Instances.any_of("ml.g6e.4xlarge")),
        "any_of is 'ml.g6e.4xlarge'; give a list of types such as ['ml.g6e.8xlarge'",
    ),
    "a type that is a list": (
        given(instances=Instances.of(["ml.g6e.4xlarge"])),  # type: ignore[arg-type]
        "Instances.of[0] is ['ml.g6e.4xlarge']; give a string",
    ),
    "checks of letters": (
        given(deep_health_checks="InstanceStress"),
        "deep_health_checks is 'InstanceStress'; give a list such as ['InstanceStress']",
    ),
    "taints as strings": (given(taints=["team"]), "taints[0] is 'team'; give Taint(key='team')"),
    "labels as a list": (given(labels=["team"]), "labels is ['team']; give a dict such as"),
    "a key as a string": (given(volume_key="key"), "volume_key is 'key'; give a key of aws_kms"),
    "alarms as strings": (
        updates(rollback_alarms=["a"]),
        "software_updates.rollback_alarms[0] is 'a'; give an alarm of aws_cloudwatch",
    ),
    "updates as a string": (given(software_updates=CRON), "; give SoftwareUpdates(...)"),
    "a pause of a number": (updates(wait=60), "software_updates.wait is 60; give a Duration"),
    "half a second": (
        updates(wait=cdk.Duration.millis(500)),
        "software_updates.wait is Duration.millis(500), no whole number of seconds; give Duration",
    ),
    "minutes that are not known": (
        lambda stack: {
            "software_updates": SoftwareUpdates(
                schedule=CRON, wait=cdk.Duration.minutes(number(stack))
            )
        },
        "no whole number of seconds; give Duration.seconds(60), say",
    ),
    "a batch of a string": (
        updates(batch=Batch.nodes("2")),  # type: ignore[arg-type]
        "software_updates.batch.value is '2'; give a whole number",
    ),
    "a schedule that is none": (
        updates(schedule=None),
        "software_updates.schedule is None; give a",
    ),
    "subnets as a list": (
        given(vpc_subnets=["subnet-1"]),
        "vpc_subnets is ['subnet-1']; give an ec2.SubnetSelection",
    ),
}


@pytest.fixture(scope="module")
def stack() -> ExternalStack:
    return ExternalStack()


@pytest.mark.parametrize("name", GROUPS)
def test_a_wrong_group_is_one_sentence(name: str) -> None:
    make, words = GROUPS[name]
    stack = ExternalStack()
    cluster = stack.hyperpod()
    group = InstanceGroup(**{"instances": ONE, "count": 2, **make(stack)})
    with pytest.raises(KascadeError) as caught:
        cluster.add_instance_group("a", group)
    sentences = [
        line for line in str(caught.value).split("\n")[1:] if "need vpc_subnets" not in line
    ]
    assert len(sentences) == 1, sentences
    assert words in sentences[0]


CLUSTERS: dict[str, tuple[Make, str]] = {
    "an empty name": (given(cluster_name=""), "'' cannot name a HyperPod cluster; use 1 to 63"),
    "an unknown recovery": (
        given(settings=HyperPodSettings(node_recovery="Never")),  # type: ignore[arg-type]
        "settings.node_recovery is 'Never'; allowed: 'Automatic' or 'None'",
    ),
    "a share that is not known": (
        lambda stack: {
            "settings": HyperPodSettings(tiered_storage_percentage=number(stack))  # type: ignore[arg-type]
        },
        "settings.tiered_storage_percentage is a token,",
    ),
    "settings as a dict": (given(settings={}), "settings is {}; give HyperPodSettings(...)"),
    "an EKS cluster by name": (given(cluster="theirs"), "cluster is 'theirs'; give an EKS cluster"),
    "no VPC": (given(vpc=None), "vpc is None; give a VPC of aws_ec2"),
    "a security group outside a list": (
        lambda stack: {"security_groups": ec2.SecurityGroup(stack, "Own", vpc=stack.vpc)},
        "security_groups is an object of type SecurityGroup; give a list of security groups",
    ),
    "a security group twice": (
        lambda stack: {"security_groups": [ec2.SecurityGroup(stack, "Own", vpc=stack.vpc)] * 2},
        "security_groups has Theirs/Own twice; name each once",
    ),
    "groups in a list": (
        given(instance_groups=[InstanceGroup(instances=ONE, count=1)]),
        "instance_groups is a list; give a dict of InstanceGroups by name",
    ),
    "a group that is none": (
        given(instance_groups={"a": 2}),
        "instance_groups['a'] is 2; give an InstanceGroup(instances=..., count=...)",
    ),
    "a group without a name": (
        given(instance_groups={None: InstanceGroup(instances=ONE, count=1)}),
        "instance group None: the name is None; give a string",
    ),
    "public subnets": (
        given(vpc_subnets=PUBLIC),
        "vpc_subnets selects Theirs/Vpc/PublicSubnet1, which is public",
    ),
    "subnets of unknown number": (
        lambda stack: {
            "vpc": ec2.Vpc.from_vpc_attributes(
                stack,
                "Imported",
                vpc_id="vpc-1",
                availability_zones=["us-west-2a"],
                private_subnet_ids=cdk.Fn.split(",", cdk.Fn.import_value("subnets")),
            )
        },
        "the subnets of the VPC are a list whose length is not known at synth; state it where",
    ),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_wrong_cluster_is_one_sentence(name: str) -> None:
    make, words = CLUSTERS[name]
    stack = ExternalStack()
    with pytest.raises(KascadeError) as caught:
        stack.hyperpod(**make(stack))
    first, *sentences = str(caught.value).split("\n")
    assert first == "Theirs/HyperPod: 1 problem"
    assert words in sentences[0]


def test_mistakes_of_a_cluster_and_of_its_groups_are_told_at_once(stack: ExternalStack) -> None:
    wrong: Any = {
        "a_b": InstanceGroup(instances=ONE, count="2"),  # type: ignore[arg-type]
        "b": InstanceGroup(
            instances=Instances.any_of(["ml.g6e.4xlarge", 3]),  # type: ignore[list-item]
            count=1,
            labels={"-": "x"},
            file_systems=[None],  # type: ignore[list-item]
        ),
    }
    with pytest.raises(KascadeError) as caught:
        HyperPodCluster(
            stack, "Wrong", cluster=stack.eks, vpc=stack.vpc, cluster_name="", instance_groups=wrong
        )
    assert ": 6 problems" in str(caught.value)


def test_subnets_of_a_stated_number_will_do() -> None:
    stack = ExternalStack()
    ids = cdk.Fn.split(",", cdk.Fn.import_value("subnets"), 2)
    zones = ["us-west-2a", "us-west-2b"]
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Imported", vpc_id="vpc-1", availability_zones=zones, private_subnet_ids=ids
    )
    stack.hyperpod(vpc=vpc)
    subnets = stack.cluster()["VpcConfig"]["Subnets"]
    assert [entry["Fn::Select"][0] for entry in subnets] == [0, 1]


def test_what_only_cloudformation_knows_may_be_a_text() -> None:
    stack = ExternalStack()
    name = text(stack)
    group = InstanceGroup(
        instances=RESERVED,
        count=1,
        capacity=Capacity.training_plan(name),
        labels={"team": name},
        file_systems=[FsxLustre(dns_name=name, mount_name=name)],
    )
    stack.hyperpod(cluster_name=name, instance_groups={"gpu": group})
    (written,) = stack.cluster()["InstanceGroups"]
    assert written["TrainingPlanArn"] == {"Ref": "Text"}
    assert written["KubernetesConfig"]["Labels"] == {"team": {"Ref": "Text"}}


def test_an_adapter_of_a_type_that_nobody_catalogued_is_a_warning() -> None:
    stack = ExternalStack()
    group = InstanceGroup(
        instances=Instances.of("ml.trn1.32xlarge"), count=1, network_interface="efa"
    )
    cluster = stack.hyperpod(instance_groups={"gpu": group})
    (warning,) = [entry for entry in cluster.node.metadata if entry.type == "aws:cdk:warning"]
    assert "does not know whether ml.trn1.32xlarge has it" in str(warning.data)


IMPORTS: dict[str, tuple[dict[str, Any], str]] = {
    "an ARN that is none": ({"cluster_arn": "nope"}, "cluster_arn is 'nope'; HyperPod writes them"),
    "an empty name": ({"cluster_name": ""}, "cluster_name is ''; use 1 to 63 letters"),
    "no name": ({"cluster_name": None}, "cluster_name is None; give a string"),
    "an empty EKS name": ({"eks_cluster_name": ""}, "eks_cluster_name is ''; give the name"),
    "groups as a string": ({"security_groups": "sg-1"}, "security_groups is 'sg-1'; give a list"),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_a_wrong_import_is_one_sentence(stack: ExternalStack, name: str) -> None:
    changes, words = IMPORTS[name]
    right = {"cluster_arn": IMPORTED, "cluster_name": "known"}
    with pytest.raises(KascadeError) as caught:
        HyperPodCluster.from_hyperpod_cluster_attributes(stack, "Known", **(right | changes))
    first, *sentences = str(caught.value).split("\n")
    assert first == "Known: 1 problem"
    assert words in sentences[0]


def test_karpenter_takes_the_construct() -> None:
    stack = ExternalStack()
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-west-2:111122223333:key/a")
    group = InstanceGroup(instances=ONE, count=0, volume_key=key)
    cluster = stack.hyperpod(instance_groups={"gpu": group})
    KarpenterAutoscaling(stack, "Karpenter", hyperpod=cluster)
    written = stack.cluster()
    assert written["AutoScaling"] == {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    assert "Karpenter" in written["ClusterRole"]["Fn::GetAtt"][0]
    roles = stack.template().find_resources("AWS::IAM::Role")
    (role,) = (r for name, r in roles.items() if name.startswith("Karpenter"))
    _, volumes = role["Properties"]["Policies"]
    assert {s["Resource"] for s in volumes["PolicyDocument"]["Statement"]} == {key.key_arn}
    with pytest.raises(KascadeError, match="add them all before KarpenterAutoscaling"):
        cluster.add_instance_group("late", group)


def test_karpenter_fills_groups_that_begin_empty() -> None:
    stack = ExternalStack()
    group = InstanceGroup(instances=ONE, count=2, deep_health_checks=["InstanceStress"])
    planned = InstanceGroup(instances=RESERVED, count=0, capacity=Capacity.training_plan(PLAN))
    cluster = stack.hyperpod(
        settings=HyperPodSettings(node_recovery="None"),
        instance_groups={"gpu": group, "planned": planned},
    )
    with pytest.raises(KascadeError) as caught:
        KarpenterAutoscaling(stack, "Karpenter", hyperpod=cluster)
    first, *sentences = str(caught.value).split("\n")
    assert first == "Theirs/Karpenter: 4 problems"
    assert "node_recovery is 'None'" in sentences[0]
    assert "'gpu' has a count of 2, and Karpenter's groups begin empty; make it 0" in sentences[1]
    assert "AutoScaling" not in stack.cluster()


@pytest.mark.parametrize("part", ["resource", "import"])
def test_karpenter_takes_nothing_else(part: str) -> None:
    stack = ExternalStack()
    cluster: Any = stack.hyperpod().resource
    if part == "import":
        cluster = HyperPodCluster.from_hyperpod_cluster_attributes(
            stack, "Known", cluster_arn=IMPORTED, cluster_name="known"
        )
    with pytest.raises(KascadeError, match="give a HyperPodCluster that is made in this app"):
        KarpenterAutoscaling(stack, "Karpenter", hyperpod=cluster)


def test_a_grant_uses_nothing_deprecated() -> None:
    program = (
        "from aws_cdk import aws_iam as iam\n"
        "from tests.unit.aws.test_hyperpod import ExternalStack\n"
        "stack = ExternalStack()\n"
        "role = iam.Role(stack, 'Role', assumed_by=iam.AccountRootPrincipal())\n"
        "stack.hyperpod().grant_read(role)\n"
    )
    path = os.pathsep.join([str(ROOT / "constructs"), str(ROOT)])
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "deprecated" not in result.stderr


def test_a_training_plan_reserves_what_the_api_says() -> None:
    shapes = botocore.loaders.Loader().load_service_model("sagemaker", "service-2")["shapes"]
    assert set(RESERVABLE_TYPES) == set(shapes["ReservedCapacityInstanceType"]["enum"])
