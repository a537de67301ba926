"""What one replica takes of GPUs and of its host."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from kascade.errors import ConfigPath, Problem, Remedy
from kascade.plan import (
    ContainerSize,
)
from kascade.sizing import gpu, host, objects, pool
from kascade.sizing.batch import Batch, batch_of
from kascade.sizing.inputs import EngineInput
from kascade.sizing.remedies import on_offer, setting, settings
from kascade.units import MIB, format_bytes, mib_to_gib

BYTES_16_BIT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSizing:
    """What stands on each GPU of a replica."""

    utilization: float
    weights: int
    kv_per_gpu: int
    l0_tokens: int
    l0_reason: str
    max_model_len: int
    batch: Batch


def check_parallelism(given: EngineInput) -> bool:
    """Reject tensor parallel sizes that the model or the node cannot take."""
    facts, tp, model = given.facts, given.tp, given.model
    if tp > given.instance.gpus:
        given.refuse(
            "tensor_parallel",
            f"got {tp}, but {given.instance.name} has {given.instance.gpus} GPU"
            f"{'s' if given.instance.gpus > 1 else ''}; a replica cannot span instances",
            remedies=(
                tuple(given.set("tensor_parallel", n) for n in reversed(given.parallelisms)),
                given.other_types(fits=lambda kind: tp in given.parallelisms_on(kind)),
            ),
            code="gpus-of-one-instance",
        )
        return False
    if facts.attention_heads % tp or (facts.kv_heads % tp and tp % facts.kv_heads):
        given.refuse(
            "tensor_parallel",
            f"got {tp}, which does not divide the {facts.attention_heads} attention heads and "
            f"{facts.kv_heads} KV heads of {model.model}; allowed on this type: "
            f"{', '.join(map(str, given.parallelisms))}",
        )
        return False
    return True


def size_gpu(given: EngineInput) -> GpuSizing | None:
    """Size weights and L0; None when the model does not fit."""
    model, facts, tp = given.model, given.facts, given.tp
    memory = given.instance.gpu.memory_mib * MIB
    weights = gpu.weights_per_gpu(facts, tensor_parallel=tp, quantization=model.quantization)
    kv = gpu.kv_bytes_per_token(facts, kv_cache_dtype=model.kv_cache_dtype, tensor_parallel=tp)
    utilization = model.gpu_memory_utilization or gpu.gpu_memory_utilization(memory)
    spare = memory * (1 - utilization)
    if spare < gpu.LMCACHE_CONTEXT_BYTES:
        most = gpu.gpu_memory_utilization(memory)
        given.refuse(
            "gpu_memory_utilization",
            f"got {utilization}, which leaves {format_bytes(spare)} of GPU memory; the LMCache "
            f"server's own context takes {format_bytes(gpu.LMCACHE_CONTEXT_BYTES)} of it",
            remedies=((given.set("gpu_memory_utilization", most),),),
            code="context-beside-vllm",
        )
    if model.kv_cache_dtype == "fp8" and not given.instance.gpu.fp8:
        given.warn(
            "kv_cache_dtype",
            f"{given.instance.gpu.name} has no fp8 arithmetic; vLLM converts in software",
        )
    if model.quantization == "fp8" and facts.weight_bytes_per_parameter < BYTES_16_BIT:
        given.refuse(
            "quantization",
            f"the checkpoint of {model.model} is quantized already; leave the field out",
        )
    batch = batch_of(model, given.instance.gpu)
    if batch.tokens < batch.seqs:
        given.refuse(
            "max_batched_tokens",
            f"got {batch.tokens}, less than max_num_seqs ({batch.seqs}): vLLM rejects that, since "
            "each request needs at least one token of a pass",
            given.path("max_num_seqs"),
            remedies=(
                (given.set("max_batched_tokens", batch.seqs),),
                (given.set("max_num_seqs", batch.tokens),),
            ),
            code="requests-of-a-pass",
        )
    _check_objects(given, kv)
    activations = gpu.activation_bytes(
        facts,
        max_batched_tokens=batch.tokens,
        max_num_seqs=batch.seqs,
        tensor_parallel=tp,
    )
    room = gpu.kv_pool_bytes(
        gpu_memory_bytes=memory,
        utilization=utilization,
        weights=weights,
        activations=activations,
        tensor_parallel=tp,
    )
    tokens = gpu.tokens_in(room, bytes_per_token=kv, unit_tokens=given.config.cache.block_size)
    taken = (
        f"{format_bytes(weights)} of weights, {format_bytes(activations)} of activations and "
        f"{format_bytes(gpu.CUDA_GRAPH_BYTES + gpu.communication_bytes(tp))} of CUDA graphs"
        f"{' and NCCL buffers' if tp > 1 else ''}"
    )
    budget = f"{utilization:g} of {format_bytes(memory)}"
    if tokens < given.config.cache.chunk_size:
        given.refuse(
            "model",
            f"{model.model} does not fit {tp} x {given.instance.gpu.name}: {taken} on each GPU "
            f"leave no room for KV blocks in {budget}",
            remedies=(
                given.more_gpus,
                (given.set("quantization", "fp8"),) if model.quantization is None else (),
                tuple(given.set("max_batched_tokens", n) for n in (2048, 512) if n < batch.tokens),
                _larger_gpus(given),
            ),
            code="model-on-gpus",
        )
        return None
    reason = f"({budget} - {taken}) / {format_bytes(kv)} a token"
    longest = _max_model_len(given, tokens)
    return GpuSizing(
        utilization=utilization,
        weights=weights,
        kv_per_gpu=kv,
        l0_tokens=tokens,
        l0_reason=reason,
        max_model_len=longest,
        batch=batch,
    )


def _check_objects(given: EngineInput, kv_per_gpu: int) -> None:
    """Reject chunks that are too large for one block of Curvine, or too small to fail properly."""
    cache, model = given.config.cache, given.model.model
    if cache.l2.kind != "curvine":
        return
    size = objects.object_bytes(
        kv_per_gpu, chunk_size=cache.chunk_size, encrypted=cache.l2.encryption == "aesgcm"
    )
    one = f"one chunk of {cache.chunk_size} tokens of {model} is {format_bytes(size)} on each GPU"
    if size > pool.BLOCK_SIZE_MIB * MIB:
        most = objects.largest_chunk(
            kv_per_gpu, block_size=cache.block_size, most_bytes=pool.BLOCK_SIZE_MIB * MIB
        )
        given.refuse(
            "model",
            f"{one}, more than a Curvine block of {pool.BLOCK_SIZE_MIB} MiB",
            ("cache", "chunk_size"),
            remedies=((setting(("cache", "chunk_size"), most),),),
            code="chunk-of-a-block",
        )
    elif size <= objects.BUFFER_BYTES:
        least = objects.least_chunk(kv_per_gpu, block_size=cache.block_size)
        given.refuse(
            "model",
            f"{one}. A Curvine client keeps up to {format_bytes(objects.BUFFER_BYTES)} until a "
            "file is closed, so on a full pool each such store would leave an empty file and be "
            f"called good",
            ("cache", "chunk_size"),
            ("cache", "block_size"),
            remedies=((setting(("cache", "chunk_size"), least),),),
            code="chunk-of-a-buffer",
        )


def _larger_gpus(given: EngineInput) -> tuple[Remedy, ...]:
    """Give the group another type whose GPUs hold the weights, with as many as that takes."""
    found = []
    for kind in on_offer(given.config, given.group):
        for n in given.parallelisms_on(kind):
            weights = gpu.weights_per_gpu(
                given.facts, tensor_parallel=n, quantization=given.model.quantization
            )
            if n >= given.tp and weights < kind.gpu.memory_mib * MIB:
                values: dict[ConfigPath, object] = {
                    ("instance_groups", given.group_index, "instance_type"): kind.name
                }
                if n > given.tp:
                    values[given.path("tensor_parallel")] = n
                found.append(settings(values))
    return tuple(found)


def _chunk_of(given: EngineInput, tokens: int) -> Remedy:
    """Lower the chunk to whole blocks of at most some tokens."""
    block = given.config.cache.block_size
    return setting(("cache", "chunk_size"), max(block, tokens // block * block))


def _less_tiered(given: EngineInput, missing_gib: int) -> tuple[int | None, ...]:
    """Shares of RAM for tiered storage that free some GiB for each engine; last, none at all."""
    share = given.config.hyperpod.tiered_storage_percentage
    if share is None:
        return ()
    of_node = missing_gib * given.instance.gpus / given.tp
    less = share - math.ceil(100 * of_node / given.instance.ram_gib)
    return (less, less - 1, None)


def _max_model_len(given: EngineInput, l0_tokens: int) -> int:
    limit, wanted = given.facts.context_limit, given.model.max_model_len
    chunk = given.config.cache.chunk_size
    if wanted is None:
        return min(limit, l0_tokens // chunk * chunk)
    if wanted > limit:
        given.refuse(
            "max_model_len",
            f"got {wanted}; {given.model.model} takes at most {limit} tokens",
            given.path("model"),
        )
    elif wanted < chunk:
        given.refuse(
            "max_model_len",
            f"got {wanted}, less than one chunk of {chunk} tokens, so nothing would ever be cached",
            ("cache", "chunk_size"),
            remedies=((given.set("max_model_len", chunk),), (_chunk_of(given, wanted),)),
            code="request-of-a-chunk",
        )
    elif wanted > l0_tokens:
        given.refuse(
            "max_model_len",
            f"got {wanted}, but L0 holds {l0_tokens} tokens of this model on "
            f"{given.tp} x {given.instance.gpu.name}, and vLLM does not start when one request "
            "cannot fit",
            remedies=(
                (given.set("max_model_len", l0_tokens // chunk * chunk),),
                (given.set("kv_cache_dtype", "fp8"),),
                given.more_gpus,
                given.other_types(fits=lambda kind: kind.gpus >= given.tp),
            ),
            code="request-in-l0",
        )
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSizing:
    """What stands in the host's RAM for one replica."""

    l1_gib: int
    l1_reason: str
    engine: ContainerSize
    server: ContainerSize
    shm_mib: int
    serde_workers: int


