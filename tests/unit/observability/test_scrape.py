"""The scrape configuration: valid for the managed collector, and its rules do what they say."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade.errors import KascadeError
from kascade.observability.metrics import INVENTORY, Component
from kascade.observability.scrape import PORTS, scrape_configuration, scrape_jobs
from kascade.plan import Namespaces, ObservabilityPlan

DATA = Path(__file__).parents[2] / "data" / "metrics"
Labels = dict[str, str]


@pytest.fixture
def text(plan: ObservabilityPlan, namespaces: Namespaces) -> str:
    return scrape_configuration(plan, cluster_name="demo", namespaces=namespaces)


@pytest.fixture
def configuration(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(text)
    return parsed


@pytest.fixture
def jobs(configuration: dict[str, Any]) -> dict[str, Any]:
    return {job["job_name"]: job for job in configuration["scrape_configs"]}


def relabel(rules: list[dict[str, Any]], labels: Labels) -> Labels | None:
    """What Prometheus makes of a target or a series; None when it is dropped."""
    labels = dict(labels)
    for rule in rules:
        value = ";".join(labels.get(name, "") for name in rule.get("source_labels", []))
        match = re.fullmatch(rule.get("regex", "(.*)"), value, flags=re.DOTALL)
        action = rule.get("action", "replace")
        if (action == "keep" and not match) or (action == "drop" and match):
            return None
        if action == "replace" and match:
            template = re.sub(r"\$(\d)", r"\\g<\1>", rule.get("replacement", "$1"))
            labels[rule["target_label"]] = match.expand(template)
    return {name: value for name, value in labels.items() if value}


def test_a_prometheus_of_ones_own_gets_the_same_jobs(jobs: dict[str, Any]) -> None:
    text = scrape_jobs(cluster="demo", serving_namespace="serving", cache_namespace="cache")
    own = yaml.safe_load(text)
    assert list(own) == ["scrape_configs"]
    assert {job["job_name"]: job for job in own["scrape_configs"]} == jobs


def test_what_has_no_namespace_is_not_scraped(jobs: dict[str, Any]) -> None:
    found = [
        {job["job_name"] for job in yaml.safe_load(text)["scrape_configs"]}
        for text in (
            scrape_jobs(cluster="c", serving_namespace="llm"),
            scrape_jobs(cluster="c", cache_namespace="pool"),
        )
    ]
    assert found[0] | found[1] == set(jobs)
    assert not found[0] & found[1]
    assert Component.CURVINE_MASTER.value in found[1]


@pytest.mark.parametrize("given", [{"cluster": ""}, {"cluster": None}, {}])
def test_jobs_of_nothing_are_one_sentence(given: dict[str, Any]) -> None:
    with pytest.raises(KascadeError, match=r"^[^\n]*; (give|name) [^\n]*$"):
        scrape_jobs(**{"cluster": "c", **given})


def test_only_what_the_managed_collector_takes(configuration: dict[str, Any], text: str) -> None:
    assert set(configuration) == {"global", "scrape_configs"}
    assert len(text.encode()) < 256 * 1024
    assert configuration["global"]["scrape_interval"] == "30s"
    for job in configuration["scrape_configs"]:
        assert [sd["role"] for sd in job["kubernetes_sd_configs"]] == ["pod"]
        assert job["metrics_path"] == "/metrics"


def test_a_shorter_interval_is_refused(plan: ObservabilityPlan, namespaces: Namespaces) -> None:
    with pytest.raises(ValueError, match=r"is 15 s.*30 s or more"):
        scrape_configuration(
            replace(plan, scrape_interval_seconds=15), cluster_name="demo", namespaces=namespaces
        )


def test_every_component_has_one_job(jobs: dict[str, Any]) -> None:
    assert set(jobs) == {component.value for component in Component}
    assert {metric.component for metric in INVENTORY} == set(PORTS)


def test_jobs_look_only_where_their_pods_are(jobs: dict[str, Any]) -> None:
    homes = {
        name: job["kubernetes_sd_configs"][0]["namespaces"]["names"] for name, job in jobs.items()
    }
    assert homes == {
        "vllm": ["serving"],
        "lmcache": ["serving"],
        "router": ["serving"],
        "janitor": ["serving"],
        "curvine-master": ["cache"],
        "curvine-worker": ["cache"],
        "curvine-fuse": ["cache"],
    }


def target(port: str, **more: str) -> Labels:
    return {
        "__address__": "10.0.0.7:8000",
        "__meta_kubernetes_namespace": "serving",
        "__meta_kubernetes_pod_name": "qwen-0",
        "__meta_kubernetes_pod_node_name": "node-1",
        "__meta_kubernetes_pod_phase": "Running",
        "__meta_kubernetes_pod_container_port_name": port,
        "__meta_kubernetes_pod_label_kascade_dev_engine": "qwen",
        **more,
    }


@pytest.mark.parametrize("component", Component)
def test_a_target_is_found_by_its_port_and_labelled(
    jobs: dict[str, Any], component: Component
) -> None:
    rules = jobs[component.value]["relabel_configs"]
    labels = relabel(rules, target(PORTS[component]))
    assert labels is not None
    kept = {name: value for name, value in labels.items() if not name.startswith("__")}
    expected = {"cluster": "demo", "namespace": "serving", "pod": "qwen-0", "node": "node-1"}
    if component.serves_one_model:
        expected["model"] = "qwen"
    assert kept == expected
    assert relabel(rules, target("http")) is None
    assert relabel(rules, target(PORTS[component] + "2")) is None


def test_finished_pods_are_left_out(jobs: dict[str, Any]) -> None:
    rules = jobs["vllm"]["relabel_configs"]
    for phase in ("Failed", "Succeeded"):
        assert relabel(rules, target("m-vllm", __meta_kubernetes_pod_phase=phase)) is None


@pytest.mark.parametrize("component", [Component.CURVINE_MASTER, Component.CURVINE_WORKER])
def test_bare_names_get_the_prefix_of_their_component(
    jobs: dict[str, Any], component: Component
) -> None:
    rules = jobs[component.value]["metric_relabel_configs"]
    prefix = component.value.replace("-", "_")
    for name in (DATA / f"{component.value}-0.4.1.names").read_text().split():
        made = relabel(rules, {"__name__": name})
        own = name.startswith("client_")
        assert made == {"__name__": name if own else f"{prefix}_{name}"}
    for name in ("up", "scrape_duration_seconds", "process_open_fds", "curvine_x"):
        assert relabel(rules, {"__name__": name}) == {"__name__": name}


def test_creation_times_are_dropped_and_nothing_else_is_touched(jobs: dict[str, Any]) -> None:
    rules = jobs["vllm"]["metric_relabel_configs"]
    page = (DATA / "vllm-0.32.0.txt").read_text()
    names = set(re.findall(r"^([a-z_:0-9]+)[{ ]", page, flags=re.MULTILINE))
    left = {name for name in names if relabel(rules, {"__name__": name})}
    assert names - left == {name for name in names if name.endswith("_created")}
    assert names - left
