"""Mistakes about a VPC, an EKS or a HyperPod cluster that are there, and the sentence for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import ServingConfig, ServingPlan, plan_file
from kascade.config.lock import check_lock, locked_values
from tests.unit.config.test_invariants import assert_one_sentence, both, problems_of, write

CONFIG = Path(__file__).parents[3] / "config" / "existing.yaml"
Edit = Callable[[dict[str, Any]], object]


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

MISTAKES: dict[str, tuple[Edit, str, str]] = {
    "a subnet of one address": (
        vpc(
            collector_subnets=[
                {"id": "subnet-0123456789abcdef8", "cidr": "10.1.200.0/27"},
                {"id": "subnet-0123456789abcdef9", "cidr": "10.1.201.0/32"},
            ]
        ),
        "network.existing.collector_subnets[1].cidr",
        r"10\.1\.201\.0/32 is a /32; a subnet of AWS is /16 to /28, so look its range up",
    ),
    "a device plugin on somebody's cluster": (
        lambda c: c.update(images={"nvidia_device_plugin": "registry.example.com/plugin:1"}),
        "images.nvidia_device_plugin",
        r"nothing reads it with hyperpod\.existing: the cluster brought it; leave it out",
    ),
    "Karpenter on somebody's cluster": (
        hyperpod(autoscaling="karpenter"),
        "hyperpod.autoscaling",
        r"nothing reads it with hyperpod\.existing: the cluster keeps its own settings",
    ),
    "EKS without its VPC": (
        lambda c: c["network"].pop("existing"),
        "kubernetes.existing",
        r"stands in a VPC that is there; name it and its subnets in network\.existing",
    ),
    "HyperPod without its EKS": (
        lambda c: c.pop("kubernetes"),
        "hyperpod.existing",
        r"stands on an EKS cluster that is there; name it in kubernetes\.existing",
    ),
    "a VPC by its name": (vpc(vpc_id="main"), "network.existing.vpc_id", r"'main' is not the id"),
    "a subnet by its name": (
        subnet(0, id="private-a"),
        "network.existing.private_subnets[0].id",
        r"'private-a' is not the id of a subnet",
    ),
    "a HyperPod cluster by its name": (
        hyperpod(existing={"cluster_arn": "ml-cluster"}),
        "hyperpod.existing.cluster_arn",
        r"'ml-cluster' is not the ARN of a HyperPod cluster",
    ),
    "a group by its name": (
        lambda c: c["kubernetes"]["existing"].update(security_group_id="eks-cluster-sg"),
        "kubernetes.existing.security_group_id",
        r"'eks-cluster-sg' is not the id of a security group",
    ),
    "fewer subnets than zones": (
        lambda c: c.update(zones=["us-west-2a", "us-west-2b", "us-west-2c"]),
        "network.existing.private_subnets",
        r"there are 2 for 3 zones .*; give one for each, in their order",
    ),
    "one collector subnet": (
        vpc(collector_subnets=[{"id": "subnet-0123456789abcdef9", "cidr": "10.1.200.0/27"}]),
        "network.existing.collector_subnets",
        r"there are 1 for 2 zones",
    ),
    "a subnet outside": (
        subnet(1, cidr="10.2.64.0/18"),
        "network.existing.private_subnets[1].cidr",
        r"10\.2\.64\.0/18 is not in 10\.1\.0\.0/16; give in network\.vpc_cidr the range",
    ),
    "a subnet outside of all ranges": (
        both(
            ranges("10.1.0.0/16", "10.3.0.0/16", "100.64.0.0/24"),
            subnet(1, cidr="10.2.64.0/18"),
        ),
        "network.existing.private_subnets[1].cidr",
        r"10\.2\.64\.0/18 is not in .* or 100\.64\.0\.0/24; .* network\.existing\.further_cidrs",
    ),
    "a subnet across two ranges": (
        both(
            ranges("10.1.0.0/17", "10.1.128.0/17", "10.2.0.0/16"),
            subnet(0, cidr="10.1.0.0/16"),
            subnet(1, cidr="10.2.0.0/18"),
        ),
        "network.existing.private_subnets[0].cidr",
        r"10\.1\.0\.0/16 is not in 10\.1\.0\.0/17 or 10\.1\.128\.0/17 or 10\.2\.0\.0/16",
    ),
    "further ranges without the first": (
        no_first_range,
        "network.vpc_cidr",
        r"there is none beside network\.existing\.further_cidrs, and 10\.0\.0\.0/16 would be taken",
    ),
    "overlapping ranges": (
        ranges("10.1.0.0/16", "10.3.0.0/16", "10.3.64.0/20"),
        "network.existing.further_cidrs[1]",
        r"10\.3\.64\.0/20 overlaps 10\.3\.0\.0/16, and ranges of a VPC never do; look both up",
    ),
    "the first range again": (
        ranges("10.1.0.0/16", "10.1.0.0/16"),
        "network.existing.further_cidrs[0]",
        r"10\.1\.0\.0/16 overlaps 10\.1\.0\.0/16, .* give each once",
    ),
    "a range larger than AWS gives": (
        ranges("10.1.0.0/16", "10.4.0.0/15"),
        "network.existing.further_cidrs[0]",
        r"'10\.4\.0\.0/15' is a /15; a range of a VPC takes /16 to /28",
    ),
    "a range smaller than AWS gives": (
        ranges("10.1.0.0/16", "100.64.0.0/29"),
        "network.existing.further_cidrs[0]",
        r"'100\.64\.0\.0/29' is a /29; a range of a VPC takes /16 to /28",
    ),
    "a public range": (
        ranges("10.1.0.0/16", "8.8.0.0/16"),
        "network.existing.further_cidrs[0]",
        r"'8\.8\.0\.0/16' is not in the private ranges",
    ),
    "a range with host bits": (
        ranges("10.1.0.0/16", "10.2.0.1/16"),
        "network.existing.further_cidrs[0]",
        r"'10\.2\.0\.1/16' is the network 10\.2\.0\.0/16; write it so",
    ),
    "more ranges than AWS's quota may be raised to": (
        ranges("10.1.0.0/16", *(f"10.2.{n}.0/24" for n in range(50))),
        "network.existing.further_cidrs",
        r"at most 49 are allowed",
    ),
    "ranges that leave EKS no service addresses": (
        both(made_here, no_room_for_services),
        "network.existing.further_cidrs",
        r"overlap both 10\.100\.0\.0/16 and 172\.20\.0\.0/16, and EKS takes .* from one of these",
    ),
    "one subnet twice": (
        subnet(1, id="subnet-0123456789abcdef0"),
        "network.existing.private_subnets[1].id",
        r"subnet-0123456789abcdef0 stands twice",
    ),
    "overlapping subnets": (
        subnet(1, cidr="10.1.32.0/19"),
        "network.existing.private_subnets[1].cidr",
        r"10\.1\.32\.0/19 overlaps 10\.1\.0\.0/18 of subnet-0123456789abcdef0",
    ),
    "a zone's subnet too small for its nodes": (
        small_zone,
        "network.existing.private_subnets[1].cidr",
        r"10\.1\.64\.0/28 of us-west-2b holds 11 addresses, but .* may take 66; use larger subnets",
    ),
    "subnets too small for all": (
        small_subnets,
        "network.existing.private_subnets",
        r"10\.1\.0\.0/24, 10\.1\.64\.0/24 hold 502 addresses, but .* may take 518",
    ),
    "home subnets too small, beside a large one of a later zone": (
        both(made_here, small_home),
        "network.existing.private_subnets",
        r"home zones us-west-2a and us-west-2b hold 502 addresses, but all nodes there .* take 518",
    ),
    "NAT gateways in somebody's VPC": (
        network(nat="per_zone"),
        "network.nat",
        r"nothing reads it with network\.existing: the VPC has its own ways out",
    ),
    "flow logs of somebody's VPC": (
        network(flow_log_retention_days=7),
        "network.flow_log_retention_days",
        r"nothing reads it with network\.existing",
    ),
    "a public endpoint of somebody's cluster": (
        kubernetes(public_access_cidrs=["203.0.113.0/24"]),
        "kubernetes.public_access_cidrs",
        r"nothing reads it with kubernetes\.existing: who reaches it is its owner's choice",
    ),
    "an add-on under a name that is not its own": (
        eks_addons("coredns", "vpccni"),
        "kubernetes.existing.addons[1]",
        r"got vpccni, which nothing here asks for and which is near vpc-cni; write vpc-cni, or",
    ),
    "half an add-on's name": (
        eks_addons("vpc-cni", "aws-ebs-csi"),
        "kubernetes.existing.addons[1]",
        r"near aws-ebs-csi-driver; write aws-ebs-csi-driver",
    ),
    "HyperPod's add-ons on somebody's cluster": (
        kubernetes(addons={"task_governance": True}),
        "kubernetes.addons",
        r"nothing reads it with kubernetes\.existing",
    ),
    "a cluster of another region": (
        hyperpod(existing={"cluster_arn": HYPERPOD.format("us-east-1")}),
        "hyperpod.existing.cluster_arn",
        r"the cluster is in region us-east-1 and the deployment in us-west-2; make them one",
    ),
    "a cluster of another account": (
        lambda c: c.update(account="444455556666"),
        "hyperpod.existing.cluster_arn",
        r"the cluster is in account 111122223333 and the deployment in 444455556666",
    ),
    "settings of somebody's HyperPod cluster": (
        hyperpod(node_recovery="None"),
        "hyperpod.node_recovery",
        r"nothing reads it with hyperpod\.existing: the cluster keeps its own settings",
    ),
    "settings of instances that are made already": (
        group(deep_health_checks=["InstanceStress"]),
        "instance_groups[0].deep_health_checks",
        r"nothing reads it with hyperpod\.existing: its instances are made already; leave it out",
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
        r"nothing reads them while observability\.enabled is false",
    ),
}


@pytest.mark.parametrize(("edit", "path", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_one_mistake_is_one_sentence(edit: Edit, path: str, words: str, tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    edit(config)
    assert_one_sentence(write(tmp_path, config), path, words)


def test_what_is_there_is_named_and_not_made() -> None:
    plan = plan_file(CONFIG)
    assert not plan.cluster.makes_hyperpod
    assert plan.cluster.eks_name == "platform"
    assert plan.cluster.addons == ()
    assert plan.network.collector_cidrs == plan.network.private_cidrs
    assert not any("admin_role_arns" in str(warning) for warning in plan.warnings)


def test_other_add_ons_may_be_listed(tmp_path: Path) -> None:
    """Those of AWS whose names are near one that is asked for, too."""
    config = yaml.safe_load(CONFIG.read_text())
    names = ["vpc-cni", "aws-efs-csi-driver", "aws-fsx-csi-driver", "eks-node-monitoring-agent"]
    eks_addons(*names)(config)
    found = [addon.name for addon in plan_file(write(tmp_path, config)).cluster.addons]
    assert found == ["eks-pod-identity-agent", "aws-ebs-csi-driver"]


RANGES = ["10.3.0.0/16", "100.64.0.0/24", "10.100.0.0/16", "192.168.0.0/28"]


def planned(tmp_path: Path, edit: Edit) -> ServingPlan:
    config = yaml.safe_load(CONFIG.read_text())
    edit(config)
    return plan_file(write(tmp_path, config))


def test_a_range_may_hold_no_subnet_and_one_service_range_be_taken(tmp_path: Path) -> None:
    plan = planned(tmp_path, ranges("10.1.0.0/16", *RANGES))
    assert plan.network.vpc_cidrs == ("10.1.0.0/16", *RANGES)
    assert not any("further_cidrs" in str(warning) for warning in plan.warnings)


def test_more_ranges_than_usual_are_a_warning(tmp_path: Path) -> None:
    plan = planned(tmp_path, ranges("10.1.0.0/16", *RANGES, "10.4.0.0/28"))
    (warning,) = [str(one) for one in plan.warnings if "further_cidrs" in str(one)]
    assert "there are 6 ranges, and AWS allows a VPC 5 unless its quota was raised" in warning


def test_services_of_a_cluster_that_is_there_are_its_owners(tmp_path: Path) -> None:
    assert planned(tmp_path, no_room_for_services).network.vpc_cidrs[0] == "10.1.0.0/16"


def test_nodes_that_are_there_may_stand_in_any_zone(tmp_path: Path) -> None:
    assert planned(tmp_path, small_home).network.home_zones == ("us-west-2a", "us-west-2b")


def test_a_region_without_an_agent_of_aws_is_right_where_the_cluster_has_one(
    tmp_path: Path,
) -> None:
    text = CONFIG.read_text().replace("us-west-2", "ap-northeast-2")
    plan = plan_file(write(tmp_path, text))
    assert not plan.platform.agents


def test_a_closed_network_wants_no_images_that_are_not_deployed(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["network"]["nat"] = "none"
    wanted = [line for line in problems_of(write(tmp_path, config)) if "images." in line]
    assert wanted
    assert not [line for line in wanted if "device_plugin" in line or "health_agent" in line]


def test_groups_keep_the_names_that_they_have(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    name = "GPU-Workers-of-the-Platform-Team-in-us-west-2"
    config["instance_groups"][0]["name"] = name
    for one in config["models"]:
        if "instance_group" in one:
            one["instance_group"] = name
    plan = plan_file(write(tmp_path, config))
    assert [group.name for group in plan.cluster.groups] == [name]


def two_cases(config: dict[str, Any]) -> None:
    (first,) = config["instance_groups"]
    config["instance_groups"].append(first | {"name": first["name"].upper()})
    for one in config["models"]:
        one["instance_group"] = first["name"]


def test_names_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text())
    two_cases(config)
    (problem,) = problems_of(write(tmp_path, config))
    assert "instance_groups[1].name" in problem
    assert "differ in case alone" in problem


def changed(edit: Edit) -> list[str]:
    """What the lock of the configuration says of an edit of it."""
    config = yaml.safe_load(CONFIG.read_text())
    lock = locked_values(ServingConfig.model_validate(config))
    edit(config)
    now = ServingConfig.model_validate(config)
    return [".".join(map(str, problem.path)) for problem in check_lock(now, lock, "x.lock")]


@pytest.mark.parametrize(
    ("edit", "paths"),
    [
        (vpc(vpc_id="vpc-0123456789abcdeff"), ["network.existing"]),
        (subnet(0, id="subnet-0123456789abcdeff"), ["network.existing"]),
        (lambda c: c["kubernetes"]["existing"].update(name="other"), ["kubernetes.existing"]),
        (lambda c: c["hyperpod"].pop("existing"), ["hyperpod.existing"]),
    ],
)
def test_what_a_deployment_stands_on_is_fixed(edit: Edit, paths: list[str]) -> None:
    assert changed(edit) == paths


def test_the_version_of_somebodys_cluster_is_theirs() -> None:
    assert changed(lambda c: c["kubernetes"].update(version="1.31")) == []


def test_a_zone_brings_its_subnet_and_range() -> None:
    def third(config: dict[str, Any]) -> None:
        config["zones"].append("us-west-2c")
        config["network"]["existing"]["private_subnets"].append(
            {"id": "subnet-0123456789abcdef2", "cidr": "10.3.0.0/16"}
        )
        vpc(further_cidrs=["10.3.0.0/16"])(config)

    assert changed(third) == []


def test_what_is_made_here_cannot_become_somebody_elses() -> None:
    config = yaml.safe_load(CONFIG.read_text())
    for block in ("network", "kubernetes", "hyperpod"):
        del config[block]["existing"]
    lock = locked_values(ServingConfig.model_validate(config))
    now = ServingConfig.model_validate(yaml.safe_load(CONFIG.read_text()))
    found = [problem.path for problem in check_lock(now, lock, "x.lock")]
    assert found == [("network", "existing"), ("kubernetes", "existing"), ("hyperpod", "existing")]
