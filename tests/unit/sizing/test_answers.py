"""How long an answer may take, who bounds it, and what rendering costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import ServingPlan, plan_file
from kascade.sizing.answers import RENDER_BUDGET_SECONDS, RENDERS_AT_ONCE, render_seconds

FOLDER = Path(__file__).parents[3] / "config"


def planned(tmp_path: Path, **changes: Any) -> ServingPlan:
    """Plan the default configuration with other values of its router and its model."""
    config = yaml.safe_load((FOLDER / "default.yaml").read_text())
    config.setdefault("router", {}).update(changes.get("router", {}))
    config["models"][0].update(changes.get("model", {}))
    for group in config["instance_groups"]:
        group["count"] = changes.get("count", group["count"])
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return plan_file(path)


def warnings(plan: ServingPlan, word: str) -> list[str]:
    return [str(warning) for warning in plan.warnings if word in str(warning)]


def test_the_routers_limit_is_longer_than_the_longest_answer(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    (router,), (engine,) = plan.routers, plan.engines
    # 45,776 MiB x 0.92 of an L40S at half of 864 GB/s: 102 ms a token.
    step = 45_776 * 2**20 * 0.92 / (864e9 / 2)
    longest = engine.figures.longest_answer
    assert longest.value == pytest.approx(32_768 * step, abs=1)
    assert "assumed" in longest.reason
    assert router.request_timeout_seconds == 600 + longest.value
    assert engine.silence_seconds == 600


def test_it_follows_the_model(tmp_path: Path) -> None:
    short = planned(tmp_path, model={"max_model_len": 4096}).routers[0]
    assert short.request_timeout_seconds < planned(tmp_path).routers[0].request_timeout_seconds


def test_a_limit_of_ones_own_is_taken_and_what_it_cuts_is_said(tmp_path: Path) -> None:
    plan = planned(tmp_path, router={"longest_request_seconds": 900})
    assert plan.routers[0].request_timeout_seconds == 900
    (warning,) = warnings(plan, "longest_request_seconds")
    assert "900" in warning
    # What it advises is what would be taken without it.
    assert f"{planned(tmp_path).routers[0].request_timeout_seconds:,}" in warning
    wide = planned(tmp_path, router={"longest_request_seconds": 7200})
    assert warnings(wide, "longest_request_seconds") == []


def test_gateways_outwait_their_router_and_bound_pauses(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        model={"tenancy": {"kind": "salted", "tenants": ["alice"]}},
        router={"request_timeout_seconds": 120},
    )
    (gateway,), (router,) = plan.tenant_gateways, plan.routers
    assert gateway.request_timeout_seconds > router.request_timeout_seconds
    assert gateway.silence_seconds == 120


@pytest.mark.parametrize(
    ("strategy", "renders"), [("prefixaware", True), ("session", False), ("roundrobin", False)]
)
def test_engines_render_where_the_router_asks(strategy: str, renders: bool, tmp_path: Path) -> None:
    plan = planned(tmp_path, router={"strategy": strategy})
    assert plan.engines[0].renders_for_router is renders
    assert (plan.routers[0].rendering is not None) is renders


def test_the_operators_router_asks_for_nothing() -> None:
    plan = plan_file(FOLDER / "operator.yaml")
    assert not any(e.renders_for_router for e in plan.engines if e.operator is not None)


def test_what_rendering_costs_is_in_the_plan(tmp_path: Path) -> None:
    rendering = planned(tmp_path).routers[0].rendering
    assert rendering is not None
    assert rendering.value == int(1 / 0.0162)
    assert "measured" in rendering.reason


def test_more_replicas_than_can_be_asked_in_time_are_said(tmp_path: Path) -> None:
    fine = RENDERS_AT_ONCE * int(RENDER_BUDGET_SECONDS / render_seconds(32_768))
    assert warnings(planned(tmp_path, model={"replicas": fine}, count=fine), "to render") == []
    more = planned(tmp_path, model={"replicas": fine + 1}, count=fine + 1)
    (warning,) = warnings(more, "to render")
    assert f"at most {fine} replicas" in warning
    session = {"strategy": "session"}
    other = planned(tmp_path, model={"replicas": fine + 1}, count=fine + 1, router=session)
    assert warnings(other, "to render") == []
