"""What a GPU holds: weights, working memory, and then KV blocks (tier L0). All sizes in bytes."""

from __future__ import annotations

import math
from typing import Final

from kascade.catalog.models import ModelFacts
from kascade.units import GIB, MIB

VLLM_DEFAULT_UTILIZATION: Final = 0.92
"""vLLM 0.32's own default of --gpu-memory-utilization."""

LMCACHE_CONTEXT_BYTES: Final = int(0.6 * GIB)
"""GPU context of the LMCache server on a GPU that it uses (LMCache issue 4019: about 0.6 GB)."""

CONTEXT_SPARE_BYTES: Final = int(0.4 * GIB)
"""Driver and fragmentation beside that context; an assumption, not measured."""

CUDA_GRAPH_BYTES: Final = 1 * GIB
"""Captured CUDA graphs of one rank. An assumption: vLLM logs 0.5 to 1 GiB for 7B to 32B models."""

COMMUNICATION_BYTES: Final = 512 * MIB
"""NCCL buffers and library contexts of one rank with tensor parallelism; an assumption."""

BYTES_OF_DTYPE: Final = {"bfloat16": 2, "float16": 2, "fp8": 1}


def weights_per_gpu(
    model: ModelFacts, *, tensor_parallel: int = 1, quantization: str | None = None
) -> int:
    """Bytes of weights on each GPU.

    Args:
        model: The model.
        tensor_parallel: GPUs that share one replica.
        quantization: ``fp8`` to quantize 16-bit weights while loading, or None to keep the
            checkpoint's own.

    Returns:
        Bytes, rounded up.

    >>> from kascade.catalog.models import MODELS
    >>> round(weights_per_gpu(MODELS["Qwen/Qwen2-7B-Instruct"]) / GIB, 1)
    14.2
    """
    total = model.parameters * model.weight_bytes_per_parameter
    if quantization == "fp8" and model.weight_bytes_per_parameter > 1:
        # vLLM leaves the embedding and the output head in 16 bits.
        wide = 2 * model.vocab_size * model.hidden_size
        total = max(0, model.parameters - wide) + wide * model.weight_bytes_per_parameter
    return math.ceil(total / tensor_parallel)


