"""From one model of the configuration to its engine plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kascade.catalog.operator import KNOWN_FAULTS
from kascade.config.blocks import NoL2Config
from kascade.errors import Problem
from kascade.plan import (
    EnginePlan,
    LMCachePlan,
)
from kascade.sizing.answers import warn_of_renders
from kascade.sizing.figures import figures_of
from kascade.sizing.inputs import EngineInput, Remedies
from kascade.sizing.l2 import HASH_ALGORITHM, L2Share, l2_plan
from kascade.sizing.life import NOTICE_SECONDS, SHUTDOWN_SECONDS, SHUTDOWN_TIMEOUT_SECONDS
from kascade.sizing.one_replica import GpuSizing, HostSizing
from kascade.sizing.operator_managed import operator_plan
from kascade.sizing.remedies import setting
from kascade.sizing.routing import CHOICES
from kascade.sizing.tenancy import tenancy_of
from kascade.sizing.tiers import warn_of_tiers
from kascade.sizing.weights import (
    WEIGHTS_SPARE,
    checkpoint_bytes,
    load_seconds,
    mounted_weights,
    warn_of_loose_weights,
)
from kascade.units import GIB

VLLM_PORT: Final = 8000

LMCACHE_PORT: Final = 5555

LMCACHE_HTTP_PORT: Final = 8080

MQ_TIMEOUT_SECONDS: Final = 20
"""How long a request waits for an LMCache server that has gone, and vLLM at its start. With 60 the
first request after a server's restart was seen to wait a minute; the default is 300."""

HEARTBEAT_SECONDS: Final = 5
"""How often an engine asks whether its LMCache server is there; the default is 10."""

RESTART_PAUSE_SECONDS: Final = 3 * HEARTBEAT_SECONDS
"""How long a restarted LMCache server stays away. An engine registers again only after a heartbeat
went unanswered, which takes two of them. After a quicker restart it was seen to stay unregistered:
all healthy, not one hit any more, and every prompt waiting for ``MQ_TIMEOUT_SECONDS``."""

REAP_SECONDS: Final = 120
"""After how long a silence LMCache's server forgets an engine that has sent heartbeats: its own
default. It is dead then, and forgetting it gives back the GPU memory that the server holds of it,
which the engine's next start needs. 0, which never forgets, would keep that until the pod goes."""

IDLE_SECONDS: Final = 10 * 365 * 86_400
"""The same for an engine that has sent none, which an idle one does not: heartbeats begin with the
first chunk that is stored or loaded. The default is 3600, and an engine that was forgotten never
registers again: measured, 0 of 20 chunks stored after it, all probes green (LMCache issue 4715)."""

RENEW_SECONDS: Final = 600
"""A file that is loaded looks young again, at most so often: one change of metadata for a block
that is popular. Any time that is short against what files live costs no hit (docs/janitor.md)."""


_IN_CLEAR: Final = replace(
    setting(("cache", "l2", "encryption"), "none"),
    words="where a wrong answer after a disk fault is acceptable, set cache.l2.encryption to none",
)

