"""Wrong settings of the cluster half: each is one clear sentence at synth."""

import re
from pathlib import Path
from typing import Any

import pytest

from kascade import plan_file
from tests.unit.config.test_invariants import Edit, base, both, group, problems_of, top, write
from tests.unit.config.test_zone_offerings import answer, save


def types(*names: str, **changes: object) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        del config["instance_groups"][0]["instance_type"]
        config["instance_groups"][0].update(changes, instance_types=list(names))

    return apply


def hyperpod(**changes: object) -> Edit:
    return top(hyperpod=changes)


PLAN_ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/mine"
KEY_ARN = "arn:aws:kms:eu-west-1:111122223333:key/0123-abcd"

REFUSED: dict[str, tuple[Edit, str, str]] = {
    "group without a type": (
        lambda c: c["instance_groups"][0].pop("instance_type"),
        "instance_groups[0].instance_type",
        r"this field is required: HyperPod instance type.*give instance_types instead",
    ),
    "one type and a list": (
        group(instance_types=["ml.g6e.8xlarge"]),
        "instance_groups[0].instance_types",
        r"instance_type is given, too.*head of the list",
    ),
    "unknown type in a list": (
        types("ml.g6e.4xlarge", "ml.g6e.9xlarge"),
        "instance_groups[0].instance_types[1]",
        r"'ml\.g6e\.9xlarge' is not in the catalog.*Did you mean",
    ),
    "type twice in a list": (
        types("ml.g6e.4xlarge", "ml.g6e.4xlarge"),
        "instance_groups[0].instance_types[1]",
        r"ml\.g6e\.4xlarge stands twice; the order is a preference",
    ),
    "more than 20 types": (
        types(*(f"ml.x{n}.large" for n in range(21))),
        "instance_groups[0].instance_types",
        r"got 21; at most 20 are allowed, so take some out",
    ),
    "types with different GPU counts": (
        types("ml.g6e.4xlarge", "ml.g6e.12xlarge"),
        "instance_groups[0].instance_types[1]",
        r"ml\.g6e\.12xlarge has 4 x L40S and ml\.g6e\.4xlarge has 1 x L40S.*second group",
    ),
    "types with different GPUs": (
        types("ml.g6e.4xlarge", "ml.g6.4xlarge"),
        "instance_groups[0].instance_types[1]",
        r"ml\.g6\.4xlarge has 1 x L4 and ml\.g6e\.4xlarge has 1 x L40S",
    ),
    "list too small for the model": (
        both(
            types("ml.g6e.8xlarge", "ml.g6e.xlarge"),
            hyperpod(tiered_storage_percentage=80),
        ),
        "hyperpod.tiered_storage_percentage",
        r"ml\.g6e\.8xlarge or ml\.g6e\.xlarge",
    ),
    "type list in mode operator": (
        both(
            types("ml.g6e.4xlarge", "ml.g6e.8xlarge", count=3),
            lambda c: c["models"][0].update(mode="operator"),
        ),
        "instance_groups[0].instance_types",
        r"models\[0\] is in mode operator, whose endpoints name one instance type",
    ),
    "more wanted at first than ever": (
        group(min_count=3),
        "instance_groups[0].min_count",
        r"got 3, more than the 2 instances .*\. Set .*min_count to 2, or .*\.count to 3",
    ),
    "EFA on a size without": (
        group(instance_type="ml.g6e.2xlarge", efa="efa"),
        "instance_groups[0].efa",
        r"got efa, but ml\.g6e\.2xlarge has no Elastic Fabric Adapter; leave it out",
    ),
    "EFA on a list of which one has none": (
        types("ml.g6e.8xlarge", "ml.g6e.4xlarge", efa="efa-only"),
        "instance_groups[0].efa",
        r"got efa-only, but ml\.g6e\.4xlarge has no Elastic Fabric Adapter",
    ),
    "unknown interface": (
        group(efa="ena"),
        "instance_groups[0].efa",
        r"got 'ena'; allowed: 'none', 'efa' or 'efa-only'",
    ),
    "three threads a core": (
        group(threads_per_core=3),
        "instance_groups[0].threads_per_core",
        r"got 3; allowed: 1 or 2",
    ),
    "unknown capacity": (
        group(capacity={"kind": "reserved"}),
        "instance_groups[0].capacity",
        r"got kind 'reserved'; allowed: 'on_demand', 'spot', 'training_plan'",
    ),
    "spot together with a training plan": (
        group(capacity={"kind": "spot", "arn": PLAN_ARN}),
        "instance_groups[0].capacity.arn",
        r"there is no such field here\. Allowed: kind",
    ),
    "training plan without its ARN": (
        group(capacity={"kind": "training_plan"}),
        "instance_groups[0].capacity.arn",
        r"this field is required: The training plan",
    ),
    "training plan by name": (
        group(capacity={"kind": "training_plan", "arn": "mine"}),
        "instance_groups[0].capacity.arn",
        r"'mine' is not the ARN of a SageMaker training plan",
    ),
    "training plan of a type that none reserves": (
        group(
            capacity={"kind": "training_plan", "arn": PLAN_ARN.replace("us-east-1", "us-west-2")}
        ),
        "instance_groups[0].capacity",
        r"a plan reserves no ml\.g6e\.4xlarge, but ml\.p4d\.24xlarge, .*; use on_demand or spot",
    ),
    "training plan of another region": (
        group(
            instance_type="ml.p4d.24xlarge",
            capacity={"kind": "training_plan", "arn": PLAN_ARN},
        ),
        "instance_groups[0].capacity.arn",
        r"it is of us-east-1, and the deployment in us-west-2",
    ),
    "volume key of another region": (
        group(volume_kms_key_arn=KEY_ARN),
        "instance_groups[0].volume_kms_key_arn",
        r"it is of eu-west-1, and the deployment in us-west-2",
    ),
    "root volume key by alias": (
        group(root_volume_kms_key_arn="alias/mine"),
        "instance_groups[0].root_volume_kms_key_arn",
        r"'alias/mine' is not the ARN of a KMS key",
    ),
    "deep health checks on tainted nodes": (
        group(deep_health_checks=["InstanceStress"], taints=[{"key": "team"}]),
        "instance_groups[0].taints",
        r"tolerate no taint of yours.*leave out taints or deep_health_checks",
    ),
    "group name with an underscore": (
        group(name="gpu_nodes"),
        "instance_groups[0].name",
        r"'gpu_nodes' cannot name cloud resources; .*inner hyphens",
    ),
    "group in a zone that is not the deployment's": (
        group(zone="us-west-2c"),
        "instance_groups[0].zone",
        r"'us-west-2c' is not among this deployment's zones.*add it to `zones`",
    ),
    "zone without the type": (
        both(top(zone_offerings="offerings.json"), group(zone="us-west-2b")),
        "instance_groups[0].zone",
        r"ml\.g6e\.4xlarge is not offered in us-west-2b.*name us-west-2a of `zones`",
    ),
    "six security groups": (
        hyperpod(security_group_ids=[f"sg-0000000{n}" for n in range(5)]),
        "hyperpod.security_group_ids",
        r"got 5; at most 4 are allowed, so take some out",
    ),
    "security group by name": (
        hyperpod(security_group_ids=["default"]),
        "hyperpod.security_group_ids[0]",
        r"'default' is not the id of a security group",
    ),
    "security group twice": (
        hyperpod(security_group_ids=["sg-00000001", "sg-00000001"]),
        "hyperpod.security_group_ids[1]",
        r"sg-00000001 stands twice",
    ),
    "tiered storage of 10 percent": (
        hyperpod(tiered_storage_percentage=10),
        "hyperpod.tiered_storage_percentage",
        r"got 10; HyperPod takes 20 to 100",
    ),
    "updates by count and by share": (
        hyperpod(software_updates={"batch_count": 1, "batch_percentage": 10}),
        "hyperpod.software_updates.batch_percentage",
        r"batch_count is given, too, and HyperPod takes one of the two",
    ),
    "updates at no time": (
        hyperpod(software_updates={"schedule": "sundays"}),
        "hyperpod.software_updates.schedule",
        r"'sundays' is not a schedule that HyperPod takes, such as cron\(0 3",
    ),
    "updates that wait two hours": (
        hyperpod(software_updates={"wait_seconds": 7200}),
        "hyperpod.software_updates.wait_seconds",
        r"got 7200; .*3600",
    ),
}


def sentences(folder: Path, edit: Edit) -> list[str]:
    config = base()
    edit(config)
    save(folder, answer({"m7i.xlarge": "ab", "g6e.4xlarge": "a"}))
    return problems_of(write(folder, config))


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, name: str) -> None:
    edit, path, words = REFUSED[name]
    found = sentences(tmp_path, edit)
    assert len(found) == 1, found
    assert re.fullmatch(rf"line \d+: {re.escape(path)}: .*", found[0]), found[0]
    assert re.search(words, found[0]), found[0]


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) >= 25


def test_the_base_is_right(tmp_path: Path) -> None:
    """Or every row above would be refused for another reason."""
    assert plan_file(write(tmp_path, base())).name == "demo"
