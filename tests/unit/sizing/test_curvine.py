"""What Curvine costs a node: CPU for its bytes, room for open files, threads for lost nodes."""

import math

import pytest

from kascade.catalog.instances import INSTANCES
from kascade.config.blocks import ServingConfig
from kascade.plan import CurvineL2Plan, ServingPlan
from kascade.planning.planner import plan_serving
from kascade.sizing import host, pool
from kascade.sizing.l2 import L2Share, curvine_workers, room_for_writers
from kascade.units import GB, GIB, MIB

MODEL = "Qwen/Qwen2-7B-Instruct"


def planned(instance: str, *, model: str = MODEL, **settings: object) -> ServingPlan:
    return plan_serving(
        ServingConfig.model_validate(
            {
                "name": "test",
                "region": "us-west-2",
                "zones": ["us-west-2a", "us-west-2b"],
                "instance_groups": [{"name": "gpu", "instance_type": instance, "count": 2}],
                "models": [{"name": "m", "model": model, "replicas": 2, **settings}],
            }
        )
    )


def test_fuse_and_worker_ask_for_what_the_nodes_network_brings() -> None:
    """20 Gb/s x 0.79 are 1.975 GB/s, and each GB takes 1.1 and 1.05 CPU seconds."""
    plan = planned("ml.g6e.4xlarge")
    curvine, engine = plan.curvine, plan.engines[0]
    assert curvine is not None
    assert curvine.csi_size.cpu_millicores == pytest.approx(1.975 * 1100, abs=1)
    assert curvine.workers[0].size.cpu_millicores == pytest.approx(1.975 * 1050, abs=1)
    assert engine.lmcache.size.cpu_millicores == pytest.approx(750 + 1.975 * 650, abs=1)
    (group,) = plan.cluster.groups
    assert group.l2_cpu is not None
    assert group.l2_cpu.value == pytest.approx(1.975 * 2.15, abs=0.01)
    assert "1.98 GB/s" in group.l2_cpu.reason


def test_fuse_itself_ends_at_about_ten_cpus() -> None:
    traffic = host.curvine_traffic(INSTANCES["ml.p5.48xlarge"])
    assert traffic.bytes_per_second == 8.9 * GIB
    assert traffic.fuse_millicores == int(8.9 * GIB / GB * 1100)
    assert 10_000 < traffic.fuse_millicores < 11_000
    assert not traffic.cpu_bound


def test_a_node_with_few_cores_is_warned_of_and_reads_more_slowly() -> None:
    plan = planned("ml.g7.2xlarge", model="deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B")
    traffic = host.curvine_traffic(INSTANCES["ml.g7.2xlarge"])
    assert traffic.cpu_bound
    taken = traffic.fuse_millicores + traffic.worker_millicores
    assert taken <= 0.45 * host.allocatable_cpu_millicores(8)
    (warning,) = [w for w in plan.warnings if "vCPUs for the same network" in w.message]
    assert "12.7 of 8 CPUs" in warning.message
    rate = plan.engines[0].figures.l2_load_rate
    assert rate is not None
    assert rate.value <= traffic.bytes_per_second
    assert not [w for w in planned("ml.g6e.4xlarge").warnings if "vCPUs for the" in w.message]


@pytest.mark.parametrize("name", sorted(INSTANCES))
def test_requests_never_exceed_the_node(name: str) -> None:
    kind = INSTANCES[name]
    carried = host.daemons(kind, curvine=True, tiered_storage=False, janitor=True)
    share = host.host_share(kind, gpus=kind.gpus, tiered_percentage=None, carried=carried)
    assert share.cpu_millicores > 0
    traffic = host.curvine_traffic(kind)
    each = 1100 + (1050 if kind.nvme_gb else 0)
    floors = host.CURVINE_CSI_CPU + host.CURVINE_WORKER_CPU
    enough = traffic.fuse_millicores + traffic.worker_millicores
    assert enough >= traffic.bytes_per_second / GB * each - 2 or enough <= floors


def test_several_engines_of_a_node_share_one_fuse() -> None:
    alone = planned("ml.g6e.48xlarge", tensor_parallel=8, model="Qwen/Qwen2.5-72B-Instruct")
    of_eight = planned("ml.g6e.48xlarge", tensor_parallel=1)
    rates = []
    for plan in (alone, of_eight):
        rate = plan.engines[0].figures.l2_load_rate
        assert rate is not None
        rates.append(rate.value)
    assert rates[1] <= 8.9 * GIB / 8 + 1


def test_every_chunk_of_the_longest_prompt_has_a_thread_of_its_own() -> None:
    """Or a lost node costs a prompt a time limit for each of its chunks that one thread reads."""
    plan = planned("ml.g6e.4xlarge", max_model_len=32_768)
    l2 = plan.engines[0].lmcache.l2
    assert isinstance(l2, CurvineL2Plan)
    assert l2.workers == 128
    assert curvine_workers(objects=0, share_gib=300) == 16
    assert curvine_workers(objects=10_000, share_gib=10_000) == 256


@pytest.mark.parametrize("share_gib", [20, 101, 313, 2250])
@pytest.mark.parametrize("objects", [1, 128, 1000])
def test_what_an_engine_may_write_and_its_open_files_fit_its_part(
    share_gib: int, objects: int
) -> None:
    share = L2Share(capacity_gib=share_gib, usable=pool.EVICT_AT, reason="all", mount_limit=None)
    left = room_for_writers(share, objects=objects)
    reserved = left.workers * 128 * MIB
    assert left.capacity_gib * GIB + reserved <= share_gib * GIB
    assert left.capacity_gib >= share_gib - math.ceil(max(share_gib / 8, 2))
