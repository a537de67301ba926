"""What one replica holds and costs, each number with its reason."""

from __future__ import annotations

from kascade.plan import (
    EngineFigures,
    Figure,
    Price,
)
from kascade.sizing import answers, gpu, life, transfer
from kascade.sizing.inputs import EngineInput
from kascade.sizing.l2 import L2Share
from kascade.sizing.one_replica import GpuSizing, HostSizing
from kascade.sizing.tiers import cross_zone_hits
from kascade.units import GIB, counted, format_bytes, format_count


def figures_of(
    given: EngineInput, *, gpus: GpuSizing, ram: HostSizing, l2: L2Share | None
) -> EngineFigures:
    """Work out what one replica holds and costs."""
    facts, tp, usd = given.facts, given.tp, given.usd_per_hour
    chunk = given.config.cache.chunk_size
    stored = gpu.stored_bytes_per_token(
        facts, kv_cache_dtype=given.model.kv_cache_dtype, tensor_parallel=tp
    )
    kv_model = gpu.kv_bytes_per_token(facts, kv_cache_dtype=given.model.kv_cache_dtype)
    value = "1 byte" if given.model.kv_cache_dtype == "fp8" else "2 bytes"
    if facts.mla is not None:
        kv_reason = (
            f"{facts.layers} layers x ({facts.mla.kv_lora_rank} + {facts.mla.qk_rope_head_dim}) "
            f"latent values x {value}"
        )
    else:
        kv_reason = (
            f"2 x {facts.layers} layers x {counted(facts.kv_heads, 'KV head')} x "
            f"{facts.head_dim} x {value}"
        )
    prefill = transfer.prefill_tokens_per_second(facts, given.instance.gpu, tensor_parallel=tp)
    l2_settings = given.config.cache.l2
    encrypted = l2_settings.kind != "none" and l2_settings.encryption == "aesgcm"
    rate = transfer.load_rate(
        given.instance.network_gbps * tp / given.instance.gpus,
        mount=l2.mount_limit if l2 is not None else None,
        serde_workers=ram.serde_workers if encrypted else None,
    )
    load = rate.bytes_per_second
    even = (
        transfer.break_even_tokens(
            prefill_rate=prefill, load_rate_bytes=load, bytes_per_token=stored
        )
        if l2 is not None
        else None
    )
    compare = f"{1e3 / prefill:.3f} ms to compute - {1e3 * stored / load:.3f} ms to load a token"
    even_reason = (
        "no L2"
        if l2 is None
        else f"{transfer.LOAD_OVERHEAD_SECONDS:g} s to begin / ({compare})"
        if even is not None
        else f"no gain: {compare}"
    )
    l1_tokens = gpu.tokens_in(ram.l1_gib * GIB, bytes_per_token=stored, unit_tokens=chunk)
    answer = answers.longest_answer(given, tokens=gpus.max_model_len, utilization=gpus.utilization)
    request = answers.longest_request(given, answer=answer)
    l2_bytes = int(l2.capacity_gib * GIB * l2.usable) if l2 is not None else 0
    return EngineFigures(
        weights_per_gpu=Figure(
            value=gpus.weights,
            unit="bytes",
            reason=f"{format_count(facts.parameters)} parameters x "
            f"{gpus.weights * tp / facts.parameters:.2g} bytes / {counted(tp, 'GPU')}",
        ),
        kv_per_token=Figure(value=kv_model, unit="bytes/token", reason=kv_reason),
        kv_per_token_per_gpu=Figure(
            value=gpus.kv_per_gpu,
            unit="bytes/token",
            reason="one GPU holds all"
            if tp == 1
            else "whole on each GPU"
            if facts.mla is not None
            else f"{max(1, facts.kv_heads // tp)} of {counted(facts.kv_heads, 'KV head')} on each "
            "GPU",
        ),
        stored_per_token=Figure(
            value=stored,
            unit="bytes/token",
            reason="as the one GPU holds it"
            if tp == 1
            else f"once, by the first of {tp} GPUs: each holds all of it"
            if gpu.storing_gpus(facts, tp) == 1
            else f"{tp} x {format_bytes(gpus.kv_per_gpu)}: each GPU stores what it holds",
        ),
        l0_tokens=Figure(value=gpus.l0_tokens, unit="tokens", reason=gpus.l0_reason),
        l1_size=Figure(value=ram.l1_gib * GIB, unit="bytes", reason=f"GiB: {ram.l1_reason}"),
        l1_tokens=Figure(
            value=l1_tokens,
            unit="tokens",
            reason=f"{ram.l1_gib} GiB / {format_bytes(stored)} a token, in chunks of {chunk}",
        ),
        l2_tokens=Figure(
            value=gpu.tokens_in(l2_bytes, bytes_per_token=stored, unit_tokens=chunk),
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
        batched_tokens=Figure(
            value=gpus.batch.tokens, unit="tokens", reason=gpus.batch.tokens_reason
        ),
        num_seqs=Figure(value=gpus.batch.seqs, unit="requests", reason=gpus.batch.seqs_reason),
        full_pass=Figure(
            value=round(gpus.batch.tokens / prefill, 3),
            unit="s",
            reason=f"how long decoding waits for a pass of {gpus.batch.tokens:,} tokens of "
            f"prompts, at {prefill:,.0f} tokens/s",
        ),
        l2_load_rate=Figure(value=round(load), unit="bytes/s", reason=rate.reason)
        if l2 is not None
        else None,
        break_even_tokens=None
        if even is None
        else Figure(value=even, unit="tokens", reason=even_reason),
        break_even_reason=even_reason,
        cross_zone_hits=cross_zone_hits(
            given.l2_zones if l2 is not None else (),
            stored=stored,
            prefill=prefill,
            usd=None if usd.value is None else usd.value * tp / given.instance.gpus,
        ),
        usd_per_hour=Price(
            value=None if usd.value is None else round(usd.value * tp / given.instance.gpus, 4),
            unit="USD/h",
            reason=f"{tp} of {counted(given.instance.gpus, 'GPU')} of {given.instance.name}, "
            f"{usd.reason}",
        ),
        cache_context=life.cache_context(given),
        core_silence=life.core_silence(given, tokens=gpus.batch.tokens),
        drain=life.drain(request),
        longest_answer=answer,
        longest_request=request,
    )
