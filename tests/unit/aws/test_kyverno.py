"""Kyverno between the chart of its namespace and the charts that hold its policies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kascade.aws.kyverno import chart_values
from kascade.plan import AdmissionPlan, ContainerSize, KyvernoPlan
from tests.unit.aws.builders import Synthesis, make_object, make_plan, synthesize
from tests.unit.aws.test_stacks import needs

RELEASE = "Custom::AWSCDK-EKS-HelmChart"
KYVERNO = KyvernoPlan(
    namespace="kyverno",
    chart_repository="https://charts.example.com/",
    chart_version="3.9.1",
    image_registry=None,
    replicas=3,
    webhook_port=9443,
    size=ContainerSize(cpu_millicores=100, memory_mib=256, memory_limit_mib=512),
)
CHARTS = {
    "cache": [make_object("DaemonSet", "worker", "cache")],
    "admission": [make_object("Namespace", "kyverno")],
    "engine-a": [make_object("MutatingPolicy", "a"), make_object("InferenceEndpointConfig", "a")],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    admission = AdmissionPlan(evaluator="kyverno", reason="", kyverno=KYVERNO)
    plan = replace(make_plan(), admission=admission)
    return synthesize(tmp_path_factory.mktemp("assembly"), plan, CHARTS)


def test_the_release_is_pinned_and_waited_for(made: Synthesis) -> None:
    release = made.only("serving", RELEASE)["Properties"]
    assert release["Chart"] == "kyverno"
    assert release["Version"] == "3.9.1"
    assert release["Repository"] == "https://charts.example.com/"
    assert release["Wait"] is True
    assert not release.get("CreateNamespace", False)
    assert release["Timeout"] == "600s"


def test_it_comes_after_its_namespace_and_before_the_policies(made: Synthesis) -> None:
    (name,) = made.resources("serving", RELEASE)
    manifests = made.resources("serving", "Custom::AWSCDK-EKS-KubernetesResource")

    def of(kind: str) -> str:
        (found,) = [
            logical
            for logical, resource in manifests.items()
            if f'"{kind}"' in "".join(resource["Properties"]["Manifest"]["Fn::Join"][1])
        ]
        return found

    assert of("Namespace") in needs(made, "serving", name)
    assert name in needs(made, "serving", of("MutatingPolicy"))
    assert of("MutatingPolicy") in needs(made, "serving", of("InferenceEndpointConfig"))


def test_without_an_operator_managed_model_there_is_none(synthesis: Synthesis) -> None:
    assert synthesis.resources("serving", RELEASE) == {}


def test_only_what_changes_pods_runs_and_on_system_nodes() -> None:
    values: Any = chart_values(KYVERNO)
    controller = values["admissionController"]
    assert controller["replicas"] == 3
    assert controller["podDisruptionBudget"] == {"enabled": True, "minAvailable": 1}
    assert controller["container"]["resources"]["limits"] == {"memory": "512Mi"}
    for other in ("background", "cleanup", "reports"):
        assert values[f"{other}Controller"] == {"enabled": False}
    assert values["features"]["policyExceptions"] == {"enabled": False}
    assert "global" not in values


def test_a_registry_of_yours_is_used() -> None:
    values = chart_values(replace(KYVERNO, image_registry="registry.example.com/mirror"))
    assert values["global"] == {"image": {"registry": "registry.example.com/mirror"}}


def test_its_values_are_in_the_template(made: Synthesis) -> None:
    release = made.only("serving", RELEASE)["Properties"]
    assert json.loads(release["Values"]) == chart_values(KYVERNO)
