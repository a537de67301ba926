"""The rule for engines that run without their cache, and the targets that it counts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade.observability.router_rules import WITHOUT_PREFIX
from kascade.observability.rules import WITHOUT_CACHE, rule_groups
from kascade.observability.scrape import scrape_configuration
from kascade.sizing.plan import Namespaces, ObservabilityPlan
from tests.unit.observability.test_scrape import Labels, relabel, target

PROMTOOL = shutil.which("promtool")


@pytest.fixture
def jobs(plan: ObservabilityPlan, namespaces: Namespaces) -> dict[str, Any]:
    text = scrape_configuration(
        plan, cluster_name="demo", namespaces=namespaces, operated=("qwen", "other")
    )
    return {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}


def of_operator(port: str, app: str, **more: str) -> Labels:
    labels = target(port, __meta_kubernetes_pod_label_app=app, **more)
    del labels["__meta_kubernetes_pod_label_kascade_dev_engine"]
    return labels


def test_a_pod_that_admission_did_not_reach_is_found_by_the_operators_labels(
    jobs: dict[str, Any],
) -> None:
    rules = jobs["vllm"]["relabel_configs"]
    found = relabel(rules, of_operator("http", "qwen"))
    assert found is not None
    assert found["model"] == "qwen"
    # Neither the proxy beside it, nor a stranger's pod, nor a name that only begins alike.
    assert relabel(rules, of_operator("proxy", "qwen")) is None
    assert relabel(rules, of_operator("http", "stranger")) is None
    assert relabel(rules, of_operator("http", "qwen-2")) is None
    assert relabel(jobs["lmcache"]["relabel_configs"], of_operator("http", "qwen")) is None


def test_our_own_pods_are_found_as_ever(jobs: dict[str, Any]) -> None:
    for job, port in (("vllm", "m-vllm"), ("lmcache", "m-lmcache"), ("router", "m-router")):
        found = relabel(jobs[job]["relabel_configs"], target(port))
        assert found is not None
        assert found["model"] == "qwen"


def test_without_the_operator_nothing_is_different(
    plan: ObservabilityPlan, namespaces: Namespaces
) -> None:
    text = scrape_configuration(plan, cluster_name="demo", namespaces=namespaces)
    assert "label_app" not in text


def rules_of(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_the_operators_rule_is_for_its_own_engines() -> None:
    names = [rule["alert"] for rule in rules_of(rule_groups(cluster_name="demo", operated=False))]
    assert WITHOUT_CACHE not in names
    assert WITHOUT_PREFIX in names


def up(job: str, pod: str, values: str, model: str = "qwen") -> dict[str, str]:
    labels = f'cluster="demo", job="{job}", model="{model}", pod="{pod}"'
    return {"series": f"up{{{labels}}}", "values": values}


HEALTHY = [up("vllm", "a", "1x40"), up("lmcache", "a", "1x40")]
CASES: dict[str, tuple[list[dict[str, str]], list[str]]] = {
    "all have one": (HEALTHY, []),
    "a second pod has none": ([*HEALTHY, up("vllm", "b", "1x40")], ["qwen"]),
    "no pod has one": ([up("vllm", "a", "1x40")], ["qwen"]),
    "the pod without one does not answer either": ([up("vllm", "a", "0x40")], ["qwen"]),
    "a server that is down is another matter": (
        [up("vllm", "a", "1x40"), up("lmcache", "a", "0x40")],
        [],
    ),
    "for a few minutes, while a pod is replaced": (
        [*HEALTHY, up("vllm", "b", "1x40"), up("lmcache", "b", "_x35 1x5")],
        [],
    ),
    "another model": (
        [*HEALTHY, up("vllm", "c", "1x40", "other"), up("vllm", "d", "1x40", "other")],
        ["other"],
    ),
}


@pytest.mark.promtool
@pytest.mark.parametrize("case", CASES)
def test_it_fires_where_an_engine_has_no_cache(case: str, tmp_path: Path) -> None:
    series, models = CASES[case]
    text = rule_groups(cluster_name="demo", operated=True)
    (tmp_path / "rules.yaml").write_text(text)
    (rule,) = (r for r in rules_of(text) if r["alert"] == WITHOUT_CACHE)
    # The last case but one is over before the alert's time is.
    at = "39m"
    expected = [
        {
            "exp_labels": {"cluster": "demo", "model": model, "severity": "warning"},
            "exp_annotations": {
                name: text.replace("{{ $labels.model }}", model)
                for name, text in rule["annotations"].items()
            },
        }
        for model in models
    ]
    test = {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [{"eval_time": at, "alertname": WITHOUT_CACHE, "exp_alerts": expected}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    assert PROMTOOL is not None, "promtool is not on PATH; it comes with Prometheus"
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
