"""From one model of the configuration to its engine plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Final

from kascade.catalog.instances import InstanceType
from kascade.catalog.models import REVISIONS, ModelFacts
from kascade.catalog.operator import KNOWN_FAULTS
from kascade.config.model import (
    CurvineConfig,
    DirectoryConfig,
    InstanceGroupConfig,
    ManagedConfig,
    ModelConfig,
    ServingConfig,
)
from kascade.config.references import KEY_SECRET
from kascade.errors import ConfigPath, Problem
from kascade.sizing import gpu, host, pool, transfer
from kascade.sizing.nodes import Packing
from kascade.sizing.operated import operator_plan
from kascade.sizing.plan import (
    BucketVolumePlan,
    ContainerSize,
    CurvineL2Plan,
    DirectoryL2Plan,
    EngineFigures,
    EnginePlan,
    Figure,
    L2Plan,
    LMCachePlan,
    ManagedL2Plan,
    MountedWeights,
)
from kascade.sizing.tenancy import tenancy_of
from kascade.units import GIB, MIB, format_bytes, format_count, mib_to_gib

VLLM_PORT: Final = 8000
LMCACHE_PORT: Final = 5555
LMCACHE_HTTP_PORT: Final = 8080
BYTES_16_BIT: Final = 2
MQ_TIMEOUT_SECONDS: Final = 20
"""How long a request waits for an LMCache server that has gone, and vLLM at its start. With 60 the
first request after a server's restart was seen to wait a minute; the default is 300."""

HEARTBEAT_SECONDS: Final = 5
"""How often an engine asks whether its LMCache server is there; the default is 10."""

RESTART_PAUSE_SECONDS: Final = 3 * HEARTBEAT_SECONDS
"""How long a restarted LMCache server stays away. An engine registers again only after a heartbeat
went unanswered, which takes two of them. After a quicker restart it was seen to stay unregistered:
all healthy, not one hit any more, and every prompt waiting for ``MQ_TIMEOUT_SECONDS``."""

L2_WORKERS: Final = 16
"""Parallel chunk reads; Curvine's published fio runs need 16 to use the network."""

L2_EVICT_RATIO: Final = 0.1
DRAIN_SECONDS: Final = 120
LOAD_BASE_SECONDS: Final = 600
DOWNLOAD_BYTES_PER_SECOND: Final = 100 * MIB
"""Slowest download of weights that the startup probe waits for; an assumption."""

WEIGHTS_SPARE: Final = 1.25
HASH_ALGORITHM: Final = "blake3"
"""LMCache's default; file names do not depend on PYTHONHASHSEED with it."""

CLIENT_TIMEOUT_MS: Final = 5000
"""Curvine waits two minutes by default; a lost master should be a miss, not a hung request."""

CACHE_MOUNT: Final = "/mnt/kv"

TIERED_STORAGE_PORT: Final = 9200
SHARED_MEMORY: Final = "ai_toolkit_cache"
HOST_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - shared memory
"""Where HyperPod's daemon answers on every node, and its file in the host's shared memory (AWS blog
on managed tiered KV cache; LMCache PR 4138). LMCache's own default is another name."""


