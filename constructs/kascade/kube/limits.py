"""Our middleware in the engines behind a router of ours: it closes paths and ends silence."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import engine_selector, labels
from kascade.kube._objects import Fields, Metadata, add_object, content_hash
from kascade.kube.engine_program import PYTHON_PATH
from kascade.programs import program_files
from kascade.programs.limits import SILENCE_SECONDS
from kascade.sizing.plan import EnginePlan

_PROGRAM: Final = "limits"
_VOLUME: Final = "limits"
_PACKAGE: Final = "kascade_limits"
"""What Python calls it in the pod: a name that hides no package of the image."""

LIMITS_MIDDLEWARE: Final = f"{_PACKAGE}.Limits"

SCALE_OUT: Final = "--enable-scale-out"
"""Without it vLLM answers 403 to ``/render``, upon which the router knows no prefix of any text: it
then goes to the least loaded engine, without a word (vLLM PR 54579)."""


class LimitsProgram(Construct):
    """The middleware's text, beside the engine that it belongs to."""

    def __init__(self, scope: Construct, construct_id: str, *, engine: EnginePlan) -> None:
        """Add the ConfigMap.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            engine: The engine.
        """
        super().__init__(scope, construct_id)
        add_object(
            self,
            api_version="v1",
            kind="ConfigMap",
            meta=Metadata(
                name=_config_map(engine),
                namespace=engine.namespace,
                labels=labels(engine_selector(engine.name)),
            ),
            body={"data": program_files(_PROGRAM)},
        )


def limits_hash() -> str:
    """Name the program's text, so that another text restarts the pods."""
    return content_hash(program_files(_PROGRAM))


def limits_args(engine: EnginePlan) -> list[str]:
    """Arguments of ``vllm serve``."""
    return [
        *([SCALE_OUT] if engine.renders_for_router else []),
        f"--middleware={LIMITS_MIDDLEWARE}",
    ]


def limits_env(engine: EnginePlan) -> dict[str, str]:
    """Environment of the container."""
    return {SILENCE_SECONDS: str(engine.silence_seconds)}


LIMITS_MOUNT: Final[Fields] = {
    "name": _VOLUME,
    "mountPath": f"{PYTHON_PATH}/{_PACKAGE}",
    "readOnly": True,
}


def limits_volume(engine: EnginePlan) -> Fields:
    """Volume of the pod."""
    return {"name": _VOLUME, "configMap": {"name": _config_map(engine)}}


def _config_map(engine: EnginePlan) -> str:
    return f"{engine.name}-limits"
