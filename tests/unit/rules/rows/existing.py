"""Errors about an existing VPC, EKS or HyperPod cluster."""

from pathlib import Path
from typing import Any

from tests.unit.config.builders import Edit, Row, both

CONFIG = Path(__file__).parents[4] / "config" / "existing.yaml"


def network(**settings: object) -> Edit:
    return lambda c: c["network"].update(settings)


def vpc(**settings: object) -> Edit:
    return lambda c: c["network"]["existing"].update(settings)


def subnet(index: int, **settings: object) -> Edit:
    return lambda c: c["network"]["existing"]["private_subnets"][index].update(settings)


def kubernetes(**settings: object) -> Edit:
    return lambda c: c["kubernetes"].update(settings)


def eks_addons(*names: str) -> Edit:
    return lambda c: c["kubernetes"]["existing"].update(addons=list(names))


def hyperpod(**settings: object) -> Edit:
    return lambda c: c["hyperpod"].update(settings)


def ranges(first: str, *further: str) -> Edit:
    def edit(config: dict[str, Any]) -> None:
        network(vpc_cidr=first)(config)
        vpc(further_cidrs=list(further))(config)

    return edit


def group(**settings: object) -> Edit:
    return lambda c: c["instance_groups"][0].update(settings)


def small_zone(config: dict[str, Any]) -> None:
    """The group stands in a subnet that is too small, though both together are large enough."""
    subnet(1, cidr="10.1.64.0/28")(config)
    group(zone="us-west-2b")(config)


def small_subnets(config: dict[str, Any]) -> None:
    subnet(0, cidr="10.1.0.0/24")(config)
    subnet(1, cidr="10.1.64.0/24")(config)


def no_first_range(config: dict[str, Any]) -> None:
    del config["network"]["vpc_cidr"]
    vpc(further_cidrs=["10.1.0.0/16"])(config)


def made_here(config: dict[str, Any]) -> None:
    """In somebody's VPC."""
    del config["kubernetes"]["existing"], config["hyperpod"]


def no_room_for_services(config: dict[str, Any]) -> None:
    """Its ranges take both of those that EKS chooses from."""
    ranges("10.1.0.0/16", "10.100.0.0/17", "172.20.128.0/20")(config)


def small_home(config: dict[str, Any]) -> None:
    """Two small zones, and a large one after them."""
    config["zones"].append("us-west-2c")
    small_subnets(config)
    config["network"]["existing"]["private_subnets"].append(
        {"id": "subnet-0123456789abcdef2", "cidr": "10.1.128.0/18"}
    )


HYPERPOD = "arn:aws:sagemaker:{}:111122223333:cluster/0a1b2c3d4e5f"


def two_cases(config: dict[str, Any]) -> None:
    (first,) = config["instance_groups"]
    config["instance_groups"].append(first | {"name": first["name"].upper()})
    for one in config["models"]:
        one["instance_group"] = first["name"]


