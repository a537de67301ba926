"""Reading rendered charts the way the API server would: as plain objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import cdk8s
import yaml

from k8s.charts import build_charts
from kascade.plan import ServingPlan

Object = dict[str, Any]

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


def render(plan: ServingPlan) -> dict[str, list[Object]]:
    """Every chart's objects by the chart's id."""
    app = cdk8s.Testing.app()
    charts = build_charts(app, plan)
    return {chart.node.id: chart.to_json() for chart in charts.in_order}


def everything(charts: Mapping[str, list[Object]]) -> list[Object]:
    return [item for objects in charts.values() for item in objects]


def find(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [
        item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name
    ]
    return found


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [item for item in objects if item["kind"] in kinds]


def pod_template(workload: Object) -> Object:
    spec = workload["spec"]
    found: Object = spec.get("jobTemplate", {}).get("spec", spec)["template"]
    return found


def pod(workload: Object) -> Object:
    spec: Object = pod_template(workload)["spec"]
    return spec


def pod_labels(workload: Object) -> dict[str, str]:
    labels: dict[str, str] = pod_template(workload)["metadata"]["labels"]
    return labels


def containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def container(spec: Object, name: str) -> Object:
    (found,) = [item for item in containers(spec) if item["name"] == name]
    return found


def ports(workload: Object) -> set[int]:
    return {
        port["containerPort"]
        for item in containers(pod(workload))
        for port in item.get("ports", [])
    }


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def flags(arguments: list[str]) -> dict[str, str]:
    """Arguments of the form --name=value."""
    pairs = (argument.partition("=") for argument in arguments if argument.startswith("--"))
    return {name: value for name, _, value in pairs}


def parsed(arguments: list[str], name: str) -> Object:
    value: Object = json.loads(flags(arguments)[name])
    return value


def texts(value: object) -> Iterator[str]:
    """Every string in an object, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(key)
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def documents(text: str) -> list[Object]:
    return list(yaml.safe_load_all(text))
