"""The rules for engines without their cache or without tokens, and the targets they count."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade.observability.cache_rules import UNOPENED, UNREGISTERED
from kascade.observability.router_rules import WITHOUT_PREFIX
from kascade.observability.rules import WITHOUT_CACHE, WITHOUT_TOKENS, rule_groups
from kascade.observability.scrape import scrape_configuration
from kascade.plan import Namespaces, ObservabilityPlan
from tests.unit.observability.test_scrape import Labels, relabel, target

PROMTOOL = shutil.which("promtool")


@pytest.fixture
def jobs(plan: ObservabilityPlan, namespaces: Namespaces) -> dict[str, Any]:
    text = scrape_configuration(
        plan, cluster_name="demo", namespaces=namespaces, operator_managed=("qwen", "other")
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
    # Neither the proxy beside it, nor somebody else's pod, nor a name that only begins alike.
    assert relabel(rules, of_operator("proxy", "qwen")) is None
    assert relabel(rules, of_operator("http", "control_tenant")) is None
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
    names = [
        rule["alert"] for rule in rules_of(rule_groups(cluster_name="demo", operator_managed=False))
    ]
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


def fires(
    tmp_path: Path, alert: str, series: list[dict[str, str]], expected: list[dict[str, str]]
) -> None:
    """Check for which labels an alert fires after 39 minutes."""
    text = rule_groups(cluster_name="demo", operator_managed=True)
    (tmp_path / "rules.yaml").write_text(text)
    (rule,) = (
        rule
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if rule["alert"] == alert
    )

    def filled(text: str, labels: dict[str, str]) -> str:
        for name, value in labels.items():
            text = text.replace(f"{{{{ $labels.{name} }}}}", value)
        return text

    alerts = [
        {
            "exp_labels": {"cluster": "demo", "severity": "warning", **labels},
            "exp_annotations": {
                name: filled(text, labels) for name, text in rule["annotations"].items()
            },
        }
        for labels in expected
    ]
    test = {
        "interval": "1m",
        "input_series": series,
        # The last case but one of the first alert is over before its time is.
        "alert_rule_test": [{"eval_time": "39m", "alertname": alert, "exp_alerts": alerts}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    assert PROMTOOL is not None, "promtool is not on PATH; it comes with Prometheus"
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promtool
@pytest.mark.parametrize("case", CASES)
def test_it_fires_where_an_engine_has_no_cache(case: str, tmp_path: Path) -> None:
    series, models = CASES[case]
    fires(tmp_path, WITHOUT_CACHE, series, [{"model": model} for model in models])


def of_vllm(name: str, values: str, **more: str) -> dict[str, str]:
    given = {"cluster": "demo", "model": "qwen", "pod": "a", **more}
    labels = ", ".join(f'{name}="{value}"' for name, value in given.items())
    return {"series": f"vllm:{name}{{{labels}}}", "values": values}


def engine(*, running: str, waiting: str, generated: str, prompts: str) -> list[dict[str, str]]:
    return [
        of_vllm("num_requests_running", running),
        of_vllm("num_requests_waiting_by_reason", waiting, reason="capacity"),
        of_vllm("num_requests_waiting_by_reason", "0x40", reason="deferred"),
        of_vllm("generation_tokens_total", generated),
        of_vllm("prompt_tokens_total", prompts),
    ]


STOPS = "0+60x30 1800x10"
"""A counter that grows for half an hour and then no more."""

SILENT: dict[str, tuple[list[dict[str, str]], bool]] = {
    "busy": (engine(running="4x40", waiting="2x40", generated="0+60x40", prompts=STOPS), False),
    "prompts alone": (
        engine(running="4x40", waiting="0x40", generated=STOPS, prompts="0+60x40"),
        False,
    ),
    "idle": (engine(running="0x40", waiting="0x40", generated=STOPS, prompts=STOPS), False),
    "hung": (engine(running="2x40", waiting="0x40", generated=STOPS, prompts=STOPS), True),
    "nothing is scheduled": (
        engine(running="0x40", waiting="3x40", generated=STOPS, prompts=STOPS),
        True,
    ),
    "for two minutes": (
        engine(running="2x40", waiting="0x40", generated="0+60x37 2220x3", prompts=STOPS),
        False,
    ),
}


@pytest.mark.promtool
@pytest.mark.parametrize("case", SILENT)
def test_it_fires_where_requests_get_no_token(case: str, tmp_path: Path) -> None:
    series, fired = SILENT[case]
    fires(tmp_path, WITHOUT_TOKENS, series, [{"model": "qwen", "pod": "a"}] if fired else [])


def test_without_the_operator_no_rule_speaks_of_it() -> None:
    groups = yaml.safe_load(rule_groups(cluster_name="demo", operator_managed=False))["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert alerts == {UNREGISTERED, UNOPENED, WITHOUT_TOKENS, WITHOUT_PREFIX}