def kv_bytes_per_token(
    model: ModelFacts, *, kv_cache_dtype: str = "auto", tensor_parallel: int = 1
) -> int:
    """Bytes of KV cache of one token on each GPU.

    Grouped-query attention keeps a key and a value per KV head and layer, split over the GPUs;
    with more GPUs than KV heads each GPU still keeps one head. Multi-head latent attention keeps
    one latent vector and one rotary key per layer, whole on each GPU.

    Args:
        model: The model.
        kv_cache_dtype: ``auto`` for the model's own dtype, ``fp8`` for one byte a value.
        tensor_parallel: GPUs that share one replica.

    Returns:
        Bytes.

    >>> from kascade.catalog.models import MODELS
    >>> kv_bytes_per_token(MODELS["Qwen/Qwen2-7B-Instruct"])
    57344
    >>> kv_bytes_per_token(MODELS["Qwen/Qwen2-7B-Instruct"], kv_cache_dtype="fp8")
    28672
    >>> kv_bytes_per_token(MODELS["deepseek-ai/DeepSeek-V3"])
    70272
    """
    value_bytes = BYTES_OF_DTYPE[model.dtype if kv_cache_dtype == "auto" else kv_cache_dtype]
    if model.mla is not None:
        return model.layers * (model.mla.kv_lora_rank + model.mla.qk_rope_head_dim) * value_bytes
    heads = max(1, model.kv_heads // tensor_parallel)
    return 2 * model.layers * heads * model.head_dim * value_bytes


def storing_gpus(model: ModelFacts, tensor_parallel: int) -> int:
    """GPUs of a replica whose KV LMCache stores.

    Every GPU stores what it holds, also where grouped-query attention has fewer KV heads than the
    replica has GPUs and two hold the same head. Of a model whose cache is latent throughout, each
    GPU holds all of it and the first stores it once (``kv_world_size`` in LMCache's multi-process
    adapter for vLLM).
    """
    return 1 if model.mla is not None else tensor_parallel


def stored_bytes_per_token(
    model: ModelFacts, *, kv_cache_dtype: str = "auto", tensor_parallel: int = 1
) -> int:
    """Bytes that LMCache stores of one token of a replica: the one rule for L1 and L2.

    Args:
        model: The model.
        kv_cache_dtype: ``auto`` for the model's own dtype, ``fp8`` for one byte a value.
        tensor_parallel: GPUs that share one replica.

    Returns:
        Bytes.

    >>> from kascade.catalog.models import MODELS
    >>> qwen, v3 = MODELS["Qwen/Qwen2-7B-Instruct"], MODELS["deepseek-ai/DeepSeek-V3"]
    >>> [stored_bytes_per_token(qwen, tensor_parallel=n) for n in (1, 4, 8)]
    [57344, 57344, 114688]
    >>> [stored_bytes_per_token(v3, tensor_parallel=n) for n in (1, 8)]
    [70272, 70272]
    """
    each = kv_bytes_per_token(model, kv_cache_dtype=kv_cache_dtype, tensor_parallel=tensor_parallel)
    return each * storing_gpus(model, tensor_parallel)


def activation_bytes(
    model: ModelFacts, *, max_batched_tokens: int, max_num_seqs: int, tensor_parallel: int = 1
) -> int:
    """Peak working memory of one forward pass on each GPU, as an upper estimate.

    Two copies of the widest MLP intermediate (split over the GPUs) and four of the hidden state
    for each token in 16 bits, plus the logits of each sequence in 16 and 32 bits.

    >>> from kascade.catalog.models import MODELS
    >>> qwen = MODELS["Qwen/Qwen2-7B-Instruct"]
    >>> round(activation_bytes(qwen, max_batched_tokens=8192, max_num_seqs=64) / GIB, 2)
    0.85
    """
    per_token = 2 * (2 * model.intermediate_size // tensor_parallel + 4 * model.hidden_size)
    logits = max_num_seqs * model.vocab_size * (2 + 4)
    return max_batched_tokens * per_token + logits


def gpu_memory_utilization(gpu_memory_bytes: int) -> float:
    """Share of GPU memory for vLLM that leaves room for the LMCache server's context.

    >>> gpu_memory_utilization(45_776 * MIB)
    0.92
    >>> gpu_memory_utilization(8 * GIB)
    0.87
    """
    room = 1 - (LMCACHE_CONTEXT_BYTES + CONTEXT_SPARE_BYTES) / gpu_memory_bytes
    return min(VLLM_DEFAULT_UTILIZATION, int(room * 100) / 100)


def kv_pool_bytes(
    *,
    gpu_memory_bytes: int,
    utilization: float,
    weights: int,
    activations: int,
    tensor_parallel: int = 1,
) -> int:
    """Bytes left for KV blocks on each GPU; negative when the model does not fit.

    >>> kv_pool_bytes(gpu_memory_bytes=10 * GIB, utilization=0.9, weights=6 * GIB,
    ...               activations=1 * GIB) / GIB
    1.0
    """
    budget = int(gpu_memory_bytes * utilization)
    fixed = CUDA_GRAPH_BYTES + communication_bytes(tensor_parallel)
    return budget - weights - activations - fixed


def communication_bytes(tensor_parallel: int) -> int:
    """Buffers for talking to the other GPUs of a replica; a single GPU needs none."""
    return COMMUNICATION_BYTES if tensor_parallel > 1 else 0


def tokens_in(pool_bytes: int, *, bytes_per_token: int, unit_tokens: int = 1) -> int:
    """Whole units of tokens that fit some bytes, counted in tokens.

    >>> tokens_in(1_000_000, bytes_per_token=57_344, unit_tokens=16)
    16
    >>> tokens_in(-5, bytes_per_token=57_344)
    0
    """
    units = max(0, pool_bytes) // (bytes_per_token * unit_tokens)
    return units * unit_tokens
