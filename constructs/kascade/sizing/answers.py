"""How long an answer may take, and what the router's question to every engine costs."""

from __future__ import annotations

import math
from typing import Final

from kascade.plan import Figure
from kascade.sizing.inputs import EngineInput
from kascade.units import MIB, counted

BANDWIDTH_UTILIZATION: Final = 0.5
"""Share of a GPU's memory bandwidth that decoding gets. An assumption: what prefills of other
requests take between two tokens has to fit into the rest."""

RENDER_SECONDS: Final = 0.0031
"""CPU of one engine for one ``/render`` of 200 tokens: measured on two shared cores, Llama of 24 M
parameters, one token a byte, one request at a time."""

MEASURED_TOKENS: Final = 7500
RENDER_SECONDS_PER_TOKEN: Final = (0.0162 - RENDER_SECONDS) / (MEASURED_TOKENS - 200)
"""The rest of the 16.2 ms that 7,500 tokens took there."""

RENDERS_AT_ONCE: Final = 8
"""Engines that the router (0.1.17) asks at a time; the next eight wait for the first."""

RENDER_BUDGET_SECONDS: Final = 1.0
"""How long the router waits for all of them. Where one is missing, that request goes to the least
loaded engine."""


def longest_answer(given: EngineInput, *, tokens: int, utilization: float) -> Figure:
    """Work out how long the longest answer takes, on an engine whose L0 is full.

    Each step reads all weights and, at worst, all KV blocks that there are: as much of the memory
    of a GPU as vLLM takes.

    Args:
        given: The engine.
        tokens: Of the longest request.
        utilization: Share of a GPU's memory that is vLLM's.
    """
    gpu = given.instance.gpu
    rate = gpu.memory_gb_per_second * 1e9 * BANDWIDTH_UTILIZATION
    step = gpu.memory_mib * MIB * utilization / rate
    return Figure(
        value=math.ceil(tokens * step),
        unit="s",
        reason=f"{tokens:,} tokens x {step * 1e3:.0f} ms, in which {utilization:g} of a GPU's "
        f"memory is read at {BANDWIDTH_UTILIZATION:g} (assumed) of "
        f"{gpu.memory_gb_per_second:,.0f} GB/s",
    )


def longest_request(given: EngineInput, *, answer: Figure) -> Figure:
    """Work out when a request is given up, whatever flows.

    Args:
        given: The engine.
        answer: The longest answer of it.
    """
    router, decoding = given.config.router, int(answer.value)
    waiting, asked = router.request_timeout_seconds, router.longest_request_seconds
    if asked is None:
        return Figure(
            value=waiting + decoding,
            unit="s",
            reason=f"{waiting} s of waiting + {decoding:,} s for the longest answer",
        )
    if asked < decoding and given.model.mode == "deployment":
        fitting = given.config.router.longest_request_seconds
        given.warn(
            "max_model_len",
            f"router.longest_request_seconds is {fitting}, and the longest answer of "
            f"{given.model.name} may take {decoding:,} s ({answer.reason}). One that is not "
            "through is cut; one that does not stream is even computed five times before its "
            f"client has an error. Leave it out for {waiting + decoding:,}, or lower max_model_len",
        )
    return Figure(value=asked, unit="s", reason="as configured")


def render_seconds(tokens: int) -> float:
    """CPU of one engine for one ``/render``.

    >>> round(render_seconds(7500), 4)
    0.0162
    """
    return RENDER_SECONDS + RENDER_SECONDS_PER_TOKEN * max(0, tokens - 200)


def rendering(*, replicas: int, max_model_len: int) -> Figure:
    """Work out how many prompts a second a model takes at most, since each engine renders all.

    Args:
        replicas: Engines behind the router.
        max_model_len: Tokens of the longest prompt.

    >>> rendering(replicas=4, max_model_len=32_768).value
    61
    """
    tokens = min(MEASURED_TOKENS, max_model_len)
    each = render_seconds(tokens)
    return Figure(
        value=int(1 / each),
        unit="prompts/s",
        reason=f"{counted(replicas, 'engine')} each of which renders every prompt, "
        f"{each * 1e3:.1f} ms of one core at {tokens:,} tokens and "
        f"{render_seconds(200) * 1e3:.1f} at 200 (measured on two shared cores, small model); more "
        "replicas change nothing of it",
    )


def warn_of_renders(given: EngineInput, *, tokens: int) -> None:
    """Warn where the longest prompts are not rendered everywhere before the router stops waiting.

    Args:
        given: An engine that stands behind a router which asks all.
        tokens: Of the longest prompt.
    """
    replicas = given.model.replicas
    rounds = math.ceil(replicas / RENDERS_AT_ONCE)
    if rounds * render_seconds(tokens) <= RENDER_BUDGET_SECONDS:
        return
    room = RENDER_BUDGET_SECONDS / rounds - RENDER_SECONDS
    known = max(0, int(200 + room / RENDER_SECONDS_PER_TOKEN))
    most = RENDERS_AT_ONCE * int(RENDER_BUDGET_SECONDS / render_seconds(tokens))
    remedy = f"at most {most} replicas would do, or " if most else ""
    given.warn(
        "replicas",
        f"the router asks the {counted(replicas, 'engine')} of {given.model.name} to render each "
        f"prompt, {RENDERS_AT_ONCE} at a time, and waits {RENDER_BUDGET_SECONDS:g} s for all: "
        f"prompts of more than about {known:,} tokens are sent without regard to where their "
        f"prefix is ({RENDER_SECONDS_PER_TOKEN * 1e6:.1f} us a token, measured on two shared cores "
        f"with a small model); {remedy}router.strategy: session, which renders nothing",
    )
