"""Sizing as arithmetic: known values by hand, and laws that hold for every input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kascade.catalog.gpus import GPUS
from kascade.catalog.instances import INSTANCES
from kascade.catalog.models import MODELS
from kascade.sizing import gpu, host, nodes, pool, transfer
from kascade.units import GIB

models = st.sampled_from(sorted(MODELS))
instances = st.sampled_from(sorted(INSTANCES))
powers_of_two = st.sampled_from([1, 2, 4, 8])


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("Qwen/Qwen2-7B-Instruct", 2 * 28 * 4 * 128 * 2),
        ("meta-llama/Llama-3.1-8B-Instruct", 2 * 32 * 8 * 128 * 2),
        ("meta-llama/Llama-3.3-70B-Instruct", 2 * 80 * 8 * 128 * 2),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", 2 * 64 * 8 * 128 * 2),
        ("deepseek-ai/DeepSeek-V3", 61 * (512 + 64) * 2),
    ],
)
def test_kv_bytes_per_token(model: str, bytes_per_token: int) -> None:
    assert gpu.kv_bytes_per_token(MODELS[model]) == bytes_per_token


@given(model=models, tp=powers_of_two)
def test_gpus_together_hold_all_heads_and_never_less(model: str, tp: int) -> None:
    facts = MODELS[model]
    whole = gpu.kv_bytes_per_token(facts)
    assert gpu.kv_bytes_per_token(facts, tensor_parallel=tp) * tp >= whole


@given(model=models)
def test_fp8_halves_the_cache_of_16_bit_models(model: str) -> None:
    facts = MODELS[model]
    assert gpu.kv_bytes_per_token(facts, kv_cache_dtype="fp8") * 2 == gpu.kv_bytes_per_token(facts)


@given(model=models, tp=powers_of_two)
def test_fp8_weights_are_smaller_and_more_than_half(model: str, tp: int) -> None:
    facts = MODELS[model]
    plain = gpu.weights_per_gpu(facts, tensor_parallel=tp)
    small = gpu.weights_per_gpu(facts, tensor_parallel=tp, quantization="fp8")
    assert plain / 2 <= small <= plain


@given(memory=st.integers(2 * GIB, 300 * GIB))
def test_utilization_leaves_room_for_the_cache_servers_context(memory: int) -> None:
    left = memory * (1 - gpu.gpu_memory_utilization(memory))
    assert left >= gpu.LMCACHE_CONTEXT_BYTES


@given(
    pool_bytes=st.integers(-(10**12), 10**12),
    per_token=st.integers(1, 10**6),
    unit=st.sampled_from([1, 16, 256]),
)
def test_tokens_fit_and_one_unit_more_does_not(pool_bytes: int, per_token: int, unit: int) -> None:
    tokens = gpu.tokens_in(pool_bytes, bytes_per_token=per_token, unit_tokens=unit)
    assert tokens % unit == 0
    assert tokens * per_token <= max(0, pool_bytes)
    assert (tokens + unit) * per_token > pool_bytes


@given(
    instance=instances,
    percentage=st.one_of(st.none(), st.integers(20, 100)),
    curvine=st.booleans(),
)
def test_a_pod_never_gets_more_ram_than_the_node_has(
    instance: str, percentage: int | None, curvine: bool
) -> None:
    kind = INSTANCES[instance]
    carried = host.daemons(kind, curvine=curvine, tiered_storage=percentage is not None)
    pods = []
    for _ in range(kind.gpus):
        share = host.host_share(kind, gpus=1, tiered_percentage=percentage, carried=carried)
        l1 = host.l1_room_gib(share, 1)
        if l1 >= 1:
            pods.append(host.lmcache_mib(l1, 1) + host.engine_mib(1) + host.SHM_PER_GPU_MIB)
    tiered = kind.ram_gib * 1024 * (percentage or 0) // 100
    taken = sum(pods) + sum(daemon.memory_mib for daemon in carried)
    assert not pods or taken + tiered <= kind.allocatable_ram_mib


@given(
    engines=st.lists(powers_of_two, max_size=12),
    count=st.integers(0, 8),
    gpus=powers_of_two,
)
def test_packing_neither_loses_nor_invents_gpus(engines: list[int], count: int, gpus: int) -> None:
    packing = nodes.pack(engines, nodes=count, gpus_per_node=gpus)
    placed = sum(engines) - sum(packing.left_over)
    assert placed + sum(packing.free_gpus) == count * gpus
    assert all(0 <= free <= gpus for free in packing.free_gpus)
    # Powers of two on nodes of a power of two leave nothing over that would still fit.
    assert all(not packing.can_surge(left) for left in packing.left_over)


@given(
    prefill=st.floats(100, 1e6),
    load=st.floats(1e8, 1e11),
    per_token=st.integers(10_000, 600_000),
)
def test_at_break_even_loading_is_no_slower(prefill: float, load: float, per_token: int) -> None:
    tokens = transfer.break_even_tokens(
        prefill_rate=prefill, load_rate_bytes=load, bytes_per_token=per_token
    )
    if tokens is None:
        assert per_token / load >= 1 / prefill
    else:
        loading = transfer.LOAD_OVERHEAD_SECONDS + tokens * per_token / load
        assert loading <= tokens / prefill * (1 + 1e-9)


def test_the_published_measurement_breaks_even_where_it_did() -> None:
    # AWS blog of 13 August 2026, run A: 534 tokens 0.99x, 1,080 tokens 1.69x on an A10G.
    tokens = transfer.break_even_tokens(
        prefill_rate=1 / 0.235e-3, load_rate_bytes=1.84 * GIB, bytes_per_token=57_344
    )
    assert tokens is not None
    assert 500 <= tokens <= 700


@given(instance=instances)
def test_the_pool_never_takes_all_of_the_nvme(instance: str) -> None:
    kind = INSTANCES[instance]
    assert pool.default_capacity_gib(kind) <= 0.65 * pool.nvme_gib(kind) + 1


@given(node_gib=st.integers(0, 100_000), gpus=st.integers(1, 16), parts=st.lists(st.integers(1, 8)))
def test_all_engines_of_a_node_fit_what_it_gives(
    node_gib: int, gpus: int, parts: list[int]
) -> None:
    fitting = [part for index, part in enumerate(parts) if sum(parts[: index + 1]) <= gpus]
    shares = [pool.engine_share_gib(node_gib, gpus=p, gpus_per_node=gpus) for p in fitting]
    assert sum(shares) <= node_gib


def test_prefill_counts_the_active_parameters_only() -> None:
    dense, sparse = MODELS["Qwen/Qwen3-32B"], MODELS["Qwen/Qwen3-30B-A3B"]
    gpu_facts = GPUS["L40S"]
    ratio = transfer.prefill_tokens_per_second(sparse, gpu_facts) / (
        transfer.prefill_tokens_per_second(dense, gpu_facts)
    )
    assert ratio == pytest.approx(dense.active_parameters / sparse.active_parameters)