@dataclass(slots=True, kw_only=True)
class EngineInput:
    """What is known before an engine is sized.

    Attributes:
        index: Place of the model in the file.
        model: The model, named as this engine is.
        tenant: The one tenant whose engine it is, or None.
        packing: Where all engines of the group stand.
        usd_per_hour: Price of one instance of the group.
    """

    index: int
    model: ModelConfig
    facts: ModelFacts
    group: InstanceGroupConfig
    group_index: int
    instance: InstanceType
    packing: Packing
    config: ServingConfig
    image: str
    usd_per_hour: Figure
    tenant: str | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    @property
    def revision(self) -> str | None:
        """Commit of the weights, where they are downloaded and one is known."""
        if self.model.weights.kind != "hub":
            return None
        return self.model.revision or REVISIONS.get(self.model.model)

    @property
    def tp(self) -> int:
        """Tensor parallel size."""
        return self.model.tensor_parallel

    def path(self, name: str) -> ConfigPath:
        """Path of one of the model's fields."""
        return ("models", self.index, name)

    def refuse(self, name: str, message: str, *also_reads: ConfigPath) -> None:
        """Note a problem at one of the model's fields."""
        self.problems.append(
            Problem(
                path=self.path(name), message=message, also_reads=(*self.read_paths, *also_reads)
            )
        )

    @property
    def read_paths(self) -> tuple[ConfigPath, ...]:
        """Fields that every engine's sizing reads."""
        fields = ("model", "config_json", "tensor_parallel", "quantization", "instance_group")
        return (
            *(self.path(name) for name in fields),
            ("instance_groups", self.group_index, "instance_type"),
        )

    def warn(self, name: str, message: str) -> None:
        """Note something that deploys but deserves a look."""
        self.warnings.append(Problem(path=self.path(name), message=message))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSizing:
    """What stands on each GPU of a replica."""

    utilization: float
    weights: int
    kv_per_gpu: int
    l0_tokens: int
    l0_reason: str
    max_model_len: int


