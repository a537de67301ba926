"""Our middleware in the engines behind a router of ours: it closes paths and ends silence."""

from __future__ import annotations

from typing import Final

from kascade.kube.engine_program import PACKAGE
from kascade.plan import EnginePlan
from kascade.programs.engine.limits import SILENCE_SECONDS

LIMITS_MIDDLEWARE: Final = f"{PACKAGE}.Limits"

SCALE_OUT: Final = "--enable-scale-out"
"""Without it vLLM answers 403 to ``/render``, upon which the router knows no prefix of any text: it
then goes to the least loaded engine, without a word (vLLM PR 54579)."""


def limits_args(engine: EnginePlan) -> list[str]:
    """Arguments of ``vllm serve``."""
    return [
        *([SCALE_OUT] if engine.renders_for_router else []),
        f"--middleware={LIMITS_MIDDLEWARE}",
    ]


def limits_env(engine: EnginePlan) -> dict[str, str]:
    """Environment of the container."""
    return {SILENCE_SECONDS: str(engine.silence_seconds)}
