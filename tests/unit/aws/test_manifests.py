"""Kubernetes objects as CloudFormation resources."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kascade.aws import ManifestError
from kascade.aws.manifests import MAX_MANIFEST_BYTES, MAX_STACK_RESOURCES, check_stack_size
from tests.unit.aws.builders import (
    CHARTS,
    PLATFORM,
    Synthesis,
    make_object,
    make_plan,
    synthesize,
)

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"


def applied(synthesis: Synthesis, stack: str) -> dict[str, dict[str, Any]]:
    """Objects by logical id, as kubectl gets them."""
    objects = {}
    for name, resource in synthesis.resources(stack, MANIFEST).items():
        separator, pieces = resource["Properties"]["Manifest"]["Fn::Join"]
        (objects[name],) = json.loads(separator.join(pieces))
    return objects


def position(synthesis: Synthesis, stack: str) -> dict[str, int]:
    """Logical ids in an order that CloudFormation might take."""
    resources = synthesis.templates[stack]["Resources"]
    done: dict[str, int] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        for dependency in resources[name].get("DependsOn", []):
            visit(dependency)
        done[name] = len(done)

    for name in resources:
        visit(name)
    return done


def test_what_is_applied_equals_what_was_given(synthesis: Synthesis) -> None:
    def key(item: Mapping[str, Any]) -> str:
        return json.dumps(item, sort_keys=True)

    given = [item for chart in CHARTS.values() for item in chart]
    assert sorted(map(key, applied(synthesis, "serving").values())) == sorted(map(key, given))
    assert sorted(map(key, applied(synthesis, "cluster").values())) == sorted(map(key, PLATFORM))


def test_an_object_is_one_resource_that_may_be_repeated_and_is_not_labelled(
    synthesis: Synthesis,
) -> None:
    for resource in synthesis.resources("serving", MANIFEST).values():
        properties = resource["Properties"]
        assert properties["Overwrite"] is True
        assert "PruneLabel" not in properties
        assert properties["ServiceTimeout"] > 900


def test_a_line_of_an_embedded_file_is_a_line_of_the_template(synthesis: Synthesis) -> None:
    resources = synthesis.resources("serving", MANIFEST)
    (config,) = (r for name, r in resources.items() if "ConfigMap" in name)
    assert "b = '\\u00fc'\\n" in config["Properties"]["Manifest"]["Fn::Join"][1]


def test_ids_follow_kind_namespace_and_name(synthesis: Synthesis) -> None:
    names = synthesis.resources("serving", MANIFEST)
    assert any(name.startswith("engineaDeploymentservingenginea") for name in names)
    assert any(name.startswith("cacheNamespacecache") for name in names)


def test_waves_and_charts_come_in_order(synthesis: Synthesis) -> None:
    order = position(synthesis, "serving")
    kinds = {name: item["kind"] for name, item in applied(synthesis, "serving").items()}
    handles = synthesis.resources("serving", "AWS::CloudFormation::WaitConditionHandle")
    assert len(handles) == 3 * len(CHARTS)

    def at(chart: str, kind: str) -> int:
        (found,) = (order[n] for n, k in kinds.items() if n.startswith(chart) and k == kind)
        return found

    assert at("cache", "Namespace") < at("cache", "ConfigMap") < at("cache", "DaemonSet")
    barrier = next(order[name] for name in handles if name.startswith("cacheApplied"))
    assert at("cache", "DaemonSet") < barrier < at("enginea", "Service")
    assert at("enginea", "Service") < at("enginea", "Deployment") < at("routera", "Deployment")


def test_a_later_chart_depends_on_the_barrier_alone(synthesis: Synthesis) -> None:
    resources = synthesis.templates["serving"]["Resources"]
    for name, resource in resources.items():
        if name.startswith("routera"):
            outside = [d for d in resource.get("DependsOn", []) if not d.startswith("routera")]
            assert len(outside) == 1
            assert outside[0].startswith("engineaApplied")
            assert len(resource["DependsOn"]) <= 4


@pytest.mark.parametrize(
    ("charts", "words"),
    [
        ([make_object("Service", "a"), make_object("Service", "a")], "two objects Service-a"),
        ([{"kind": "Service", "metadata": {}}], "has no apiVersion and no metadata.name; add it"),
        (
            [make_object("ConfigMap", "big", data={"x": "y" * MAX_MANIFEST_BYTES})],
            "Split it into several objects",
        ),
    ],
)
def test_a_chart_that_cannot_be_carried_is_refused(
    charts: Sequence[Mapping[str, Any]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ManifestError, match=words):
        synthesize(tmp_path, make_plan(), {"chart": charts})


def test_a_stack_that_would_hold_too_much_is_refused() -> None:
    small = [make_object("Service", str(i)) for i in range(MAX_STACK_RESOURCES // 2)]
    check_stack_size("demo", {"a": small[:-3], "b": small[:-3]})
    with pytest.raises(ManifestError, match="486 resources from 2 charts"):
        check_stack_size("demo", {"a": small, "b": small})
    heavy = [make_object("ConfigMap", "a", data={str(i): "x" * 100 for i in range(9_000)})]
    with pytest.raises(ManifestError, match="bytes from 1 charts"):
        check_stack_size("demo", {"a": heavy})


def test_a_further_object_changes_no_other_object(synthesis: Synthesis, tmp_path: Path) -> None:
    more = {**CHARTS, "engine-a": [*CHARTS["engine-a"], make_object("ConfigMap", "new", "serving")]}
    before = synthesis.resources("serving", MANIFEST)
    after = synthesize(tmp_path, make_plan(), more).resources("serving", MANIFEST)
    assert len(after) == len(before) + 1
    assert all(after[name] == resource for name, resource in before.items())


def test_an_empty_chart_is_barriers_only(tmp_path: Path) -> None:
    synthesis = synthesize(tmp_path, make_plan(), {"empty": [], **CHARTS})
    assert not [n for n in synthesis.resources("serving", MANIFEST) if n.startswith("empty")]


def test_a_job_must_succeed_before_the_next_chart(tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "prepare", "namespace": "cache"},
        "spec": {},
    }
    server = make_object("StatefulSet", "server", "cache")
    later = make_object("ConfigMap", "later", "serving")
    synthesis = synthesize(
        tmp_path, make_plan(), charts={"cache": [job, server], "engine": [later]}
    )
    (watch,) = synthesis.resources("serving", "Custom::AWSCDK-EKS-KubernetesObjectValue").items()
    name, resource = watch
    wanted = {
        "ObjectType": "job",
        "ObjectName": "prepare",
        "ObjectNamespace": "cache",
        "JsonPath": ".status.succeeded",
        "TimeoutSeconds": 600,
    }
    assert wanted.items() <= resource["Properties"].items()
    order = position(synthesis, "serving")
    ids = {item["kind"]: key for key, item in applied(synthesis, "serving").items()}
    assert order[ids["Job"]] < order[name] < order[ids["ConfigMap"]]
    # What the Job waits for may come in the same chart.
    assert order[ids["StatefulSet"]] < order[name]