_NO_L2: Final = replace(
    setting(("cache", "l2"), NoL2Config(kind="none")),
    words="replace the block cache.l2 by kind: none",
)


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
            f"one replica and no free GPU: {model.name} is down during every roll-out",
            remedies=(
                (given.more_instances(1),),
                (given.set("replicas", 2), given.more_replicas(2)),
            ),
            code="roll-out",
        )
    warn_of_loose_weights(given)
    choice = CHOICES.get(config.router.strategy)
    renders = model.mode == "deployment" and choice is not None and choice.renders
    if renders:
        warn_of_renders(given, tokens=gpus.max_model_len)
    figures = figures_of(given, gpus=gpus, ram=ram, l2=l2)
    stored = int(figures.stored_per_token.value)
    l2_bytes = int(l2.capacity_gib * GIB * l2.usable) if l2 is not None else 0
    for tier, tokens, name, room in (
        ("L1", figures.l1_tokens, "l1", ram.l1_gib * GIB),
        ("L2", figures.l2_tokens, "l2", l2_bytes),
    ):
        if tokens.value < config.cache.chunk_size and (
            tier == "L1" or (l2 is not None and l2.capacity_gib >= 1)
        ):
            given.problems.append(
                Problem(
                    path=("cache", name),
                    message=f"{tier} of {model.name} is too small for one chunk of "
                    f"{config.cache.chunk_size} tokens ({tokens.reason})",
                    also_reads=(*given.read_paths, ("cache", "chunk_size")),
                    remedies=_room_for_a_chunk(given, name, tokens=room // stored),
                    code=f"chunk-in-{name}",
                )
            )
    warn_of_tiers(given, figures, longest=gpus.max_model_len, l1_gib=ram.l1_gib)
    even = figures.break_even_tokens
    rate = figures.l2_load_rate
    if l2 is not None and rate and (even is None or even.value > gpus.max_model_len):
        given.warn(
            "model",
            f"L2 never pays for {model.name}: no request is long enough for loading to be quicker "
            f"than computing ({figures.break_even_reason}; loading: {rate.reason})",
            remedies=(
                (given.set("kv_cache_dtype", "fp8"),),
                given.other_types(
                    fits=lambda kind: (
                        kind.gpu is given.instance.gpu
                        and kind.gpus == given.instance.gpus
                        and kind.network_gbps > given.instance.network_gbps
                    )
                ),
                (_IN_CLEAR,) if config.cache.l2.kind in {"curvine", "directory"} else (),
                # It takes L2 from every model.
                (_NO_L2,) if len(config.models) == 1 else (),
            ),
            code="l2-pays",
        )
    shares = tp < given.instance.gpus
    if shares and given.tenant is not None:
        given.warn(
            "tenancy",
            f"engines of several tenants of {model.name.removesuffix(f'-{given.tenant}')} can "
            "stand on one node, and the LMCache server of each may open all its GPUs, although it "
            "is told to use its engine's; use a type whose GPUs one replica fills",
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
        instance_type=given.group.types[0],
        other_types=given.group.types[1:],
        gpus=tp,
        dtype=given.facts.dtype,
        kv_cache_dtype=model.kv_cache_dtype,
        quantization=model.quantization,
        max_model_len=gpus.max_model_len,
        block_size=config.cache.block_size,
        max_num_seqs=gpus.batch.seqs,
        max_batched_tokens=gpus.batch.tokens,
        gpu_memory_utilization=gpus.utilization,
        port=VLLM_PORT,
        size=ram.engine,
        shm_mib=ram.shm_mib,
        weights_volume_gib=int(checkpoint_bytes(given) * WEIGHTS_SPARE // GIB) + 5
        if model.weights.kind == "hub"
        else 0,
        mounted_weights=mounted_weights(given),
        load_timeout_seconds=load_seconds(given),
        notice_seconds=NOTICE_SECONDS,
        drain_seconds=int(figures.drain.value),
        shutdown_seconds=SHUTDOWN_TIMEOUT_SECONDS,
        grace_seconds=int(figures.drain.value) + SHUTDOWN_SECONDS,
        core_silent_seconds=int(figures.core_silence.value),
        max_surge=surge,
        max_unavailable=1 - surge,
        huggingface_secret=model.huggingface_token_secret,
        taint_keys=tuple(taint.key for taint in given.group.taints),
        shares_node=shares,
        spread_zones=given.group.zone is None and len(config.zones) > 1,
        tenancy=tenancy_of(model, tenant=given.tenant, payload_mib=config.router.max_payload_mib),
        renders_for_router=renders,
        silence_seconds=config.router.request_timeout_seconds,
        lmcache=LMCachePlan(
            port=LMCACHE_PORT,
            http_port=LMCACHE_HTTP_PORT,
            chunk_size=config.cache.chunk_size,
            hash_algorithm=HASH_ALGORITHM,
            l1_gib=ram.l1_gib,
            l1_eviction_policy="LRU",
            prefetch_policy="retain",
            max_workers=tp,
            mq_timeout_seconds=MQ_TIMEOUT_SECONDS,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            restart_pause_seconds=RESTART_PAUSE_SECONDS,
            reap_seconds=REAP_SECONDS,
            idle_seconds=IDLE_SECONDS,
            renew_seconds=RENEW_SECONDS,
            size=ram.server,
            l2=l2_plan(given, l2, ram.serde_workers),
        ),
        figures=figures,
        operator=operator_plan(
            model, strategy=config.router.strategy, load_seconds=load_seconds(given)
        )
        if model.mode == "operator"
        else None,
    )


def _room_for_a_chunk(given: EngineInput, tier: str, *, tokens: int) -> Remedies:
    """Make chunks as small as what a tier holds, or L1 as large as it can be."""
    block, capacity = given.config.cache.block_size, ("cache", "l1", "capacity_gib")
    asked = tier == "l1" and given.config.cache.l1.capacity_gib is not None
    return (
        (setting(("cache", "chunk_size"), tokens // block * block),) if tokens >= block else (),
        (setting(capacity, None),) if asked else (),
    )


def _check_operator(given: EngineInput, *, can_surge: bool) -> None:
    """Note what mode `operator` cannot do and what deserves a look."""
    model = given.model
    if not can_surge:
        given.refuse(
            "mode",
            f"the operator rolls {model.name} out by adding a pod before it takes one away, and "
            f"every GPU of {given.group.name!r} is taken, so each change would wait for ever",
            given.path("replicas"),
            ("instance_groups", given.group_index, "count"),
            remedies=(
                (given.more_instances(1),),
                tuple(given.set("replicas", n) for n in range(model.replicas - 1, 0, -1)),
                (given.set("mode", "deployment"),),
            ),
            code="operator-surge",
        )
    given.warn(
        "mode",
        f"{KNOWN_FAULTS['LMCACHE_']}; so the operator's own cache is left off for {model.name}, "
        "and L1, L2 and LMCACHE_* variables are put into its pods at admission",
    )
