"""Loading a prefix from L2 against computing it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
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

SERDE_THREAD_BYTES: Final = 1.4 * GIB
"""What one thread of LMCache's aesgcm opens: 1.4 GiB/s in blocks of 14 MiB on an idle core, and 2.1
to 2.5 GiB a second of CPU (`tools.serde_rate`, AMD EPYC with two cores)."""

SERDE_LIMIT_BYTES: Final = 2.4 * GIB
"""What all threads of one server open together, whatever their number. Assumed until a machine with
16 cores measured it: the serde copies each block three times under Python's interpreter lock, and
the copies alone went at 3.1 to 3.7 GiB a second of CPU. Versions of the cryptography package from
before August 2026 hold the lock in the cipher too (pyca/cryptography#15359), and then one thread's
rate is the limit of all."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What one part of the way delivers in a second, and its name."""

    bytes_per_second: float
    name: str


FUSE: Final = Limit(bytes_per_second=FUSE_LIMIT_BYTES, name="Curvine's FUSE mount")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRate:
    """How fast one replica reads L2, and what limits it."""

    bytes_per_second: float
    reason: str


def load_rate(
    network_gbps: float, *, mount: Limit | None = None, serde_workers: int | None = None
) -> LoadRate:
    """The slowest of network, mount and, where blocks are encrypted, opening them.

    Args:
        network_gbps: The replica's share of the node's network baseline.
        mount: What stands between the network and LMCache, if it has a bound of its own.
        serde_workers: Threads that open encrypted blocks, or None where they lie in clear.

    >>> load_rate(20)
    LoadRate(bytes_per_second=1975000000.0, reason='20 Gb/s of network x 0.79 measured')
    >>> load_rate(100, mount=FUSE).reason, load_rate(20, serde_workers=2).reason
    ("Curvine's FUSE mount", '20 Gb/s of network x 0.79 measured')
    >>> load_rate(20, serde_workers=1).reason
    'opening encrypted blocks, 1 x 1.4 GiB/s a thread'
    >>> load_rate(100, serde_workers=16).reason
    "opening encrypted blocks, 2.4 GiB/s in all for Python's lock, assumed"
    """
    rates = [
        (
            network_gbps * 1e9 / 8 * NETWORK_EFFICIENCY,
            f"{network_gbps:g} Gb/s of network x {NETWORK_EFFICIENCY:g} measured",
        )
    ]
    if mount is not None:
        rates.append((mount.bytes_per_second, mount.name))
    if serde_workers is not None:
        threads = SERDE_THREAD_BYTES * serde_workers
        each = f"{serde_workers} x {SERDE_THREAD_BYTES / GIB:g} GiB/s a thread"
        in_all = f"{SERDE_LIMIT_BYTES / GIB:g} GiB/s in all for Python's lock, assumed"
        rates.append(
            (
                min(threads, SERDE_LIMIT_BYTES),
                f"opening encrypted blocks, {each if threads < SERDE_LIMIT_BYTES else in_all}",
            )
        )
    rate, reason = min(rates)
    return LoadRate(bytes_per_second=rate, reason=reason)


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
