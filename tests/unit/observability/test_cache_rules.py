"""The rules about engines whose cache does nothing for them, as Prometheus evaluates them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade.observability.cache_rules import UNOPENED, UNREGISTERED
from kascade.observability.rules import rule_groups

PROMTOOL = shutil.which("promtool")
POD = 'cluster="demo", model="qwen", pod="a"'


def cache(registered: str, *, serving: str = "1x60", gpus: int = 1) -> list[dict[str, str]]:
    return [
        {
            "series": f'kascade_cache_registered_workers{{{POD}, job="lmcache"}}',
            "values": registered,
        },
        {
            "series": f'kascade_cache_expected_workers{{{POD}, job="lmcache"}}',
            "values": f"{gpus}x60",
        },
        {"series": f'up{{{POD}, job="vllm"}}', "values": serving},
    ]


def unopened(values: str) -> list[dict[str, str]]:
    return [
        {
            "series": f'kascade_cache_unopened_blocks_total{{{POD}, job="lmcache"}}',
            "values": values,
        }
    ]


AT_40 = "40m"
CASES: dict[str, tuple[str, str, list[dict[str, str]], bool]] = {
    "registered": (UNREGISTERED, AT_40, cache("1x60"), False),
    "forgotten": (UNREGISTERED, AT_40, cache("1x20 0x40"), True),
    "one of two GPUs forgotten": (UNREGISTERED, AT_40, cache("2x20 1x40", gpus=2), True),
    "its model loads": (UNREGISTERED, AT_40, cache("0x60", serving="0x60"), False),
    "its model loads, and nothing answers": (
        UNREGISTERED,
        AT_40,
        cache("0x60", serving="_x60"),
        False,
    ),
    "its server restarts": (UNREGISTERED, AT_40, cache("1x33 0x2 1x25"), False),
    "two of one, while an engine restarts": (UNREGISTERED, AT_40, cache("2x60"), False),
    "all blocks open": (UNOPENED, "4h", unopened("0x300"), False),
    "an old key's blocks are replaced": (UNOPENED, "4h", unopened("0+10x60 600x240"), False),
    "two keys in one directory": (UNOPENED, "4h", unopened("0+10x300"), True),
}


@pytest.mark.promtool
@pytest.mark.parametrize("case", CASES)
def test_it_fires_when_it_should(case: str, tmp_path: Path) -> None:
    alert, at, series, fires = CASES[case]
    text = rule_groups(cluster_name="demo", operator_managed=False)
    (tmp_path / "rules.yaml").write_text(text)
    groups = yaml.safe_load(text)["groups"]
    (rule,) = (one for group in groups for one in group["rules"] if one["alert"] == alert)
    labels = {"cluster": "demo", "model": "qwen", "severity": "warning"}
    if alert == UNREGISTERED:
        labels |= {"pod": "a", "job": "lmcache"}
    annotations = {
        name: words.replace("{{ $labels.pod }}", "a").replace("{{ $labels.model }}", "qwen")
        for name, words in rule["annotations"].items()
    }
    expected: list[dict[str, Any]] = [{"exp_labels": labels, "exp_annotations": annotations}]
    test = {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [
            {"eval_time": at, "alertname": alert, "exp_alerts": expected if fires else []}
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    assert PROMTOOL is not None, "promtool is not on PATH; it comes with Prometheus"
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
