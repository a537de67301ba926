"""Tiers that cannot help each other are warned of, and so is a pool over several zones."""

from pathlib import Path
from typing import Any

import pytest

from kascade import ServingPlan, plan_file
from kascade.cli.plan_view import show_plan
from tests.unit.config.builders import base, write


def plan_of(folder: Path, **changes: Any) -> ServingPlan:
    return plan_file(write(folder, base() | changes))


def said(plan: ServingPlan, *path: str) -> list[str]:
    return [w.message for w in plan.warnings if w.path == path]


L1 = ("cache", "l1", "capacity_gib")
NO_L2 = {"kind": "none"}


def test_a_good_configuration_has_no_such_warning(tmp_path: Path) -> None:
    assert said(plan_of(tmp_path), *L1) == []


def test_an_l1_smaller_than_the_longest_request(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, cache={"l1": {"capacity_gib": 1}})
    (message,) = said(plan, *L1)
    # 1 GiB / 56 KiB in chunks of 256, against the model's 32,768.
    assert "L1 of qwen holds 18,688 tokens, fewer than its longest request of 32,768" in message
    assert "Set cache.l1.capacity_gib to 3, or set models[0].max_model_len to 18688" in message


def test_tiers_below_l0(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, cache={"l1": {"capacity_gib": 4}, "l2": NO_L2})
    (message,) = said(plan, *L1)
    l0 = int(plan.engines[0].figures.l0_tokens.value)
    assert f"holds 74,752 tokens a replica, together less than the {l0:,} of L0" in message
    # L2 makes up for it.
    assert said(plan_of(tmp_path, cache={"l1": {"capacity_gib": 4}}), *L1) == []


def test_an_l1_that_evicts_slowly(tmp_path: Path) -> None:
    big = {
        "instance_groups": [{"name": "gpu", "instance_type": "ml.p5.48xlarge", "count": 2}],
        "models": [
            {"name": "v3", "model": "Qwen/Qwen2.5-72B-Instruct", "tensor_parallel": 8}
            | {"replicas": 2}
        ],
    }
    plan = plan_of(tmp_path, **big)
    assert plan.engines[0].lmcache.l1_gib >= 900
    (message,) = said(plan, *L1)
    assert "LMCache#418" in message
    assert "Set cache.l1.capacity_gib to 800" in message
    assert said(plan_of(tmp_path, **big, cache={"l1": {"capacity_gib": 800}}), *L1) == []


def test_a_hit_in_another_zone_costs_more_than_it_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(tmp_path)
    cost = plan.engines[0].figures.cross_zone_hits
    assert cost is not None
    # 2,048 tokens x 57,344 bytes = 0.117 GB, at 0.02 USD/GB.
    assert cost.value == pytest.approx(1000 * 0.117441 * 0.02, abs=0.01)
    (message,) = said(plan, "instance_groups")
    assert "cost 2.35 USD" in message
    assert "16.3 times the 0.14 USD of GPU time" in message
    assert "Set instance_groups[0].zone to us-west-2a" in message
    show_plan(plan, source="x")
    assert "2.35 USD/1,000 hits" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes",
    [
        {"instance_groups": [base()["instance_groups"][0] | {"zone": "us-west-2a"}]},
        {"cache": {"l2": NO_L2}},
    ],
    ids=["one zone", "no L2"],
)
def test_no_hit_crosses_where_all_is_in_one_zone(tmp_path: Path, changes: dict[str, Any]) -> None:
    plan = plan_of(tmp_path, **changes)
    assert plan.engines[0].figures.cross_zone_hits is None
    assert said(plan, "instance_groups") == []


def test_a_latent_cache_is_stored_once(tmp_path: Path) -> None:
    """DeepSeek-V3 on eight GPUs: 61 layers of 576 values of 2 bytes a token."""
    plan, in_clear = (
        plan_of(
            tmp_path,
            cache={"l2": {"kind": "curvine", "encryption": encryption}},
            instance_groups=[{"name": "gpu", "instance_type": "ml.p5en.48xlarge", "count": 1}],
            models=[
                {
                    "name": "v3",
                    "model": "deepseek-ai/DeepSeek-V3",
                    "tensor_parallel": 8,
                    "replicas": 1,
                }
            ],
        )
        for encryption in ("aesgcm", "none")
    )
    # With eight times the bytes it never paid; now it does, where nothing has to be opened.
    assert in_clear.engines[0].figures.break_even_tokens is not None
    (engine,) = plan.engines
    assert engine.figures.stored_per_token.value == 70_272
    assert "once, by the first of 8 GPUs" in engine.figures.stored_per_token.reason
    l1 = engine.figures.l1_size.value
    assert engine.figures.l1_tokens.value == pytest.approx(l1 / 70_272, rel=0.02)
