"""What a plan says of the serving stack's template, against the rendered charts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k8s.charts import build_charts, manifest_app
from kascade import InvalidConfigError, ServingPlan, load_config, plan_file
from kascade.aws.manifests import template_weight
from kascade.sizing.template_size import MOST_BYTES, template_bytes
from tests.unit.config.builders import base, write

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name", ["default", "fleet", "tenants", "operator", "managed", "directory"]
)
def test_the_estimate_is_a_little_above_the_rendering(
    name: str, plan: Callable[[str], ServingPlan], tmp_path: Path
) -> None:
    """Never below, so that what the plan takes is taken by a synth."""
    charts = build_charts(manifest_app(str(tmp_path)), plan(name))
    weight = template_weight({chart.node.id: chart.to_json() for chart in charts.serving})
    config = load_config(ROOT / "config" / f"{name}.yaml")
    assert weight < template_bytes(config) < 1.15 * weight


def many(models: int, tenants: int = 0) -> dict[str, Any]:
    given = base()
    given["instance_groups"][0]["count"] = 40
    given["kubernetes"] = {"system_group": {"count": 5, "max_count": 6}}
    given["models"] = [
        {"name": f"m{i}", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1} for i in range(models)
    ]
    if tenants:
        names = [f"t{i}" for i in range(tenants)]
        given["models"][0]["tenancy"] = {"kind": "isolated", "tenants": names}
    return given


def refusal(config: dict[str, Any], folder: Path) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        plan_file(write(folder, config))
    (problem,) = caught.value.problems
    assert problem.path == ("models",)
    return problem.message


def test_six_models_fit_and_seven_are_refused(tmp_path: Path) -> None:
    assert len(plan_file(write(tmp_path, many(6))).engines) == 6
    message = refusal(many(7), tmp_path)
    assert message.startswith("7 engines (one a model, and one for each isolated tenant)")
    assert f"a synth allows {MOST_BYTES:,}. The first 6 fit" in message


def test_isolated_tenants_count_as_engines(tmp_path: Path) -> None:
    message = refusal(many(1, tenants=8), tmp_path)
    assert message.startswith("8 engines")
    (fitting,) = [int(word) for word in message.split("The first ")[1].split()[:1]]
    assert len(plan_file(write(tmp_path, many(1, tenants=fitting))).engines) == fitting
    assert f"The first {fitting} fit" in refusal(many(1, tenants=fitting + 1), tmp_path)


def test_more_fit_without_a_shared_tier(tmp_path: Path) -> None:
    config = many(12) | {"cache": {"l2": {"kind": "none"}}}
    assert len(plan_file(write(tmp_path, config)).engines) == 12
