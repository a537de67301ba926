"""No change that a configuration allows makes AWS throw away what cannot be made again at once."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

import app
from kascade import ServingPlan
from kascade.aws import ServingNetwork
from kascade.config.blocks import ServingConfig
from kascade.planning.planner import plan_serving
from tests.contract.replacement import lost, registry
from tools.outputs import cdk_context

ROOT = Path(__file__).parents[2]
REGION = "us-west-2"
KMS_KEY = f"arn:aws:kms:{REGION}:111122223333:key/0123-abcd"

Edit = Callable[[dict[str, Any]], object]
Templates = Mapping[str, Mapping[str, Any]]

HARMLESS = ("(AWS::CloudFormation::WaitConditionHandle)",)
"""Barriers between charts, which hold nothing."""


def base() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    return config


def plan_of(*edits: Edit) -> ServingPlan:
    config = base()
    for edit in edits:
        edit(config)
    return plan_serving(ServingConfig.model_validate(config))


def synthesize(plan: ServingPlan, folder: Path) -> Templates:
    root = cdk.App(outdir=str(folder / "cdk.out"), context=cdk_context())
    app.build(root, plan, manifests=folder / "manifests")
    root.synth()
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())
        for path in sorted((folder / "cdk.out").glob("*.template.json"))
    }


def put(*path: str, value: object) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        *blocks, field = path
        for block in blocks:
            config = config.setdefault(block, {})
        config[field] = value

    return apply


def group(**changes: object) -> Edit:
    return lambda config: config["instance_groups"][0].update(changes)


def add_group(**changes: object) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        config["models"][0]["instance_group"] = "gpu"
        more = {"name": "more", "instance_type": "ml.g6e.12xlarge", "count": 1, **changes}
        config["instance_groups"].append(more)

    return apply


def add_model(config: dict[str, Any]) -> None:
    config["instance_groups"][0]["count"] = 3
    config["models"].append({"name": "more", "model": "Qwen/Qwen2.5-7B-Instruct", "replicas": 1})


def several_types(config: dict[str, Any]) -> None:
    del config["instance_groups"][0]["instance_type"]
    config["instance_groups"][0]["instance_types"] = ["ml.g6e.4xlarge", "ml.g6e.8xlarge"]


MORE_ZONES = put("zones", value=[f"{REGION}{letter}" for letter in "abc"])
IMAGE = "registry.example/{}@sha256:" + "0" * 64

CHANGES: dict[str, list[Edit]] = {
    "a zone": [MORE_ZONES],
    "two zones": [put("zones", value=[f"{REGION}{letter}" for letter in "abcd"])],
    "a zone and a group in it": [MORE_ZONES, add_group(zone=f"{REGION}c")],
    "a group": [add_group()],
    "a group before the others": [
        add_group(),
        lambda config: config["instance_groups"].reverse(),
    ],
    "a model": [add_model],
    "more nodes": [group(count=4), put("kubernetes", "system_group", "count", value=3)],
    "no nodes left": [add_group(count=2, instance_type="ml.g6e.4xlarge"), group(count=2)],
    "another type": [group(instance_type="ml.g6e.8xlarge")],
    "several types": [several_types],
    "spot": [group(capacity={"kind": "spot"}, min_count=1)],
    "labels and taints": [group(labels={"team": "a"}, taints=[{"key": "team"}])],
    "keys of one's own": [group(volume_kms_key_arn=KMS_KEY, root_volume_kms_key_arn=KMS_KEY)],
    "scheduled updates": [put("hyperpod", "software_updates", value={"batch_count": 1})],
    "tiered percentage": [put("hyperpod", "tiered_storage_percentage", value=30)],
    "no tiered storage": [lambda config: config["hyperpod"].pop("tiered_storage_percentage")],
    "node recovery": [put("hyperpod", "node_recovery", value="None")],
    "where the NVMe is": [put("hyperpod", "nvme_mount", value="/opt/sagemaker")],
    "images": [
        put("images", role, value=IMAGE.format(role.replace("_", "-")))
        for role in ("engine", "router", "curvine", "curvine_csi", "health_agent")
    ],
    "who may enter": [
        put("kubernetes", "admin_role_arns", value=["arn:aws:iam::111122223333:role/Admin"]),
        put("kubernetes", "public_access_cidrs", value=["203.0.113.0/24"]),
    ],
    "system nodes": [
        put("kubernetes", "system_group", "max_count", value=6),
        put("kubernetes", "system_group", "root_volume_gib", value=200),
        put("kubernetes", "system_group", "release_version", value="1.35.2-20261120"),
    ],
    "chunk size": [put("cache", "chunk_size", value=512)],
    "kind of L2": [put("cache", "l2", value={"kind": "none"})],
    "log retention": [
        put("kubernetes", "log_retention_days", value=365),
        put("network", "flow_log_retention_days", value=60),
    ],
    "a NAT gateway per zone": [put("network", "nat", value="per_zone")],
    "metrics": [
        put("observability", "retention_days", value=300),
        put("observability", "scrape_interval_seconds", value=60),
    ],
    "Grafana's version": [put("observability", "grafana", value={"version": "12.4"})],
    "strategy": [put("router", "strategy", value="session")],
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """Return the templates before each change."""
    return synthesize(plan_of(), tmp_path_factory.mktemp("deployed"))


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_thrown_away(deployed: Templates, tmp_path: Path, change: str) -> None:
    after = synthesize(plan_of(*CHANGES[change]), tmp_path)
    assert after != deployed, "the change changes nothing, so this proves nothing"
    found = {
        name: reason
        for name, reason in lost(deployed, after, registry(REGION)).items()
        if not name.endswith(HARMLESS)
    }
    assert found == {}


def test_the_nodes_follow_the_control_plane(tmp_path: Path) -> None:
    """And nothing is replaced by that."""

    def versions(templates: Templates) -> list[str]:
        return [
            resource["Properties"]["Version"]
            for kind in ("AWS::EKS::Cluster", "AWS::EKS::Nodegroup")
            for resource in templates["kascade-cluster"]["Resources"].values()
            if resource["Type"] == kind
        ]

    before, after = (
        synthesize(plan_of(put("kubernetes", "version", value=version)), tmp_path / version)
        for version in ("1.34", "1.35")
    )
    assert versions(before) == ["1.34", "1.34"]
    assert versions(after) == ["1.35", "1.35"]
    assert {
        name: reason
        for name, reason in lost(before, after, registry(REGION)).items()
        if not name.endswith(HARMLESS)
    } == {}


def test_tags_are_the_stacks_own_and_change_no_template(
    deployed: Templates, tmp_path: Path
) -> None:
    """CloudFormation puts them onto the resources, in place."""
    assert synthesize(plan_of(put("tags", value={"team": "serving"})), tmp_path) == deployed


def test_a_zone_with_a_way_out_of_its_own_moves_no_other(tmp_path: Path) -> None:
    per_zone = put("network", "nat", value="per_zone")
    before = synthesize(plan_of(per_zone), tmp_path / "before")
    after = synthesize(plan_of(per_zone, MORE_ZONES), tmp_path / "after")
    assert lost(before, after, registry(REGION)) == {}


# What the test above is there for: each of these must be found.


def test_subnets_of_all_zones_would_replace_the_cluster(
    deployed: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServingNetwork, "home_subnets", ServingNetwork.private_subnets)
    found = lost(deployed, synthesize(plan_of(MORE_ZONES), tmp_path), registry(REGION))
    (hyperpod,) = (found[name] for name in found if name.endswith("(AWS::SageMaker::Cluster)"))
    assert hyperpod == "another VpcConfig"
    (system,) = (found[name] for name in found if name.endswith("(AWS::EKS::Nodegroup)"))
    assert system == "another Subnets"


def test_another_name_would_replace_the_cluster(deployed: Templates, tmp_path: Path) -> None:
    plan = plan_of()
    renamed = replace(plan, cluster=replace(plan.cluster, hyperpod_name="other"))
    found = lost(deployed, synthesize(renamed, tmp_path), registry(REGION))
    (reason,) = found.values()
    assert reason == "another ClusterName"


def test_another_eks_cluster_takes_all_on_it_along(deployed: Templates, tmp_path: Path) -> None:
    plan = plan_of()
    renamed = replace(plan, cluster=replace(plan.cluster, eks_name="other"))
    found = lost(deployed, synthesize(renamed, tmp_path), registry(REGION))
    kinds = {name.partition("(")[2].rstrip(")"): reason for name, reason in found.items()}
    assert kinds["AWS::EKS::Cluster"] == "another Name"
    assert kinds["AWS::EKS::Nodegroup"] == "its ClusterName names one that is replaced"
    assert kinds["AWS::SageMaker::Cluster"] == "its Orchestrator/Eks names one that is replaced"
    # Across stacks, through an export.
    assert kinds["AWS::APS::Scraper"] == "its Source names one that is replaced"


@pytest.mark.parametrize(
    "kind", ["AWS::SageMaker::Cluster", "AWS::IAM::Role", "AWS::KMS::Key", "AWS::S3::Bucket"]
)
def test_another_logical_id_is_another_resource(deployed: Templates, kind: str) -> None:
    after = copy.deepcopy(dict(deployed))
    cluster = after["kascade-cluster"]["Resources"]
    name = next(name for name, resource in cluster.items() if resource["Type"] == kind)
    cluster[f"{name}2"] = cluster.pop(name)
    found = lost(deployed, after, registry(REGION))
    assert found[f"kascade-cluster/{name} ({kind})"] == "gone, or of another name"


def test_a_moved_subnet_is_found(deployed: Templates) -> None:
    after = copy.deepcopy(dict(deployed))
    network = after["kascade-network"]["Resources"]
    subnet = next(network[name] for name in network if "privateSubnet1Subnet" in name)
    subnet["Properties"]["CidrBlock"] = "10.0.224.0/19"
    found = lost(deployed, after, registry(REGION))
    assert "another CidrBlock" in found.values()
    # HyperPod's nodes may live in it.
    assert any("AWS::SageMaker::Cluster" in name for name in found)
