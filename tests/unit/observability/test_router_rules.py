"""The rule for a router that does not know where prefixes are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kascade.observability.router_rules import WITHOUT_PREFIX
from kascade.observability.rules import rule_groups

PROMTOOL = shutil.which("promtool")


def decisions(outcome: str, values: str, model: str = "qwen") -> dict[str, str]:
    labels = f'cluster="demo", model="{model}", pod="r", outcome="{outcome}"'
    return {
        "series": f"vllm_router_prefix_routing_decisions_total{{{labels}}}",
        "values": values,
    }


KNOWN = decisions("prefix_hit", "0+60x40")
CASES: dict[str, tuple[list[dict[str, str]], list[str]]] = {
    "all are known": ([KNOWN], []),
    "none is known": ([decisions("missing_tokens", "0+60x40")], ["qwen"]),
    "a few are not, after an engine's death": ([KNOWN, decisions("missing_tokens", "0+2x40")], []),
    "a fifth is not": ([KNOWN, decisions("missing_tokens", "0+15x40")], ["qwen"]),
    "for some minutes only": ([KNOWN, decisions("missing_tokens", "0x34 0+60x5")], []),
    "nobody asks": ([decisions("missing_tokens", "60x40")], []),
    "another model": ([KNOWN, decisions("missing_tokens", "0+60x40", "other")], ["other"]),
}


@pytest.mark.promtool
@pytest.mark.parametrize("case", CASES)
def test_it_fires_where_prefixes_are_unknown(case: str, tmp_path: Path) -> None:
    series, models = CASES[case]
    text = rule_groups(cluster_name="demo", operator_managed=False)
    (tmp_path / "rules.yaml").write_text(text)
    (rule,) = (
        rule
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if rule["alert"] == WITHOUT_PREFIX
    )
    expected = [
        {
            "exp_labels": {"cluster": "demo", "model": model, "severity": "warning"},
            "exp_annotations": {
                name: words.replace("{{ $labels.model }}", model)
                for name, words in rule["annotations"].items()
            },
        }
        for model in models
    ]
    asked = {"eval_time": "39m", "alertname": WITHOUT_PREFIX, "exp_alerts": expected}
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    assert PROMTOOL is not None, "promtool is not on PATH; it comes with Prometheus"
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