MISTAKES: dict[str, Row] = {
    "groups in two cases": (two_cases, "instance_groups[1].name", "group-name-case"),
    "a subnet of one address": (
        vpc(
            collector_subnets=[
                {"id": "subnet-0123456789abcdef8", "cidr": "10.1.200.0/27"},
                {"id": "subnet-0123456789abcdef9", "cidr": "10.1.201.0/32"},
            ]
        ),
        "network.existing.collector_subnets[1].cidr",
        "subnet-size",
    ),
    "a device plugin on somebody's cluster": (
        lambda c: c.update(images={"nvidia_device_plugin": "registry.example.com/plugin:1"}),
        "images.nvidia_device_plugin",
        "unread",
    ),
    "Karpenter on somebody's cluster": (
        hyperpod(autoscaling="karpenter"),
        "hyperpod.autoscaling",
        "unread",
    ),
    "EKS without its VPC": (
        lambda c: c["network"].pop("existing"),
        "kubernetes.existing",
        "eks-without-vpc",
    ),
    "HyperPod without its EKS": (
        lambda c: c.pop("kubernetes"),
        "hyperpod.existing",
        "hyperpod-without-eks",
    ),
    "a VPC by its name": (vpc(vpc_id="main"), "network.existing.vpc_id", "wrong-format"),
    "a subnet by its name": (
        subnet(0, id="private-a"),
        "network.existing.private_subnets[0].id",
        "wrong-format",
    ),
    "a HyperPod cluster by its name": (
        hyperpod(existing={"cluster_arn": "ml-cluster"}),
        "hyperpod.existing.cluster_arn",
        "wrong-format",
    ),
    "a group by its name": (
        lambda c: c["kubernetes"]["existing"].update(security_group_id="eks-cluster-sg"),
        "kubernetes.existing.security_group_id",
        "wrong-format",
    ),
    "fewer subnets than zones": (
        lambda c: c.update(zones=["us-west-2a", "us-west-2b", "us-west-2c"]),
        "network.existing.private_subnets",
        "subnets-of-zones",
    ),
    "one collector subnet": (
        vpc(collector_subnets=[{"id": "subnet-0123456789abcdef9", "cidr": "10.1.200.0/27"}]),
        "network.existing.collector_subnets",
        "subnets-of-zones",
    ),
    "a subnet outside": (
        subnet(1, cidr="10.2.64.0/18"),
        "network.existing.private_subnets[1].cidr",
        "subnet-outside",
    ),
    "a subnet outside of all ranges": (
        both(ranges("10.1.0.0/16", "10.3.0.0/16", "100.64.0.0/24"), subnet(1, cidr="10.2.64.0/18")),
        "network.existing.private_subnets[1].cidr",
        "subnet-outside",
    ),
    "a subnet across two ranges": (
        both(
            ranges("10.1.0.0/17", "10.1.128.0/17", "10.2.0.0/16"),
            subnet(0, cidr="10.1.0.0/16"),
            subnet(1, cidr="10.2.0.0/18"),
        ),
        "network.existing.private_subnets[0].cidr",
        "subnet-outside",
    ),
    "further ranges without the first": (no_first_range, "network.vpc_cidr", "first-range-missing"),
    "overlapping ranges": (
        ranges("10.1.0.0/16", "10.3.0.0/16", "10.3.64.0/20"),
        "network.existing.further_cidrs[1]",
        "overlap",
    ),
    "the first range again": (
        ranges("10.1.0.0/16", "10.1.0.0/16"),
        "network.existing.further_cidrs[0]",
        "overlap",
    ),
    "a range larger than AWS gives": (
        ranges("10.1.0.0/16", "10.4.0.0/15"),
        "network.existing.further_cidrs[0]",
        "network-size",
    ),
    "a range smaller than AWS gives": (
        ranges("10.1.0.0/16", "100.64.0.0/29"),
        "network.existing.further_cidrs[0]",
        "network-size",
    ),
    "a public range": (
        ranges("10.1.0.0/16", "8.8.0.0/16"),
        "network.existing.further_cidrs[0]",
        "not-private",
    ),
    "a range with host bits": (
        ranges("10.1.0.0/16", "10.2.0.1/16"),
        "network.existing.further_cidrs[0]",
        "host-bits",
    ),
    "more ranges than AWS's quota may be raised to": (
        ranges("10.1.0.0/16", *(f"10.2.{n}.0/24" for n in range(50))),
        "network.existing.further_cidrs",
        "too-many",
    ),
    "ranges that leave EKS no service addresses": (
        both(made_here, no_room_for_services),
        "network.existing.further_cidrs",
        "service-ranges",
    ),
    "one subnet twice": (
        subnet(1, id="subnet-0123456789abcdef0"),
        "network.existing.private_subnets[1].id",
        "duplicate",
    ),
    "overlapping subnets": (
        subnet(1, cidr="10.1.32.0/19"),
        "network.existing.private_subnets[1].cidr",
        "overlap",
    ),
    "a zone's subnet too small for its nodes": (
        small_zone,
        "network.existing.private_subnets[1].cidr",
        "",
        "11",
        "66",
    ),
    "subnets too small for all": (
        small_subnets,
        "network.existing.private_subnets",
        "",
        "502",
        "518",
    ),
    "home subnets too small, beside a large one of a later zone": (
        both(made_here, small_home),
        "network.existing.private_subnets",
        "",
        "502",
        "518",
    ),
    "NAT gateways in somebody's VPC": (network(nat="per_zone"), "network.nat", "unread"),
    "flow logs of somebody's VPC": (
        network(flow_log_retention_days=7),
        "network.flow_log_retention_days",
        "unread",
    ),
    "a public endpoint of somebody's cluster": (
        kubernetes(public_access_cidrs=["203.0.113.0/24"]),
        "kubernetes.public_access_cidrs",
        "unread",
    ),
    "an add-on under a name that is not its own": (
        eks_addons("coredns", "vpccni"),
        "kubernetes.existing.addons[1]",
        "addon-name",
    ),
    "half an add-on's name": (
        eks_addons("vpc-cni", "aws-ebs-csi"),
        "kubernetes.existing.addons[1]",
        "addon-name",
    ),
    "HyperPod's add-ons on somebody's cluster": (
        kubernetes(addons={"task_governance": True}),
        "kubernetes.addons",
        "unread",
    ),
    "a cluster of another region": (
        hyperpod(existing={"cluster_arn": HYPERPOD.format("us-east-1")}),
        "hyperpod.existing.cluster_arn",
        "cluster-elsewhere",
    ),
    "a cluster of another account": (
        lambda c: c.update(account="444455556666"),
        "hyperpod.existing.cluster_arn",
        "cluster-elsewhere",
    ),
    "settings of somebody's HyperPod cluster": (
        hyperpod(node_recovery="None"),
        "hyperpod.node_recovery",
        "unread",
    ),
    "settings of instances that are made already": (
        group(deep_health_checks=["InstanceStress"]),
        "instance_groups[0].deep_health_checks",
        "unread",
    ),
    "collector subnets without a collector": (
        lambda c: (
            c.update(observability={"enabled": False}),
            vpc(
                collector_subnets=[
                    {"id": f"subnet-0123456789abcde{n:02}", "cidr": f"10.1.200.{32 * n}/27"}
                    for n in (1, 2)
                ]
            )(c),
        ),
        "network.existing.collector_subnets",
        "unread",
    ),
}
