"""Errors about an existing VPC, EKS or HyperPod cluster, and the sentence for each."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import ServingConfig, ServingPlan, plan_file
from kascade.config.lock import check_lock, locked_values
from tests.unit.config.builders import Edit, problems_of, write
from tests.unit.rules.rows.existing import (
    eks_addons,
    no_room_for_services,
    ranges,
    small_home,
    subnet,
    vpc,
)

CONFIG = Path(__file__).parents[3] / "config" / "existing.yaml"


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
