"""How much one forward pass takes: vLLM's own defaults for the GPU, or what was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kascade.catalog.gpus import Gpu
from kascade.config.blocks import ModelConfig
from kascade.units import mib_to_gib

_LARGE_GIB: Final = 160
_MIDDLE_GIB: Final = 70

_WAITING: Final = 192
"""Requests that may wait for each engine behind a router, beside those of one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tokens of one pass and requests of one batch, each with its reason."""

    tokens: int
    tokens_reason: str
    seqs: int
    seqs_reason: str


def vllm_defaults(gpu: Gpu) -> tuple[int, int, str]:
    """Return vLLM's tokens and requests for a GPU, and why.

    As vLLM 0.32.0 has them for its API server (``EngineArgs.get_batch_defaults``): by the memory of
    a device, and less for an A100, where large passes were measured to cost throughput.

    >>> from kascade.catalog.gpus import GPUS
    >>> [vllm_defaults(GPUS[name])[:2] for name in ("L40S", "H100", "A100-80")]
    [(2048, 256), (8192, 1024), (2048, 256)]
    """
    memory = mib_to_gib(gpu.memory_mib)
    if memory >= _LARGE_GIB:
        return 16384, 1024, f"vLLM's own for a GPU of {_LARGE_GIB} GiB or more"
    if memory < _MIDDLE_GIB:
        return 2048, 256, f"vLLM's own for a GPU below {_MIDDLE_GIB} GiB ({memory:.1f})"
    if gpu.name.startswith("A100"):
        return 2048, 256, "vLLM's own for an A100, whatever its memory"
    return 8192, 1024, f"vLLM's own for a GPU of {_MIDDLE_GIB} GiB or more ({memory:.1f})"


def batch_of(model: ModelConfig, gpu: Gpu) -> Batch:
    """Return what was asked, and vLLM's default of what was not.

    Of the two a pass has at least one token for each request; a default gives way to what was
    asked, as it does in vLLM.
    """
    tokens, seqs, why = vllm_defaults(gpu)
    asked_tokens, asked_seqs = model.max_batched_tokens, model.max_num_seqs
    tokens_reason = seqs_reason = why
    if asked_tokens is not None:
        tokens, tokens_reason = asked_tokens, "as configured"
    if asked_seqs is not None:
        seqs, seqs_reason = asked_seqs, "as configured"
    if asked_tokens is None and tokens < seqs:
        tokens, tokens_reason = seqs, f"one for each of {seqs} requests"
    elif asked_seqs is None and seqs > tokens:
        seqs, seqs_reason = tokens, f"one token of {tokens} for each"
    return Batch(tokens=tokens, tokens_reason=tokens_reason, seqs=seqs, seqs_reason=seqs_reason)


def requests_at_once(*, replicas: int, seqs: int) -> int:
    """Requests that a router lets in: a batch for each engine, and some that wait for it.

    >>> requests_at_once(replicas=2, seqs=256), requests_at_once(replicas=2, seqs=4)
    (896, 32)
    """
    return replicas * (seqs + min(3 * seqs, _WAITING))
