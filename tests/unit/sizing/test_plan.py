"""The plan of the shipped configurations, as a reviewer meets it."""

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from kascade import ServingPlan, load_config, plan_file, plan_serving
from kascade.catalog.instances import INSTANCES
from kascade.sizing.document import plan_document, plan_text
from kascade.units import MIB

ROOT = Path(__file__).parents[3]
CONFIGS = ["default", "fleet", "reference", "tenants"]


@pytest.fixture(params=CONFIGS)
def plan(request: pytest.FixtureRequest) -> ServingPlan:
    return plan_file(ROOT / "config" / f"{request.param}.yaml")


@pytest.mark.snapshot
@pytest.mark.parametrize("name", ["default", "fleet"])
def test_the_plan_is_the_reviewed_one(name: str, snapshot: SnapshotAssertion) -> None:
    plan = plan_file(ROOT / "config" / f"{name}.yaml")
    assert plan_document(plan) == snapshot(extension_class=JSONSnapshotExtension)


def test_every_figure_has_a_reason(plan: ServingPlan) -> None:
    def figures(value: object) -> list[dict[str, object]]:
        if isinstance(value, dict):
            here = [value] if {"value", "unit", "reason"} == set(value) else []
            return here + [f for item in value.values() for f in figures(item)]
        if isinstance(value, list):
            return [f for item in value for f in figures(item)]
        return []

    found = figures(json.loads(plan_text(plan)))
    assert len(found) > 12
    assert all(figure["reason"] and figure["unit"] for figure in found)


def test_pods_fit_their_nodes(plan: ServingPlan) -> None:
    for engine in plan.engines:
        (group,) = [g for g in plan.cluster.groups if g.name == engine.group]
        pod = engine.size.limit_mib + engine.lmcache.size.limit_mib
        tiered = plan.cluster.tiered_storage_percentage or 0
        on_node = pod * (group.gpus // engine.gpus)
        assert on_node < group.allocatable_ram.value * (1 - tiered / 100)


def test_no_two_models_share_a_directory(plan: ServingPlan) -> None:
    assert plan.curvine is not None
    paths = [volume.curvine_path for volume in plan.curvine.volumes]
    assert len(set(paths)) == len(paths)
    assert not any(a != b and a.startswith(f"{b}/") for a in paths for b in paths)


def test_engines_together_fit_the_pool(plan: ServingPlan) -> None:
    assert plan.curvine is not None
    pool = sum(
        (worker.capacity_gib - plan.curvine.reserved_gib) * worker.nodes
        for worker in plan.curvine.workers
    )
    wanted = sum(
        engine.replicas * engine.lmcache.l2.capacity_gib
        for engine in plan.engines
        if engine.lmcache.l2
    )
    assert 0 < wanted <= pool


def test_full_gpus_roll_out_without_surge(plan: ServingPlan) -> None:
    for engine in plan.engines:
        assert (engine.max_surge, engine.max_unavailable) == (0, 1)


def test_a_free_gpu_is_used_to_surge(tmp_path: Path) -> None:
    text = (ROOT / "config" / "default.yaml").read_text()
    path = tmp_path / "roomy.yaml"
    path.write_text(text.replace("count: 2", "count: 3"))
    (engine,) = plan_file(path).engines
    assert (engine.max_surge, engine.max_unavailable) == (1, 0)


def test_tiers_grow_downward(plan: ServingPlan) -> None:
    for engine in plan.engines:
        rows = {row.tier: row.tokens for row in plan.tiers if row.model == engine.name}
        assert rows["L0"] < rows["L1"] < rows["L2"]


def test_without_l2_there_is_no_curvine(tmp_path: Path) -> None:
    text = (ROOT / "config" / "default.yaml").read_text()
    path = tmp_path / "none.yaml"
    path.write_text(text + "cache:\n  l2: {kind: none}\n")
    plan = plan_file(path)
    assert plan.curvine is None
    assert [row.tier for row in plan.tiers] == ["L0", "L1"]
    assert plan.engines[0].lmcache.l2 is None


def test_the_file_and_the_object_give_one_plan() -> None:
    path = ROOT / "config" / "fleet.yaml"
    assert plan_text(plan_serving(load_config(path))) == plan_text(plan_file(path))


def test_each_cache_server_of_a_node_takes_memory_of_its_own_engines_gpu(tmp_path: Path) -> None:
    """Four engines of one GPU: with all four contexts on the first, 2.4 GiB, it would not start."""
    text = (ROOT / "config" / "default.yaml").read_text()
    file = tmp_path / "four.yaml"
    file.write_text(
        text.replace("ml.g6e.4xlarge", "ml.g6.12xlarge").replace("replicas: 2", "replicas: 8")
    )
    plan = plan_file(file)
    (engine,) = plan.engines
    assert engine.gpus == 1
    kind = INSTANCES["ml.g6.12xlarge"]
    left = kind.gpu.memory_mib * MIB * (1 - engine.gpu_memory_utilization)
    context = engine.figures.cache_context
    assert context.value <= left < 4 * context.value
    assert "the 4 servers of a full node have one on each GPU" in context.reason
    # Nothing is warned of that the limit to the engine's own GPU has mended.
    assert not any("mismatch devices" in str(warning) for warning in plan.warnings)


def test_the_drain_follows_the_longest_answer(tmp_path: Path) -> None:
    text = (ROOT / "config" / "default.yaml").read_text()
    for seconds in (10, 3600):
        file = tmp_path / f"{seconds}.yaml"
        file.write_text(text.replace("router:", f"router:\n  request_timeout_seconds: {seconds}"))
        (engine,) = plan_file(file).engines
        longest = seconds + engine.figures.longest_answer.value
        assert engine.figures.longest_request.value == longest
        assert engine.drain_seconds == longest + engine.notice_seconds
        assert engine.grace_seconds > engine.drain_seconds + engine.shutdown_seconds
        assert engine.figures.drain.value == engine.drain_seconds


@pytest.mark.parametrize(("batch", "least"), [(2048, 45), (65536, 50)])
def test_a_core_may_be_silent_for_several_steps(batch: int, least: int, tmp_path: Path) -> None:
    text = (ROOT / "config" / "default.yaml").read_text()
    file = tmp_path / "batch.yaml"
    file.write_text(
        text.replace("    replicas: 2", f"    replicas: 2\n    max_batched_tokens: {batch}")
    )
    (engine,) = plan_file(file).engines
    step = batch / engine.figures.prefill_rate.value
    assert engine.core_silent_seconds >= max(least, 9 * step)
    assert (engine.core_silent_seconds == 45) is (batch == 2048)