def size_host(given: EngineInput, carried: tuple[host.Daemon, ...]) -> HostSizing | None:
    """Size L1 and both containers; None when they do not fit."""
    percentage = given.config.hyperpod.tiered_storage_percentage
    share = host.host_share(
        given.instance, gpus=given.tp, tiered_percentage=percentage, carried=carried
    )
    by_operator = given.model.mode == "operator"
    if by_operator:
        share = replace(
            share,
            ram_mib=share.ram_mib - host.OPERATOR_SIDECARS_MIB,
            cpu_millicores=share.cpu_millicores - host.OPERATOR_SIDECARS_MILLIS,
        )
    shm = host.SHM_PER_GPU_MIB * given.tp
    engine = host.engine_mib(given.tp)
    room = host.l1_room_gib(share, given.tp)
    wanted = given.config.cache.l1.capacity_gib
    parts = (
        f"{mib_to_gib(given.instance.allocatable_ram_mib):,.0f} GiB allocatable - "
        f"{mib_to_gib(share.tiered_mib):,.1f} tiered storage - "
        f"{mib_to_gib(share.daemon_mib):,.1f} daemons - "
        f"{mib_to_gib(host.PAGE_CACHE_SPARE_MIB):,.0f} spare"
    )
    if given.tp != given.instance.gpus:
        parts = f"({parts}) x {given.tp}/{given.instance.gpus} of the GPUs"
    if by_operator:
        parts += f" - {mib_to_gib(host.OPERATOR_SIDECARS_MIB):,.2g} the operator's sidecars"
    parts += (
        f" - {mib_to_gib(engine):,.0f} engine - {mib_to_gib(shm):,.0f} /dev/shm - "
        f"{mib_to_gib(host.lmcache_mib(max(room, 0), given.tp)) - max(room, 0):,.1f} LMCache itself"
    )
    if room < 1 or (wanted or 0) > room:
        asked = f"{wanted} GiB of L1 are asked for" if wanted else "L1 needs at least 1 GiB"
        tiered = ("hyperpod", "tiered_storage_percentage")
        if wanted:
            place: ConfigPath = ("cache", "l1", "capacity_gib")
        else:
            place = tiered if percentage else given.path("instance_group")
        given.problems.append(
            Problem(
                path=place,
                message=f"the RAM of {given.instance.name} is overcommitted for "
                f"{given.model.name}: {asked}, but {max(room, 0)} GiB are left ({parts})",
                remedies=(
                    (setting(("cache", "l1", "capacity_gib"), room),) if wanted else (),
                    tuple(
                        setting(tiered, less) for less in _less_tiered(given, (wanted or 1) - room)
                    ),
                    given.other_types(fits=lambda kind: kind.gpus >= given.tp),
                ),
                code="host-ram",
                also_reads=(
                    *given.read_paths,
                    tiered,
                    ("cache", "l1"),
                ),
            )
        )
        return None
    server_cpu = host.LMCACHE_CPU_MILLICORES + host.LMCACHE_CPU_PER_GPU_MILLICORES * given.tp
    if given.config.cache.l2.kind == "curvine":
        # As far as there is any: without it L2 is slower, without the engine there is none.
        spare = share.cpu_millicores - server_cpu - host.ENGINE_MIN_CPU_MILLICORES
        server_cpu += max(0, min(host.client_cpu_millicores(given.instance, given.tp), spare))
    engine_cpu = min(
        share.cpu_millicores - server_cpu, host.ENGINE_CPU_PER_GPU_MILLICORES * given.tp
    )
    if engine_cpu < host.ENGINE_MIN_CPU_MILLICORES:
        given.refuse(
            "instance_group",
            f"{given.instance.name} leaves {max(0, share.cpu_millicores)} millicores to "
            f"{given.model.name} after its daemons; "
            f"{server_cpu + host.ENGINE_MIN_CPU_MILLICORES} are needed",
            remedies=(
                given.other_types(
                    fits=lambda kind: kind.gpus >= given.tp and kind.vcpus > given.instance.vcpus
                ),
            ),
            code="host-cpu",
        )
        return None
    l1 = wanted or room
    return HostSizing(
        l1_gib=l1,
        l1_reason=f"as configured, of {room} GiB possible" if wanted else parts,
        engine=ContainerSize(cpu_millicores=engine_cpu, memory_mib=engine + shm),
        server=ContainerSize(cpu_millicores=server_cpu, memory_mib=host.lmcache_mib(l1, given.tp)),
        shm_mib=shm,
        serde_workers=host.serde_workers(share),
    )
