"""Mistakes about a VPC, an EKS or a HyperPod cluster that are there, and the sentence for each."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import ServingConfig, plan_file
from kascade.config.lock import check_lock, locked_values
from tests.unit.config.test_invariants import problems_of, write

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


def group(**settings: object) -> Edit:
    return lambda c: c["instance_groups"][0].update(settings)


def small_zone(config: dict[str, Any]) -> None:
    """The group stands in a subnet that is too small, though both together are large enough."""
    subnet(1, cidr="10.1.64.0/28")(config)
    group(zone="us-west-2b")(config)


def small_subnets(config: dict[str, Any]) -> None:
    subnet(0, cidr="10.1.0.0/24")(config)
    subnet(1, cidr="10.1.64.0/24")(config)


HYPERPOD = "arn:aws:sagemaker:{}:111122223333:cluster/0a1b2c3d4e5f"

MISTAKES: dict[str, tuple[Edit, str, str]] = {
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
    (problem,) = problems_of(write(tmp_path, config))
    where, _, text = problem.partition(f"{path}: ")
    assert re.fullmatch(r"(line \d+: )?", where), problem
    assert re.search(words, text), problem


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


def test_a_zone_brings_its_subnet() -> None:
    def third(config: dict[str, Any]) -> None:
        config["zones"].append("us-west-2c")
        config["network"]["existing"]["private_subnets"].append(
            {"id": "subnet-0123456789abcdef2", "cidr": "10.1.128.0/18"}
        )

    assert changed(third) == []


def test_what_is_made_here_cannot_become_somebody_elses() -> None:
    config = yaml.safe_load(CONFIG.read_text())
    for block in ("network", "kubernetes", "hyperpod"):
        del config[block]["existing"]
    lock = locked_values(ServingConfig.model_validate(config))
    now = ServingConfig.model_validate(yaml.safe_load(CONFIG.read_text()))
    found = [problem.path for problem in check_lock(now, lock, "x.lock")]
    assert found == [("network", "existing"), ("kubernetes", "existing"), ("hyperpod", "existing")]
