"""Prometheus' own judgement of the scrape configuration and of the tier queries."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kascade.observability.boards import boards
from kascade.observability.scrape import scrape_configuration
from kascade.plan import Namespaces, ObservabilityPlan
from tests.unit.observability.board_lint import expressions

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.promtool

MINUTES = 10


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None, "promtool is not on PATH; it comes with Prometheus"
    done = subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_scrape_configuration(
    plan: ObservabilityPlan, namespaces: Namespaces, tmp_path: Path
) -> None:
    text = scrape_configuration(plan, cluster_name="demo", namespaces=namespaces)
    configuration = yaml.safe_load(text)
    for job in configuration["scrape_configs"]:
        del job["kubernetes_sd_configs"]  # Debian's build has no Kubernetes discovery
        job["static_configs"] = [{"targets": ["10.0.0.1:8000"]}]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    promtool("check", "config", "--syntax-only", str(file))


def query(plan: ObservabilityPlan, title: str, legend: str = "") -> str:
    """A panel's PromQL as Prometheus takes it."""
    board = json.loads(boards(plan)["kascade-kv-cache-tiers"])
    panel = next(p for p in board["panels"] if p["title"] == title)
    expression: str = next(t["expr"] for t in panel["targets"] if legend in ("", t["legendFormat"]))
    expression = expression.replace("$__rate_interval", "4m")
    return re.sub(r"\$(cluster|model)\b", ".*", expression)


def counter(name: str, per_minute: float, **labels: str) -> dict[str, str]:
    written = ", ".join(f'{k}="{v}"' for k, v in {"cluster": "c", "model": "m", **labels}.items())
    return {"series": f"{name}{{{written}}}", "values": f"0+{per_minute:g}x{MINUTES}"}


def engine(pod: str, *, l0: float, outside: float, computed: float) -> list[dict[str, str]]:
    """Prompt tokens per minute of one engine, by source."""
    by_source = {"local_cache_hit": l0, "external_kv_transfer": outside, "local_compute": computed}
    name = "vllm:prompt_tokens_by_source_total"
    return [
        *(counter(name, value, pod=pod, source=source) for source, value in by_source.items()),
        counter("vllm:prompt_tokens_total", sum(by_source.values()), pod=pod),
        counter("vllm:prompt_tokens_cached_total", l0 + outside, pod=pod),
    ]


def l2_hits(pod: str, per_minute: float) -> dict[str, str]:
    return counter("lmcache_mp_lookup_hit_l2_tokens_total", per_minute, pod=pod)


@pytest.mark.parametrize(
    ("series", "l1", "l2"),
    [
        # Recorded: L2 counted 18,176 tokens, of which L0 already held 5,888.
        ([*engine("a", l0=5888, outside=12288, computed=7924), l2_hits("a", 18176)], 0, 12288),
        # One pod's surplus of L2 hits does not eat another pod's L1 tokens.
        (
            [
                *engine("a", l0=600, outside=600, computed=0),
                l2_hits("a", 1200),
                *engine("b", l0=0, outside=600, computed=0),
                l2_hits("b", 0),
            ],
            600,
            600,
        ),
        # Without an answer from LMCache nothing is claimed for L2.
        (engine("a", l0=0, outside=600, computed=60), 600, 0),
    ],
    ids=["recorded", "per-pod", "no-lmcache"],
)
def test_the_tier_split_is_bounded_by_what_the_engine_received(
    plan: ObservabilityPlan, tmp_path: Path, series: list[dict[str, str]], l1: float, l2: float
) -> None:
    panel = "Prompt tokens by tier"
    expected = {"L1 host": l1, "L2 Curvine": l2}
    file = tmp_path / "test.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [],
                "tests": [
                    {
                        "interval": "1m",
                        "input_series": series,
                        "promql_expr_test": [
                            {
                                "expr": f"round(60 * ({query(plan, panel, legend)}), 0.01)",
                                "eval_time": f"{MINUTES}m",
                                "exp_samples": [{"labels": "{}", "value": value}],
                            }
                            for legend, value in expected.items()
                        ],
                    }
                ],
            }
        )
    )
    promtool("test", "rules", str(file))


def test_prometheus_accepts_every_query(plan: ObservabilityPlan, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "4m", text)}
        for board in boards(plan).values()
        for number, (_, text) in enumerate(expressions(json.loads(board)))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    promtool("check", "rules", str(file))
