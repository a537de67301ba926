"""Values of the cluster half that look right and that AWS or Kubernetes would not take."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import ServingConfig, plan_file
from kascade.catalog.schedules import SCHEDULE
from kascade.config.lock import lock_text, locked_values
from tests.unit.config.test_invariants import (
    Edit,
    assert_one_sentence,
    base,
    both,
    group,
    top,
    write,
)

ROOT = Path(__file__).parents[3]
ROLE = "arn:aws:iam::111122223333:role/{}"


def kubernetes(**changes: object) -> Edit:
    return top(kubernetes=changes)


def admins(*arns: str) -> Edit:
    return kubernetes(admin_role_arns=list(arns))


def seen_from(*networks: str) -> Edit:
    return kubernetes(public_access_cidrs=list(networks))


def updates(**changes: object) -> Edit:
    return top(hyperpod={"software_updates": changes})


def karpenter(**changes: object) -> Edit:
    """The shipped configuration, changed."""

    def apply(config: dict[str, Any]) -> None:
        shipped = yaml.safe_load((ROOT / "config" / "karpenter.yaml").read_text())
        config.clear()
        config.update(shipped)
        config.update(changes)

    return apply


def karpenter_taint(config: dict[str, Any]) -> None:
    karpenter()(config)
    config["instance_groups"][0]["taints"] = [{"key": "karpenter.sh/disrupted"}]


def karpenter_of_none(config: dict[str, Any]) -> None:
    karpenter()(config)
    config["instance_groups"][0]["count"] = 0


REFUSED: dict[str, tuple[Edit, str, str]] = {
    "a role of another partition": (
        admins("arn:aws-us-gov:iam::111122223333:role/Admin"),
        "kubernetes.admin_role_arns[0]",
        r"is not the ARN of an IAM role \(arn:aws:iam::ACCOUNT:role/NAME",
    ),
    "a role's name of 65 letters": (
        admins(ROLE.format("a" * 65)),
        "kubernetes.admin_role_arns[0]",
        r"is not the ARN of an IAM role",
    ),
    "a role without a name": (
        admins(ROLE.format("team/")),
        "kubernetes.admin_role_arns[0]",
        r"is not the ARN of an IAM role",
    ),
    "a service-linked role": (
        admins(ROLE.format("aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS")),
        "kubernetes.admin_role_arns[0]",
        r"not a service-linked one",
    ),
    "51 roles": (
        admins(*(ROLE.format(f"r{n}") for n in range(51))),
        "kubernetes.admin_role_arns",
        r"at most 50",
    ),
    "a network with a mask": (
        seen_from("8.8.4.0/255.255.255.0"),
        "kubernetes.public_access_cidrs[0]",
        r"is the network 8\.8\.4\.0/24; write it so",
    ),
    "a network with a zero too many": (
        top(network={"vpc_cidr": "10.0.0.0/016"}),
        "network.vpc_cidr",
        r"is the network 10\.0\.0\.0/16; write it so",
    ),
    "an address without a length": (
        seen_from("8.8.8.8"),
        "kubernetes.public_access_cidrs[0]",
        r"has no prefix length; write 8\.8\.8\.8/24 or whatever it is \(8\.8\.8\.8/32: one\)",
    ),
    "a network that is not on the internet": (
        seen_from("10.0.0.0/8"),
        "kubernetes.public_access_cidrs[0]",
        r"is not a range of the internet, .*; leave it out, or give the addresses",
    ),
    "a multicast network": (
        seen_from("224.0.0.0/4"),
        "kubernetes.public_access_cidrs[0]",
        r"is not a range of the internet",
    ),
    "a network twice": (
        seen_from("8.8.8.0/24", "8.8.8.0/24"),
        "kubernetes.public_access_cidrs[1]",
        r"the network '8\.8\.8\.0/24' stands twice",
    ),
    "41 networks": (
        seen_from(*(f"8.8.{n}.0/24" for n in range(41))),
        "kubernetes.public_access_cidrs",
        r"at most 40",
    ),
    "words for a schedule": (
        updates(schedule="cron(hello world)"),
        "hyperpod.software_updates.schedule",
        r"'cron\(hello world\)' is not a schedule that HyperPod takes, such as cron\(0 3 \? \* SUN",
    ),
    "every day of the month and of the week": (
        updates(schedule="cron(0 3 * * * *)"),
        "hyperpod.software_updates.schedule",
        r"one of the two days is \?",
    ),
    "a range of days": (
        updates(schedule="cron(0 3 ? * MON-FRI *)"),
        "hyperpod.software_updates.schedule",
        r"there are no lists and no ranges",
    ),
    "no day at all": (
        updates(schedule="cron(0 3 ? * ? *)"),
        "hyperpod.software_updates.schedule",
        r"one of the two days is \?",
    ),
    "no minute": (
        updates(schedule="cron( 3 ? * SUN *)"),
        "hyperpod.software_updates.schedule",
        r"one minute, one hour",
    ),
    "an alarm's ARN": (
        updates(rollback_alarms=["arn:aws:cloudwatch:us-west-2:111122223333:alarm:x"]),
        "hyperpod.software_updates.rollback_alarms[0]",
        r"is not the name of a CloudWatch alarm, which is not its ARN",
    ),
    "an alarm twice": (
        updates(rollback_alarms=["a", "b", "a"]),
        "hyperpod.software_updates.rollback_alarms[2]",
        r"'a' stands twice; name each alarm once",
    ),
    "a label without a value": (
        group(labels={"team": ""}),
        "instance_groups[0].labels.team",
        r"'' is not a label value that HyperPod takes \(1 to 63",
    ),
    "a label with a long domain": (
        group(labels={f"{'a.' * 130}b/c": "x"}),
        f"instance_groups[0].labels.{'a.' * 130}b/c",
        r"is not a Kubernetes label key \(a name of at most 63",
    ),
    "Kubernetes' own taint": (
        group(taints=[{"key": "node.kubernetes.io/not-ready"}]),
        "instance_groups[0].taints[0].key",
        r"taints of node\.kubernetes\.io are set by Kubernetes or HyperPod",
    ),
    "HyperPod's own taint": (
        group(taints=[{"key": "sagemaker.amazonaws.com/node-health-status", "value": "x"}]),
        "instance_groups[0].taints[0].key",
        r"taints of sagemaker\.amazonaws\.com are set by",
    ),
    "Karpenter's own taint": (
        karpenter_taint,
        "instance_groups[0].taints[0].key",
        r"taints of karpenter\.sh are Karpenter's own",
    ),
    "an agent too old for Karpenter": (
        karpenter(images={"health_agent": "registry.example.com/agent:1.0.1.0_1.0.1.0"}),
        "images.health_agent",
        r"is older than 1\.0\.742\.0_1\.0\.241\.0, .*; take a newer one, or leave",
    ),
    "a tag in two cases": (
        top(tags={"Team": "a", "team": "b"}),
        "tags.team",
        r"'team' and 'Team' differ in case alone, and IAM takes them for one key; keep one",
    ),
    "AWS's own tag in capitals": (
        top(tags={"AWS:x": "a"}),
        "tags.AWS:x",
        r"is not a tag key .*not `aws:`",
    ),
    "a blank for a tag": (top(tags={" ": "a"}), r"tags. ", r"' ' is not a tag key"),
    "a mount with a slash at its end": (
        top(hyperpod={"nvme_mount": "/opt/sagemaker/"}),
        "hyperpod.nvme_mount",
        r"'/opt/sagemaker/' is not an absolute path such as /opt/dlami/nvme, without a slash",
    ),
    "nothing behind the colon": (
        top(hyperpod={"node_recovery": None}),
        "hyperpod.node_recovery",
        r"got nothing; allowed: 'Automatic' or 'None'",
    ),
    "zones in two lists": (
        top(zones=[["us-west-2a", "us-west-2b"]]),
        "zones[0]",
        r"must be text, got \['us-west-2a', 'us-west-2b'\] \(a list\)",
    ),
    "two groups of one name": (
        lambda c: c["instance_groups"].append(dict(c["instance_groups"][0])),
        "instance_groups[1].name",
        r"the group name '[a-z]+' stands twice \(also at instance_groups\[0\]\); give each its own",
    ),
    "all of the RAM lent": (
        top(hyperpod={"tiered_storage_percentage": 100}),
        "hyperpod.tiered_storage_percentage",
        r"but 0 GiB are left .* - 2\.2 LMCache itself\)\. Set hyperpod\.tiered_.* to 72",
    ),
    "a group that Karpenter may not fill": (
        karpenter_of_none,
        "instance_groups[0].count",
        r"got 0, which with autoscaling is the most",
    ),
    "a group in capitals": (
        group(name="GPU"),
        "instance_groups[0].name",
        r"'GPU' cannot name cloud resources; use lower-case letters",
    ),
    "Kueue's namespace": (top(name="kueue-system"), "name", r"'kueue-system' is the name of a na"),
    "a key of another partition": (
        group(volume_kms_key_arn="arn:aws-cn:kms:us-west-2:111122223333:key/1"),
        "instance_groups[0].volume_kms_key_arn",
        r"is not the ARN of a KMS key \(arn:aws:kms",
    ),
    "a registry of dots": (
        kubernetes(kyverno={"image_registry": ".."}),
        "kubernetes.kyverno.image_registry",
        r"'\.\.' is not a registry without a scheme",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_value_is_one_sentence(tmp_path: Path, name: str) -> None:
    edit, path, words = REFUSED[name]
    config = base()
    edit(config)
    assert_one_sentence(write(tmp_path, config), path, words)


@pytest.mark.parametrize(
    "schedule",
    [
        "cron(0 3 ? * SUN *)",
        "cron(30 23 1 */2 ? 2027)",
        "cron(05 9 ? 12 6#3 *)",
        "cron(0 0 ? * L *)",
    ],
)
def test_schedules_that_hyperpod_takes(schedule: str) -> None:
    assert SCHEDULE.fullmatch(schedule)


def test_everybody_and_every_node_at_once_deserve_a_look(tmp_path: Path) -> None:
    config = base()
    both(
        kubernetes(public_access_cidrs=["0.0.0.0/0"]),
        updates(batch_percentage=100),
    )(config)
    said = [str(warning) for warning in plan_file(write(tmp_path, config)).warnings]
    assert any("public_access_cidrs" in line and "whole internet" in line for line in said), said
    assert any("batch_percentage" in line and "every node" in line for line in said), said


def test_the_subnet_of_an_added_zone_is_locked_with_it() -> None:
    config = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())
    before = locked_values(ServingConfig.model_validate(config))
    config["zones"].append("us-west-2c")
    added = {"id": "subnet-0123456789abcdef2", "cidr": "10.1.128.0/18"}
    config["network"]["existing"]["private_subnets"].append(added)
    text = lock_text(ServingConfig.model_validate(config), before)
    assert added["id"] in yaml.safe_load(text)["network.existing"]
