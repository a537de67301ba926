"""A price that nobody knows is unknown in every sum, and a price says which region it is of."""

import json
from pathlib import Path
from typing import Any

import pytest

from kascade import plan_file
from kascade.bench.measures import usd_per_million
from kascade.cli.plan_view import show_plan
from kascade.sizing.document import plan_text
from tests.unit.config.builders import base, write


def unpriced(**group: object) -> dict[str, Any]:
    given = base()
    given["instance_groups"][0] |= {"instance_type": "ml.p5e.48xlarge"} | group
    given["models"][0] |= {"tensor_parallel": 4}
    return given


def test_an_unknown_price_makes_every_sum_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_file(write(tmp_path, unpriced()))
    (engine,), (group,) = plan.engines, plan.cluster.groups
    for price in (group.usd_per_hour, engine.figures.usd_per_hour, plan.usd_per_hour):
        assert price.value is None
        assert "unknown" in price.reason
    assert "2 x ml.p5e.48xlarge at an unknown price" in plan.usd_per_hour.reason
    assert json.loads(plan_text(plan))["usd_per_hour"]["value"] is None
    (said,) = [w for w in plan.warnings if w.path == ("instance_groups", 0, "usd_per_hour")]
    assert "no public price of ml.p5e.48xlarge is known" in said.message
    show_plan(plan, source="x")
    shown = capsys.readouterr().out
    assert "unknown = 2 x ml.p5e.48xlarge at an unknown price" in shown
    assert "0.00 USD/h" not in shown


def test_a_price_of_your_own_makes_them_known(tmp_path: Path) -> None:
    plan = plan_file(write(tmp_path, unpriced(usd_per_hour=60.0)))
    assert plan.usd_per_hour.value == pytest.approx(2 * 60 + 2 * 0.2016 + 0.1, abs=0.51)
    assert plan.engines[0].figures.usd_per_hour.value == 30.0
    assert not [w for w in plan.warnings if "price" in w.message and w.path[-1] == "usd_per_hour"]


def test_a_group_of_no_instance_costs_nothing_whatever_its_price(tmp_path: Path) -> None:
    given = base()
    given["instance_groups"].append(
        {"name": "later", "instance_type": "ml.p5e.48xlarge", "count": 0}
    )
    given["models"][0]["instance_group"] = "gpu"
    plan = plan_file(write(tmp_path, given))
    assert plan.usd_per_hour.value is not None


def test_prices_of_another_region_are_called_that(tmp_path: Path) -> None:
    here = plan_file(write(tmp_path, base()))
    for price in (here.usd_per_hour, here.cluster.groups[0].usd_per_hour):
        assert "us-east-1 (that of us-west-2 is not known here)" in price.reason
    home = base() | {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}
    assert "is not known here" not in plan_file(write(tmp_path, home)).usd_per_hour.reason


def test_tokens_at_an_unknown_price_have_none() -> None:
    assert usd_per_million(None, 1000.0) is None
