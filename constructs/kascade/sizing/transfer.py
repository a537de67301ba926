"""Loading a prefix from L2 against computing it again."""

from __future__ import annotations

import math
from typing import Final

from kascade.catalog.gpus import Gpu
from kascade.catalog.models import ModelFacts
from kascade.units import GIB

MODEL_FLOPS_UTILIZATION: Final = 0.5
"""Share of a GPU's dense peak that prefill reaches. An assumption; `kascade bench` measures it."""

NETWORK_EFFICIENCY: Final = 0.79
"""1.84 GiB/s measured across nodes on a 20 Gb/s interface (AWS blog of 13 August 2026, run C)."""

FUSE_LIMIT_BYTES: Final = 8.9 * GIB
"""256 KiB sequential reads of 8 threads through Curvine's FUSE (Curvine README)."""

LOAD_OVERHEAD_SECONDS: Final = 0.11
"""Fixed cost of a load: the same blog's run A breaks even at about 550 tokens where cold prefill
costs 0.235 ms and a load 0.031 ms a token, (0.235 - 0.031) * 550 = 112 ms."""


def prefill_tokens_per_second(model: ModelFacts, gpu: Gpu, *, tensor_parallel: int = 1) -> float:
    """Tokens that one replica computes in a second of prefill: peak FLOP/s over 2 per parameter.

    >>> from kascade.catalog.gpus import GPUS
    >>> from kascade.catalog.models import MODELS
    >>> 8_000 < prefill_tokens_per_second(MODELS["Qwen/Qwen2-7B-Instruct"], GPUS["L40S"]) < 16_000
    True
    """
    flops = gpu.bf16_tflops * 1e12 * tensor_parallel * MODEL_FLOPS_UTILIZATION
    return flops / (2 * model.active_parameters)


def l2_bytes_per_second(network_gbps: float) -> float:
    """Bytes that one node reads from L2 in a second, over its network baseline.

    >>> round(l2_bytes_per_second(20) / GIB, 2)
    1.84
    """
    return min(network_gbps * 1e9 / 8 * NETWORK_EFFICIENCY, FUSE_LIMIT_BYTES)


def l2_rate_reason(network_gbps: float) -> str:
    """Why :func:`l2_bytes_per_second` says what it says.

    >>> l2_rate_reason(20)
    '20 Gb/s baseline x 0.79 measured (AWS blog, 13 August 2026)'
    >>> l2_rate_reason(100)
    "limit of Curvine's FUSE mount; the network's 100 Gb/s would give more"
    """
    if l2_bytes_per_second(network_gbps) < FUSE_LIMIT_BYTES:
        return (
            f"{network_gbps:g} Gb/s baseline x {NETWORK_EFFICIENCY:g} measured "
            "(AWS blog, 13 August 2026)"
        )
    return f"limit of Curvine's FUSE mount; the network's {network_gbps:g} Gb/s would give more"


def break_even_tokens(
    *, prefill_rate: float, load_rate_bytes: float, bytes_per_token: int
) -> int | None:
    """Shortest prefix that is quicker to load from L2 than to compute.

    Args:
        prefill_rate: Tokens per second computed.
        load_rate_bytes: Bytes per second loaded.
        bytes_per_token: KV bytes of one token over all GPUs of a replica.

    Returns:
        Tokens, or None when loading a token takes longer than computing it.

    >>> break_even_tokens(prefill_rate=4250, load_rate_bytes=1.84 * GIB, bytes_per_token=57_344)
    534
    >>> break_even_tokens(prefill_rate=1e6, load_rate_bytes=1e9, bytes_per_token=57_344)
    """
    saved = 1 / prefill_rate - bytes_per_token / load_rate_bytes
    if saved <= 0:
        return None
    return math.ceil(LOAD_OVERHEAD_SECONDS / saved)
