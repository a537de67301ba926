"""Values that look right and that AWS or Kubernetes would not take."""

from pathlib import Path
from typing import Any

import yaml

from kascade.catalog.regions import REGIONS, WITHOUT_MANAGED_GRAFANA
from tests.unit.config.builders import Edit, Row, group, top

ROOT = Path(__file__).parents[4]


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


REFUSED: dict[str, Row] = {
    "dashboards where there is no Grafana": (
        top(
            region=WITHOUT_MANAGED_GRAFANA[0],
            zones=list(REGIONS[WITHOUT_MANAGED_GRAFANA[0]].zones[:2]),
            images={"health_agent": "registry.example/agent:1"},
        ),
        "observability",
        "no-managed-grafana",
    ),
    "a role of another partition": (
        admins("arn:aws-us-gov:iam::111122223333:role/Admin"),
        "kubernetes.admin_role_arns[0]",
        "wrong-format",
    ),
    "a role's name of 65 letters": (
        admins(ROLE.format("a" * 65)),
        "kubernetes.admin_role_arns[0]",
        "wrong-format",
    ),
    "a role without a name": (
        admins(ROLE.format("team/")),
        "kubernetes.admin_role_arns[0]",
        "wrong-format",
    ),
    "a service-linked role": (
        admins(ROLE.format("aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS")),
        "kubernetes.admin_role_arns[0]",
        "wrong-format",
    ),
    "51 roles": (
        admins(*(ROLE.format(f"r{n}") for n in range(51))),
        "kubernetes.admin_role_arns",
        "too-many",
    ),
    "a network with a mask": (
        seen_from("8.8.4.0/255.255.255.0"),
        "kubernetes.public_access_cidrs[0]",
        "host-bits",
    ),
    "a network with a zero too many": (
        top(network={"vpc_cidr": "10.0.0.0/016"}),
        "network.vpc_cidr",
        "host-bits",
    ),
    "an address without a length": (
        seen_from("8.8.8.8"),
        "kubernetes.public_access_cidrs[0]",
        "no-prefix-length",
    ),
    "a network that is not on the internet": (
        seen_from("10.0.0.0/8"),
        "kubernetes.public_access_cidrs[0]",
        "not-of-the-internet",
    ),
    "a multicast network": (
        seen_from("224.0.0.0/4"),
        "kubernetes.public_access_cidrs[0]",
        "not-of-the-internet",
    ),
    "a network twice": (
        seen_from("8.8.8.0/24", "8.8.8.0/24"),
        "kubernetes.public_access_cidrs[1]",
        "duplicate",
    ),
    "41 networks": (
        seen_from(*(f"8.8.{n}.0/24" for n in range(41))),
        "kubernetes.public_access_cidrs",
        "too-many",
    ),
    "words for a schedule": (
        updates(schedule="cron(hello world)"),
        "hyperpod.software_updates.schedule",
        "wrong-format",
    ),
    "every day of the month and of the week": (
        updates(schedule="cron(0 3 * * * *)"),
        "hyperpod.software_updates.schedule",
        "wrong-format",
    ),
    "a range of days": (
        updates(schedule="cron(0 3 ? * MON-FRI *)"),
        "hyperpod.software_updates.schedule",
        "wrong-format",
    ),
    "no day at all": (
        updates(schedule="cron(0 3 ? * ? *)"),
        "hyperpod.software_updates.schedule",
        "wrong-format",
    ),
    "no minute": (
        updates(schedule="cron( 3 ? * SUN *)"),
        "hyperpod.software_updates.schedule",
        "wrong-format",
    ),
    "an alarm's ARN": (
        updates(rollback_alarms=["arn:aws:cloudwatch:us-west-2:111122223333:alarm:x"]),
        "hyperpod.software_updates.rollback_alarms[0]",
        "wrong-format",
    ),
    "an alarm twice": (
        updates(rollback_alarms=["a", "b", "a"]),
        "hyperpod.software_updates.rollback_alarms[2]",
        "duplicate",
    ),
    "a label without a value": (
        group(labels={"team": ""}),
        "instance_groups[0].labels.team",
        "wrong-format",
    ),
    "a label with a long domain": (
        group(labels={f"{'a.' * 130}b/c": "x"}),
        f"instance_groups[0].labels.{'a.' * 130}b/c",
        "wrong-format",
    ),
    "Kubernetes' own taint": (
        group(taints=[{"key": "node.kubernetes.io/not-ready"}]),
        "instance_groups[0].taints[0].key",
        "reserved-key",
    ),
    "HyperPod's own taint": (
        group(taints=[{"key": "sagemaker.amazonaws.com/node-health-status", "value": "x"}]),
        "instance_groups[0].taints[0].key",
        "reserved-key",
    ),
    "Karpenter's own taint": (
        karpenter_taint,
        "instance_groups[0].taints[0].key",
        "karpenter-own-key",
    ),
    "an agent too old for Karpenter": (
        karpenter(images={"health_agent": "registry.example.com/agent:1.0.1.0_1.0.1.0"}),
        "images.health_agent",
        "karpenter-health-agent",
    ),
    "a tag in two cases": (top(tags={"Team": "a", "team": "b"}), "tags.team", "tag-case"),
    "AWS's own tag in capitals": (top(tags={"AWS:x": "a"}), "tags.AWS:x", "wrong-format"),
    "a blank for a tag": (top(tags={" ": "a"}), r"tags. ", "wrong-format"),
    "a mount with a slash at its end": (
        top(hyperpod={"nvme_mount": "/opt/sagemaker/"}),
        "hyperpod.nvme_mount",
        "wrong-format",
    ),
    "a mount in the operating system": (
        top(hyperpod={"nvme_mount": "/etc/nvme"}),
        "hyperpod.nvme_mount",
        "wrong-format",
    ),
    "a node image of a 13th month": (
        top(kubernetes={"system_group": {"release_version": "1.35.2-20261301"}}),
        "kubernetes.system_group.release_version",
        "wrong-format",
    ),
    "a request shorter than its silence": (
        top(router={"longest_request_seconds": 60}),
        "router.longest_request_seconds",
        "shorter-than-silence",
    ),
    "nothing behind the colon": (
        top(hyperpod={"node_recovery": None}),
        "hyperpod.node_recovery",
        "not-allowed",
    ),
    "zones in two lists": (top(zones=[["us-west-2a", "us-west-2b"]]), "zones[0]", "wrong-type"),
    "two groups of one name": (
        lambda c: c["instance_groups"].append(dict(c["instance_groups"][0])),
        "instance_groups[1].name",
        "duplicate",
    ),
    "all of the RAM lent": (
        top(hyperpod={"tiered_storage_percentage": 100}),
        "hyperpod.tiered_storage_percentage",
        "host-ram",
        "2.2",
        "72",
    ),
    "a group that Karpenter may not fill": (
        karpenter_of_none,
        "instance_groups[0].count",
        "karpenter-no-instances",
    ),
    "a group in capitals": (group(name="GPU"), "instance_groups[0].name", "not-a-short-name"),
    "Kueue's namespace": (top(name="kueue-system"), "name", "reserved-name"),
    "a key of another partition": (
        group(volume_kms_key_arn="arn:aws-cn:kms:us-west-2:111122223333:key/1"),
        "instance_groups[0].volume_kms_key_arn",
        "wrong-format",
    ),
    "a registry of dots": (
        kubernetes(kyverno={"image_registry": ".."}),
        "kubernetes.kyverno.image_registry",
        "wrong-format",
    ),
}
