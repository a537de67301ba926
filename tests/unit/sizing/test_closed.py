"""A network without a way out: its endpoints, and what it cannot reach."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, plan_file
from kascade.catalog.endpoints import CLOSED_ENDPOINTS

CONFIG = Path(__file__).parents[3] / "config" / "closed.yaml"
IMAGES = (
    "engine",
    "router",
    "jobs",
    "curvine",
    "curvine_csi",
    "csi_provisioner",
    "csi_registrar",
    "nvidia_device_plugin",
)


def problems(tmp_path: Path, config: dict[str, Any]) -> list[str]:
    path = tmp_path / "closed.yaml"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(InvalidConfigError) as caught:
        plan_file(path)
    return [str(problem) for problem in caught.value.problems]


def closed() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    return content


def test_it_has_every_endpoint_and_no_public_subnet() -> None:
    network = plan_file(CONFIG).network
    assert network.interface_endpoints == tuple(sorted(CLOSED_ENDPOINTS))
    assert network.nat_gateways == 0
    assert network.public_cidrs == ()


@pytest.mark.parametrize("role", IMAGES)
def test_each_image_has_to_be_named(tmp_path: Path, role: str) -> None:
    config = closed()
    del config["images"][role]
    (problem,) = problems(tmp_path, config)
    assert f"images.{role}: " in problem
    assert "mirror it into ECR and name it here" in problem


def test_another_regions_registry_is_outside(tmp_path: Path) -> None:
    config = closed()
    config["images"]["engine"] = "111122223333.dkr.ecr.us-east-1.amazonaws.com/vllm:1"
    (problem,) = problems(tmp_path, config)
    assert "ACCOUNT.dkr.ecr.us-west-2.amazonaws.com" in problem


def test_the_efa_plugin_has_one_registry_for_all_regions(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG.read_text().replace("us-west-2", "us-east-2"))
    (problem,) = problems(tmp_path, config)
    assert "images.efa_device_plugin: 602401143452.dkr.ecr.us-west-2" in problem


def test_a_health_agent_of_ones_own_is_held_to_it(tmp_path: Path) -> None:
    config = closed()
    config["images"]["health_agent"] = "quay.io/example/agent:1"
    (problem,) = problems(tmp_path, config)
    assert "images.health_agent: quay.io/example/agent:1 lies outside" in problem


def test_weights_cannot_come_from_the_hub(tmp_path: Path) -> None:
    config = closed()
    del config["models"][0]["weights"]
    (problem,) = problems(tmp_path, config)
    assert re.search(r"models\[0\]\.weights: .*Hugging Face.*give weights of kind s3", problem)


def test_hyperpods_add_ons_are_not_known_to_stay_inside(tmp_path: Path) -> None:
    config = closed()
    config["kubernetes"] = {"addons": {"task_governance": True}}
    (problem,) = problems(tmp_path, config)
    assert "kubernetes.addons: nothing says what HyperPod's add-ons reach" in problem


def test_the_operator_cannot_reach_acm(tmp_path: Path) -> None:
    config = closed()
    config["instance_groups"][0]["count"] = 3
    config["models"][0]["mode"] = "operator"
    config["kubernetes"] = {"system_group": {"count": 3}}
    (problem,) = problems(tmp_path, config)
    assert "models[0].mode: " in problem
    assert "ACM" in problem