def check_parallelism(given: EngineInput) -> bool:
    """Refuse tensor parallel sizes that the model or the node cannot take."""
    facts, tp, model = given.facts, given.tp, given.model
    if tp > given.instance.gpus:
        given.refuse(
            "tensor_parallel",
            f"got {tp}, but {given.group.instance_type} has {given.instance.gpus} GPU"
            f"{'s' if given.instance.gpus > 1 else ''}; a replica cannot span instances. Lower it "
            "or choose a larger type",
        )
        return False
    if facts.attention_heads % tp or (facts.kv_heads % tp and tp % facts.kv_heads):
        fitting = [
            n
            for n in range(1, given.instance.gpus + 1)
            if facts.attention_heads % n == 0
            and (facts.kv_heads % n == 0 or n % facts.kv_heads == 0)
        ]
        given.refuse(
            "tensor_parallel",
            f"got {tp}, which does not divide the {facts.attention_heads} attention heads and "
            f"{facts.kv_heads} KV heads of {model.model}; allowed on this type: "
            f"{', '.join(map(str, fitting))}",
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
            f"server's own context takes {format_bytes(gpu.LMCACHE_CONTEXT_BYTES)} of it. Use at "
            f"most {most}",
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
    if model.max_batched_tokens < model.max_num_seqs:
        given.refuse(
            "max_batched_tokens",
            f"got {model.max_batched_tokens}, less than max_num_seqs ({model.max_num_seqs}): vLLM "
            "refuses that, since each request needs at least one token of a pass",
            given.path("max_num_seqs"),
        )
    chunk_bytes = kv * given.config.cache.chunk_size
    if given.config.cache.l2.kind == "curvine" and chunk_bytes > pool.BLOCK_SIZE_MB * MIB:
        given.refuse(
            "model",
            f"one chunk of {given.config.cache.chunk_size} tokens of {model.model} is "
            f"{format_bytes(chunk_bytes)} on each GPU, more than a Curvine block of "
            f"{pool.BLOCK_SIZE_MB} MiB; lower cache.chunk_size",
            ("cache", "chunk_size"),
        )
    activations = gpu.activation_bytes(
        facts,
        max_batched_tokens=model.max_batched_tokens,
        max_num_seqs=model.max_num_seqs,
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
            f"leave no room for KV blocks in {budget}. Raise tensor_parallel, quantize, lower "
            "max_batched_tokens or choose a larger type",
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
    )


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
            f"got {wanted}, less than one chunk of {chunk} tokens, so nothing would ever be "
            "cached; raise it or lower cache.chunk_size",
            ("cache", "chunk_size"),
        )
    elif wanted > l0_tokens:
        given.refuse(
            "max_model_len",
            f"got {wanted}, but L0 holds {l0_tokens} tokens of this model on "
            f"{given.tp} x {given.instance.gpu.name}, and vLLM does not start when one request "
            f"cannot fit. Use at most {l0_tokens // chunk * chunk}, kv_cache_dtype: fp8 or more "
            "GPUs",
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
            cpu_millis=share.cpu_millis - host.OPERATOR_SIDECARS_MILLIS,
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
        f"{mib_to_gib(host.lmcache_mib(room, given.tp)) - max(room, 0):,.1f} LMCache itself"
    )
    if room < 1 or (wanted or 0) > room:
        asked = f"{wanted} GiB of L1 are asked for" if wanted else "L1 needs at least 1 GiB"
        place = ("cache", "l1", "capacity_gib") if wanted else given.path("instance_group")
        given.problems.append(
            Problem(
                path=place,
                message=f"the RAM of {given.group.instance_type} is overcommitted for "
                f"{given.model.name}: {asked}, but {max(room, 0)} GiB are left ({parts}). Lower "
                "cache.l1.capacity_gib or hyperpod.tiered_storage_percentage, or choose a type "
                "with more RAM",
                also_reads=(
                    *given.read_paths,
                    ("hyperpod", "tiered_storage_percentage"),
                    ("cache", "l1"),
                ),
            )
        )
        return None
    server_cpu = host.LMCACHE_CPU_MILLIS + host.LMCACHE_CPU_PER_GPU_MILLIS * given.tp
    engine_cpu = min(share.cpu_millis - server_cpu, host.ENGINE_CPU_PER_GPU_MILLIS * given.tp)
    if engine_cpu < host.ENGINE_MIN_CPU_MILLIS:
        given.refuse(
            "instance_group",
            f"{given.group.instance_type} leaves {max(0, share.cpu_millis)} thousandths of a CPU "
            f"to {given.model.name} after its daemons; {server_cpu + host.ENGINE_MIN_CPU_MILLIS} "
            "are needed. Choose a type with more vCPUs",
        )
        return None
    l1 = wanted or room
    return HostSizing(
        l1_gib=l1,
        l1_reason=f"as configured, of {room} GiB possible" if wanted else parts,
        engine=ContainerSize(cpu_millis=engine_cpu, memory_mib=engine + shm),
        server=ContainerSize(cpu_millis=server_cpu, memory_mib=host.lmcache_mib(l1, given.tp)),
        shm_mib=shm,
        serde_workers=host.serde_workers(share),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Share:
    """One engine's part of L2.

    Attributes:
        capacity_gib: What it may write.
        usable: Part of that which is full before something is evicted.
        mount_limit: What the way to it delivers beside the network, and its name; None without a
            bound of its own.
    """

    capacity_gib: int
    usable: float
    reason: str
    mount_limit: transfer.Limit | None


def plan_engine(
    given: EngineInput, *, gpus: GpuSizing, ram: HostSizing, l2: L2Share | None
) -> EnginePlan:
    """Put one engine's plan together."""
    model, config, tp = given.model, given.config, given.tp
    surge = 1 if given.packing.can_surge(tp) else 0
    if model.mode == "operator":
        _check_operator(given, can_surge=bool(surge))
    elif not surge and model.replicas == 1:
        given.warn(
            "replicas",
            f"one replica and no free GPU: {model.name} is down during every roll-out. Two "
            "replicas, or one more instance, avoid that",
        )
    _warn_of_loose_weights(given)
    figures = _figures(given, gpus=gpus, ram=ram, l2=l2)
    for tier, tokens, name in (
        ("L1", figures.l1_tokens, "l1"),
        ("L2", figures.l2_tokens, "l2"),
    ):
        if tokens.value < config.cache.chunk_size and (
            tier == "L1" or (l2 is not None and l2.capacity_gib >= 1)
        ):
            given.problems.append(
                Problem(
                    path=("cache", name),
                    message=f"{tier} of {model.name} is too small for one chunk of "
                    f"{config.cache.chunk_size} tokens ({tokens.reason}); give it more room or "
                    "lower cache.chunk_size",
                    also_reads=(*given.read_paths, ("cache", "chunk_size")),
                )
            )
    even = figures.break_even_tokens
    if l2 is not None and (even is None or even.value > gpus.max_model_len):
        given.warn(
            "model",
            f"L2 never pays for {model.name}: no request is long enough for loading to be quicker "
            f"than computing ({figures.break_even_reason}). A type with a faster network, "
            "kv_cache_dtype: fp8 or, where a wrong answer after a disk fault is acceptable, "
            "integrity: none changes that",
        )
    shares = tp < given.instance.gpus
    if shares:
        given.warn(
            "tensor_parallel",
            f"{model.name} takes {tp} of {given.instance.gpus} GPUs of a node. Its LMCache server "
            "sees all of them, and CUDA IPC between containers with different views was reported "
            "to mismatch devices (LMCache PR 2128); prefer types whose GPUs one replica fills",
        )
    if shares and given.tenant is not None:
        given.warn(
            "tenancy",
            f"engines of several tenants of {model.name.removesuffix(f'-{given.tenant}')} can "
            "stand on one node, and the LMCache server of each sees all its GPUs; use a type whose "
            "GPUs one replica fills",
        )
    return EnginePlan(
        name=model.name,
        namespace=config.name,
        image=given.image,
        model=model.model,
        revision=given.revision,
        served_name=model.model,
        replicas=model.replicas,
        group=given.group.name,
        instance_type=given.group.instance_type,
        gpus=tp,
        dtype=given.facts.dtype,
        kv_cache_dtype=model.kv_cache_dtype,
        quantization=model.quantization,
        max_model_len=gpus.max_model_len,
        block_size=config.cache.block_size,
        max_num_seqs=model.max_num_seqs,
        max_batched_tokens=model.max_batched_tokens,
        gpu_memory_utilization=gpus.utilization,
        port=VLLM_PORT,
        size=ram.engine,
        shm_mib=ram.shm_mib,
        weights_volume_gib=int(_checkpoint_bytes(given) * WEIGHTS_SPARE // GIB) + 5
        if model.weights.kind == "hub"
        else 0,
        mounted_weights=mounted_weights(given),
        load_timeout_seconds=_load_seconds(given),
        drain_seconds=DRAIN_SECONDS,
        max_surge=surge,
        max_unavailable=1 - surge,
        huggingface_secret=model.huggingface_token_secret,
        taint_keys=tuple(taint.key for taint in given.group.taints),
        shares_node=shares,
        spread_zones=given.group.zone is None and len(config.zones) > 1,
        tenancy=tenancy_of(model, tenant=given.tenant, payload_mib=config.router.max_payload_mib),
        lmcache=LMCachePlan(
            port=LMCACHE_PORT,
            http_port=LMCACHE_HTTP_PORT,
            chunk_size=config.cache.chunk_size,
            hash_algorithm=HASH_ALGORITHM,
            l1_gb=ram.l1_gib,
            l1_eviction_policy="LRU",
            prefetch_policy="retain",
            max_workers=tp,
            mq_timeout_seconds=MQ_TIMEOUT_SECONDS,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            restart_pause_seconds=RESTART_PAUSE_SECONDS,
            size=ram.server,
            l2=_l2_plan(given, l2, ram.serde_workers),
        ),
        figures=figures,
        operator=operator_plan(
            model, strategy=config.router.strategy, load_seconds=_load_seconds(given)
        )
        if model.mode == "operator"
        else None,
    )


def _check_operator(given: EngineInput, *, can_surge: bool) -> None:
    """Note what mode `operator` cannot do and what deserves a look."""
    model = given.model
    if not can_surge:
        given.refuse(
            "mode",
            f"the operator rolls {model.name} out by adding a pod before it takes one away, and "
            f"every GPU of {given.group.name!r} is taken, so each change would wait for ever. Give "
            "the group one more instance, lower `replicas`, or choose mode: deployment, which "
            "replaces one at a time",
            given.path("replicas"),
            ("instance_groups", given.group_index, "count"),
        )
    given.warn(
        "mode",
        f"{KNOWN_FAULTS['LMCACHE_']}; so the operator's own cache is left off for {model.name}, "
        "and L1, L2 and LMCACHE_* variables are put into its pods at admission",
    )


def _load_seconds(given: EngineInput) -> int:
    return LOAD_BASE_SECONDS + int(_checkpoint_bytes(given) // DOWNLOAD_BYTES_PER_SECOND)


def _warn_of_loose_weights(given: EngineInput) -> None:
    """Warn where nothing says which weights a replica loads."""
    model = given.model
    if model.weights.kind == "hub" and given.revision is None:
        given.warn(
            "revision",
            f"no commit is known for {model.model}: replicas that start at different times may "
            "load different weights and then share cached blocks. Name the commit in `revision`",
        )
    if model.weights.kind == "claim" and model.weights.path is None:
        given.warn(
            "weights",
            f"nothing says which weights lie at the root of claim {model.weights.name!r}: were "
            "they exchanged, replicas would share blocks of the old ones. Put them into a folder "
            "named after their revision and give it in weights.path",
        )


def mounted_weights(given: EngineInput) -> MountedWeights | None:
    """Where the weights are mounted from, or None where each pod downloads them."""
    weights = given.model.weights
    if weights.kind == "hub":
        return None
    if weights.kind == "claim":
        return MountedWeights(claim=weights.name, folder=weights.path, bucket=None)
    region = given.config.region
    size = ContainerSize(cpu_millis=host.MOUNTPOINT_CPU_MILLIS, memory_mib=host.MOUNTPOINT_MIB)
    fixed = f"{weights.bucket} {weights.prefix} {region} {size.cpu_millis} {size.memory_mib}"
    bucket = BucketVolumePlan(
        name=f"weights-{given.model.name}-{short_hash(fixed)}",
        claim_namespace=given.config.name,
        engine=given.model.name,
        bucket=weights.bucket,
        prefix=weights.prefix,
        region=region,
        size=size,
    )
    return MountedWeights(claim=bucket.name, folder=None, bucket=bucket)


def _weights_identity(given: EngineInput) -> str:
    """Which weights of the model they are, as far as the configuration says.

    A commit where they are downloaded; else the place they lie in, which may hold any characters.
    """
    weights = given.model.weights
    if weights.kind == "hub":
        return (given.revision or "main")[:7]
    place = (
        (weights.bucket, weights.prefix)
        if weights.kind == "s3"
        else (weights.name, weights.path or "")
    )
    return f"{weights.kind}.{short_hash('/'.join(place))}"


def short_hash(text: str) -> str:
    """Name a text in six hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _checkpoint_bytes(given: EngineInput) -> float:
    return given.facts.parameters * given.facts.weight_bytes_per_parameter


def _l2_plan(given: EngineInput, l2: L2Share | None, serde_workers: int) -> L2Plan | None:
    settings = given.config.cache.l2
    if l2 is None or settings.kind == "none":
        return None
    key_secret = _key_secret(given) if settings.integrity == "aesgcm" else None
    if isinstance(settings, ManagedConfig):
        return _managed(given, l2, serde_workers, key_secret)
    if isinstance(settings, DirectoryConfig):
        return DirectoryL2Plan(
            claim=settings.claim,
            # The deployment too, since another one may mount the same file system.
            directory=f"{settings.path}/{given.config.name}{_directory(given, settings.integrity)}",
            file_system=settings.file_system,
            mount_path=CACHE_MOUNT,
            # Only the engine's own directory is mounted, so no engine can reach another's.
            base_path=CACHE_MOUNT,
            capacity_gb=l2.capacity_gib,
            workers=L2_WORKERS,
            serde_workers=serde_workers,
            evict_at=l2.usable,
            evict_ratio=L2_EVICT_RATIO,
            key_secret=key_secret,
        )
    return CurvineL2Plan(
        volume=_volume(given, settings),
        directory=_directory(given, settings.integrity),
        mount_path=CACHE_MOUNT,
        # LMCache makes missing directories through the mount, which would stamp them with the
        # volume's time to live; so the volume itself is the base path and nothing is made below.
        base_path=CACHE_MOUNT,
        capacity_gb=l2.capacity_gib,
        workers=L2_WORKERS,
        serde_workers=serde_workers,
        evict_at=l2.usable,
        evict_ratio=L2_EVICT_RATIO,
        key_secret=key_secret,
    )


def _volume(given: EngineInput, settings: CurvineConfig) -> str:
    directory = _directory(given, settings.integrity)
    # Whatever becomes an attribute of the volume.
    parts = (settings.ttl_hours, settings.masters, CLIENT_TIMEOUT_MS, pool.BLOCK_SIZE_MB)
    fixed = f"{directory} {parts}"
    return f"kv-{given.model.name}-{short_hash(fixed)}"


def _managed(
    given: EngineInput, l2: L2Share, serde_workers: int, key_secret: str | None
) -> ManagedL2Plan:
    integrity = "none" if key_secret is None else "aesgcm"
    # The daemon's keys hold the model string and the rank layout, but not the rest of it.
    fixed = hashlib.sha256(_directory(given, integrity).encode()).hexdigest()[:8]
    return ManagedL2Plan(
        bucket=f"kv-{given.model.name}-{fixed}",
        port=TIERED_STORAGE_PORT,
        shared_memory=SHARED_MEMORY,
        host_directory=HOST_SHARED_MEMORY,
        mount_path=CACHE_MOUNT,
        capacity_gb=l2.capacity_gib,
        serde_workers=serde_workers,
        key_secret=key_secret,
    )


def _key_secret(given: EngineInput) -> str:
    """One key for all who share, and one for each isolated tenant of a model."""
    return KEY_SECRET if given.tenant is None else f"{KEY_SECRET}-{given.model.name}"


def _directory(given: EngineInput, integrity: str) -> str:
    """Everything that must agree between two replicas that share files, as a path.

    LMCache's file names hold the model string and the rank layout, but not the rest of it.
    """
    model, cache = given.model, given.config.cache
    kind = given.facts.dtype if model.kv_cache_dtype == "auto" else model.kv_cache_dtype
    weights = f"-{model.quantization}" if model.quantization else ""
    # The layout of a block is the engine's and LMCache's own affair and may change with either.
    image = short_hash(given.image)
    return (
        f"/kv/{model.name}/{model.model.replace('/', '--')}-{_weights_identity(given)}{weights}/"
        f"{kind}-tp{given.tp}-c{cache.chunk_size}-{HASH_ALGORITHM}-{integrity}-{image}"
    )


def _figures(
    given: EngineInput, *, gpus: GpuSizing, ram: HostSizing, l2: L2Share | None
) -> EngineFigures:
    facts, tp, usd = given.facts, given.tp, given.usd_per_hour
    chunk = given.config.cache.chunk_size
    kv_all = gpus.kv_per_gpu * tp
    kv_model = gpu.kv_bytes_per_token(facts, kv_cache_dtype=given.model.kv_cache_dtype)
    value = "1 byte" if given.model.kv_cache_dtype == "fp8" else "2 bytes"
    if facts.mla is not None:
        kv_reason = (
            f"{facts.layers} layers x ({facts.mla.kv_lora_rank} + {facts.mla.qk_rope_head_dim}) "
            f"latent values x {value}"
        )
    else:
        kv_reason = (
            f"2 x {facts.layers} layers x {facts.kv_heads} KV heads x {facts.head_dim} x {value}"
        )
    prefill = transfer.prefill_tokens_per_second(facts, given.instance.gpu, tensor_parallel=tp)
    l2_settings = given.config.cache.l2
    sealed = l2_settings.kind != "none" and l2_settings.integrity == "aesgcm"
    rate = transfer.load_rate(
        given.instance.network_gbps * tp / given.instance.gpus,
        mount=l2.mount_limit if l2 is not None else None,
        serde_workers=ram.serde_workers if sealed else None,
    )
    load = rate.bytes_per_second
    even = (
        transfer.break_even_tokens(
            prefill_rate=prefill, load_rate_bytes=load, bytes_per_token=kv_all
        )
        if l2 is not None
        else None
    )
    compare = f"{1e3 / prefill:.3f} ms to compute - {1e3 * kv_all / load:.3f} ms to load a token"
    even_reason = (
        "no L2"
        if l2 is None
        else f"{transfer.LOAD_OVERHEAD_SECONDS:g} s to begin / ({compare})"
        if even is not None
        else f"no gain: {compare}"
    )
    l1_tokens = gpu.tokens_in(ram.l1_gib * GIB, bytes_per_token=kv_all, unit_tokens=chunk)
    l2_bytes = int(l2.capacity_gib * GIB * l2.usable) if l2 is not None else 0
    return EngineFigures(
        weights_per_gpu=Figure(
            value=gpus.weights,
            unit="bytes",
            reason=f"{format_count(facts.parameters)} parameters x "
            f"{gpus.weights * tp / facts.parameters:.2g} bytes / {tp} GPU{'s' if tp > 1 else ''}",
        ),
        kv_per_token=Figure(value=kv_model, unit="bytes/token", reason=kv_reason),
        kv_per_token_per_gpu=Figure(
            value=gpus.kv_per_gpu,
            unit="bytes/token",
            reason="one GPU holds all"
            if tp == 1
            else "whole on each GPU"
            if facts.mla is not None
            else f"{max(1, facts.kv_heads // tp)} of {facts.kv_heads} KV heads on each GPU",
        ),
        l0_tokens=Figure(value=gpus.l0_tokens, unit="tokens", reason=gpus.l0_reason),
        l1_size=Figure(value=ram.l1_gib * GIB, unit="bytes", reason=f"GiB: {ram.l1_reason}"),
        l1_tokens=Figure(
            value=l1_tokens,
            unit="tokens",
            reason=f"{ram.l1_gib} GiB / {format_bytes(kv_all)} a token, in chunks of {chunk}",
        ),
        l2_tokens=Figure(
            value=gpu.tokens_in(l2_bytes, bytes_per_token=kv_all, unit_tokens=chunk),
            unit="tokens",
            reason=l2.reason if l2 is not None else "no L2",
        ),
        prefill_rate=Figure(
            value=round(prefill),
            unit="tokens/s",
            reason=f"{tp} x {given.instance.gpu.bf16_tflops:g} TFLOP/s x "
            f"{transfer.MODEL_FLOPS_UTILIZATION:g} assumed / (2 x "
            f"{format_count(facts.active_parameters)} parameters)",
        ),
        l2_load_rate=Figure(value=round(load), unit="bytes/s", reason=rate.reason)
        if l2 is not None
        else None,
        break_even_tokens=None
        if even is None
        else Figure(value=even, unit="tokens", reason=even_reason),
        break_even_reason=even_reason,
        usd_per_hour=Figure(
            value=round(usd.value * tp / given.instance.gpus, 4),
            unit="USD/h",
            reason=f"{tp} of {given.instance.gpus} GPUs of {given.group.instance_type}, "
            f"{usd.reason}",
        ),
    )
