"""Wrong settings of the cluster half."""

from typing import Any

from tests.unit.config.builders import Edit, Row, both, group, top


def types(*names: str, **changes: object) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        del config["instance_groups"][0]["instance_type"]
        config["instance_groups"][0].update(changes, instance_types=list(names))

    return apply


def hyperpod(**changes: object) -> Edit:
    return top(hyperpod=changes)


PLAN_ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/mine"


KEY_ARN = "arn:aws:kms:eu-west-1:111122223333:key/0123-abcd"


REFUSED: dict[str, Row] = {
    "group without a type": (
        lambda c: c["instance_groups"][0].pop("instance_type"),
        "instance_groups[0].instance_type",
        "missing-field",
    ),
    "one type and a list": (
        group(instance_types=["ml.g6e.8xlarge"]),
        "instance_groups[0].instance_types",
        "type-and-types",
    ),
    "unknown type in a list": (
        types("ml.g6e.4xlarge", "ml.g6e.9xlarge"),
        "instance_groups[0].instance_types[1]",
        "unknown-instance-type",
    ),
    "type twice in a list": (
        types("ml.g6e.4xlarge", "ml.g6e.4xlarge"),
        "instance_groups[0].instance_types[1]",
        "duplicate",
    ),
    "more than 20 types": (
        types(*(f"ml.x{n}.large" for n in range(21))),
        "instance_groups[0].instance_types",
        "too-many",
    ),
    "types with different GPU counts": (
        types("ml.g6e.4xlarge", "ml.g6e.12xlarge"),
        "instance_groups[0].instance_types[1]",
        "types-with-other-gpus",
    ),
    "types with different GPUs": (
        types("ml.g6e.4xlarge", "ml.g6.4xlarge"),
        "instance_groups[0].instance_types[1]",
        "types-with-other-gpus",
    ),
    "list too small for the model": (
        both(types("ml.g6e.8xlarge", "ml.g6e.xlarge"), hyperpod(tiered_storage_percentage=80)),
        "hyperpod.tiered_storage_percentage",
        "host-ram",
    ),
    "type list in mode operator": (
        both(
            types("ml.g6e.4xlarge", "ml.g6e.8xlarge", count=3),
            lambda c: c["models"][0].update(mode="operator"),
        ),
        "instance_groups[0].instance_types",
        "operator-instance-types",
    ),
    "more wanted at first than ever": (
        group(min_count=3),
        "instance_groups[0].min_count",
        "min-count",
    ),
    "EFA on a size without": (
        group(instance_type="ml.g6e.2xlarge", efa="efa"),
        "instance_groups[0].efa",
        "efa-of-a-type",
    ),
    "EFA on a list of which one has none": (
        types("ml.g6e.8xlarge", "ml.g6e.4xlarge", efa="efa-only"),
        "instance_groups[0].efa",
        "efa-of-a-type",
    ),
    "unknown interface": (group(efa="ena"), "instance_groups[0].efa", "not-allowed"),
    "three threads a core": (
        group(threads_per_core=3),
        "instance_groups[0].threads_per_core",
        "not-allowed",
    ),
    "unknown capacity": (
        group(capacity={"kind": "reserved"}),
        "instance_groups[0].capacity",
        "not-allowed",
    ),
    "spot together with a training plan": (
        group(capacity={"kind": "spot", "arn": PLAN_ARN}),
        "instance_groups[0].capacity.arn",
        "unknown-field",
    ),
    "training plan without its ARN": (
        group(capacity={"kind": "training_plan"}),
        "instance_groups[0].capacity.arn",
        "missing-field",
    ),
    "training plan by name": (
        group(capacity={"kind": "training_plan", "arn": "mine"}),
        "instance_groups[0].capacity.arn",
        "wrong-format",
    ),
    "training plan of a type that none reserves": (
        group(
            capacity={"kind": "training_plan", "arn": PLAN_ARN.replace("us-east-1", "us-west-2")}
        ),
        "instance_groups[0].capacity",
        "training-plan-type",
    ),
    "training plan of another region": (
        group(instance_type="ml.p4d.24xlarge", capacity={"kind": "training_plan", "arn": PLAN_ARN}),
        "instance_groups[0].capacity.arn",
        "region-of-an-arn",
    ),
    "volume key of another region": (
        group(volume_kms_key_arn=KEY_ARN),
        "instance_groups[0].volume_kms_key_arn",
        "region-of-an-arn",
    ),
    "root volume key by alias": (
        group(root_volume_kms_key_arn="alias/mine"),
        "instance_groups[0].root_volume_kms_key_arn",
        "wrong-format",
    ),
    "deep health checks on tainted nodes": (
        group(deep_health_checks=["InstanceStress"], taints=[{"key": "team"}]),
        "instance_groups[0].taints",
        "deep-checks-and-taints",
    ),
    "group name with an underscore": (
        group(name="gpu_nodes"),
        "instance_groups[0].name",
        "not-a-group-name",
    ),
    "group in a zone that is not the deployment's": (
        group(zone="us-west-2c"),
        "instance_groups[0].zone",
        "zone-of-a-group",
    ),
    "zone without the type": (
        both(top(zone_offerings="offerings.json"), group(zone="us-west-2b")),
        "instance_groups[0].zone",
        "",
    ),
    "six security groups": (
        hyperpod(security_group_ids=[f"sg-0000000{n}" for n in range(5)]),
        "hyperpod.security_group_ids",
        "too-many",
    ),
    "security group by name": (
        hyperpod(security_group_ids=["default"]),
        "hyperpod.security_group_ids[0]",
        "wrong-format",
    ),
    "security group twice": (
        hyperpod(security_group_ids=["sg-00000001", "sg-00000001"]),
        "hyperpod.security_group_ids[1]",
        "duplicate",
    ),
    "tiered storage of 10 percent": (
        hyperpod(tiered_storage_percentage=10),
        "hyperpod.tiered_storage_percentage",
        "tiered-storage-percentage",
    ),
    "updates by count and by share": (
        hyperpod(software_updates={"batch_count": 1, "batch_percentage": 10}),
        "hyperpod.software_updates.batch_percentage",
        "batch-count-and-percentage",
    ),
    "updates at no time": (
        hyperpod(software_updates={"schedule": "sundays"}),
        "hyperpod.software_updates.schedule",
        "wrong-format",
    ),
    "updates that wait two hours": (
        hyperpod(software_updates={"wait_seconds": 7200}),
        "hyperpod.software_updates.wait_seconds",
        "out-of-range",
    ),
}
