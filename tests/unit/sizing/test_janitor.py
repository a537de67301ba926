"""How the janitor's marks, and the room for it, follow from a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, ServingPlan, plan_file
from kascade.catalog.instances import INSTANCES
from kascade.plan import CurvineL2Plan
from kascade.sizing.host import daemons
from kascade.units import GIB

ROOT = Path(__file__).parents[3]
Planned = Callable[..., ServingPlan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """Plan the default configuration with other settings of the janitor."""

    def plan(*, models: list[dict[str, Any]] | None = None, **janitor: object) -> ServingPlan:
        config = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
        config.setdefault("cache", {})["l2"] = {"kind": "curvine", "janitor": janitor}
        if models is not None:
            config["models"] = models
        path = tmp_path / "deployment.yaml"
        path.write_text(yaml.safe_dump(config))
        return plan_file(path)

    return plan


def test_marks_are_shares_of_what_the_replicas_may_write(planned: Planned) -> None:
    plan = planned(high_water=0.9, low_water=0.5)
    (engine,), (janitor,) = plan.engines, plan.janitors
    assert engine.lmcache.l2 is not None
    budget = engine.replicas * engine.lmcache.l2.capacity_gib * GIB
    assert janitor.budget.value == budget
    assert (janitor.high_bytes, janitor.low_bytes) == (int(budget * 0.9), int(budget * 0.5))


def test_it_knows_how_large_a_whole_file_is() -> None:
    """tests/e2e/test_janitor.py holds it to the files that LMCache writes."""
    planned = {
        janitor.engine: janitor.object_bytes
        for name in ("default", "laptop")
        for janitor in plan_file(ROOT / "config" / f"{name}.yaml").janitors
    }
    assert {name: figure.value for name, figure in planned.items()} == {
        "qwen2-7b": 57_344 * 256 + 29,
        "tiny": 4096 * 256 + 29,
    }
    assert planned["tiny"].reason == "256 tokens x 4,096 B on each GPU + 29 B of the seal"


def test_all_marks_together_fit_the_pool() -> None:
    plan = plan_file(ROOT / "config" / "fleet.yaml")
    assert plan.curvine is not None
    pool = sum(
        (worker.capacity_gib - plan.curvine.reserved_gib) * worker.nodes
        for worker in plan.curvine.workers
    )
    assert 0 < sum(janitor.high_bytes for janitor in plan.janitors) < pool * GIB


def test_engines_evict_before_the_janitor_does(planned: Planned) -> None:
    """As long as nothing else is there, the least recently used goes and not the oldest."""
    plan = planned()
    l2 = plan.engines[0].lmcache.l2
    assert isinstance(l2, CurvineL2Plan)
    own = l2.capacity_gib * l2.evict_at * plan.engines[0].replicas * GIB
    assert own < plan.janitors[0].high_bytes
    warned = planned(high_water=0.8, low_water=0.6).warnings
    (warning,) = [str(one) for one in warned if "high_water" in str(one)]
    assert warning == (
        "cache.l2.janitor.high_water: got 0.8, below 0.9 where LMCache evicts what was not used "
        "lately: the janitor comes first and deletes what is oldest, used or not"
    )


def test_turned_off_there_is_none_and_a_warning(planned: Planned) -> None:
    plan = planned(enabled=False)
    assert plan.janitors == ()
    assert any("nothing but age bounds" in str(warning) for warning in plan.warnings)
    assert "janitor" not in plan.cluster.groups[0].daemonset_pods


@pytest.mark.parametrize(("low", "high"), [(0.9, 0.9), (0.9, 0.8), (0.95, 0.9), (0.9499999, 0.95)])
def test_marks_in_the_wrong_order_are_refused(planned: Planned, low: float, high: float) -> None:
    with pytest.raises(InvalidConfigError) as error:
        planned(low_water=low, high_water=high)
    (problem,) = error.value.problems
    assert str(problem).endswith(
        f"cache.l2.janitor.low_water: got {low}, which is not 0.01 or more below high_water "
        f"({high}): the janitor deletes from the one down to the other. Set "
        f"cache.l2.janitor.low_water to {round(high - 0.1, 3)}"
    )


@pytest.mark.parametrize("name", ["ml.g6e.4xlarge", "ml.g6e.48xlarge"])
def test_a_node_has_room_for_one_beside_each_gpu(name: str) -> None:
    """A group has no more engines than GPUs, so all their janitors find room somewhere."""
    instance = INSTANCES[name]
    without = daemons(instance, curvine=True, tiered_storage=False)
    room = daemons(instance, curvine=True, tiered_storage=False, janitor=True)
    assert len(room) == len(without) + instance.gpus


def test_another_model_in_a_group_changes_no_engine(planned: Planned) -> None:
    """Room for janitors must not be counted from models: all their neighbours would restart."""
    models = [
        {"name": name, "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1} for name in ("one", "two")
    ]
    one, both = planned(models=models[:1]), planned(models=models)
    assert one.engines[0].lmcache == both.engines[0].lmcache
    assert one.engines[0].size == both.engines[0].size
    assert [janitor.name for janitor in both.janitors] == ["one-janitor", "two-janitor"]


def test_no_model_may_be_named_like_one(planned: Planned) -> None:
    with pytest.raises(InvalidConfigError, match="would collide"):
        planned(
            models=[{"name": "a-janitor", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1}],
        )


def test_the_settings_stand_in_the_schema() -> None:
    schema = json.loads((ROOT / "config" / "schema.json").read_text())
    assert schema["$defs"]["JanitorConfig"]["properties"].keys() == {
        "enabled",
        "high_water",
        "low_water",
        "fresh_seconds",
        "interval_seconds",
    }
