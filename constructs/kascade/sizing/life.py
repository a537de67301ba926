"""How long an engine may be silent before it counts as hung, and how long it may take to end."""

from __future__ import annotations

import math
from typing import Final

from kascade.plan import Figure
from kascade.sizing import gpu, transfer
from kascade.sizing.inputs import EngineInput
from kascade.units import counted

NOTICE_SECONDS: Final = 5
"""Between the beginning of a pod's end and the last request that its router may send: it watches
pods, and drops one that ends with its next event."""

SHUTDOWN_TIMEOUT_SECONDS: Final = 15
"""vLLM's own ``--shutdown-timeout``, for a request that came after the drain's last look."""

SHUTDOWN_SECONDS: Final = 30
"""After the drain, for vLLM and then its LMCache server; Kubernetes' own default for a whole pod.
The server is a native sidecar, so it is asked to end once vLLM has."""

LEAST_SILENCE_SECONDS: Final = 45
"""Longer than two requests in a row wait for an LMCache server that has gone (20 s each), and short
enough that a hung core is left out within a minute. Else an assumption: kernels that are compiled
at their first use hold a step up for seconds. vLLM's own proposal (vllm-project/vllm#36451) waits
for 60 s, and ends the engine then; this long, it is left out, and ended half a minute later."""

STEPS_OF_SILENCE: Final = 10
"""An assumption: the rate of prefill is that of short contexts, and a step at the end of a long one
takes several times as long."""


def drain(longest_request: Figure) -> Figure:
    """Work out how long a pod may answer what it took; an idle one goes after the notice.

    Args:
        longest_request: When the router gives a request up.
    """
    longest = int(longest_request.value)
    return Figure(
        value=NOTICE_SECONDS + longest,
        unit="s",
        reason=f"{NOTICE_SECONDS} s until the router has dropped the pod + {longest:,} s, the "
        "longest a request may take; an idle pod goes after the first",
    )


def core_silence(given: EngineInput, *, tokens: int) -> Figure:
    """Work out how long a core may leave a question unanswered, which it does during a step.

    Args:
        given: The engine.
        tokens: Of the largest step.
    """
    rate = transfer.prefill_tokens_per_second(
        given.facts, given.instance.gpu, tensor_parallel=given.tp
    )
    step = tokens / rate
    return Figure(
        value=max(LEAST_SILENCE_SECONDS, math.ceil(STEPS_OF_SILENCE * step)),
        unit="s",
        reason=f"the larger of {LEAST_SILENCE_SECONDS} s, assumed for a kernel compiled at its "
        f"first use, and {STEPS_OF_SILENCE} steps of {tokens} tokens at "
        f"{step:.2g} s each",
    )


def cache_context(given: EngineInput) -> Figure:
    """Work out what the LMCache server takes of each GPU of its engine."""
    where = "its engine's GPU" if given.tp == 1 else f"each of its engine's {given.tp} GPUs"
    engines = given.instance.gpus // given.tp
    shared = (
        f", so the {counted(engines, 'server')} of a full node have one on each GPU and not all "
        "on the first"
        if engines > 1
        else ""
    )
    return Figure(
        value=gpu.LMCACHE_CONTEXT_BYTES,
        unit="bytes",
        reason=f"one CUDA context on {where}, to which CUDA_VISIBLE_DEVICES limits the "
        f"server{shared} (size reported: LMCache#4019)",
    )
