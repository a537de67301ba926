"""Programs of ours in an engine's pod: an honest `/health`, limits, drain, and a check of its GPUs.

One ConfigMap for all engines of a namespace, applied before any of them.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.errors import KascadeError
from kascade.kube._labels import GPU_RESOURCE, labels
from kascade.kube._objects import Fields, Metadata, add_program, program_hash
from kascade.kube._pods import (
    HELPER_RESOURCES,
    HELPER_SIZE,
    NO_PRIVILEGES,
    NVIDIA_ENV,
    SHM_MOUNT,
    plain_env,
    resources,
)
from kascade.kube.cache_program import CACHE_CONFIG_MAP, CACHE_PROGRAM
from kascade.plan import EnginePlan
from kascade.planning.parts import namespace_error
from kascade.programs.engine.health import SILENT_SECONDS

_PROGRAM: Final = "engine"
_CONFIG_MAP: Final = "kascade-engine"
PACKAGE: Final = "kascade_engine"
"""What Python calls it in the pod: a name that hides no package of the image."""

PYTHON_PATH: Final = "/opt/kascade"
"""Where every program of ours lies in an engine's pod."""

PROGRAM_VOLUME: Final = "programs"

PROGRAM_MOUNT: Final[Fields] = {
    "name": PROGRAM_VOLUME,
    "mountPath": f"{PYTHON_PATH}/{PACKAGE}",
    "readOnly": True,
}

PROGRAM_ENV: Final = {"PYTHONPATH": PYTHON_PATH}

HEALTH_ARG: Final = f"--middleware={PACKAGE}.CoreHealth"
"""Argument of ``vllm serve``; the last of its kind is the outermost layer."""

GPUS_FILE: Final = "/dev/shm/kascade-gpus"  # noqa: S108 - shared memory
"""UUIDs of the pod's GPUs, as ``CUDA_VISIBLE_DEVICES`` takes them."""

CHECK_GPU: Final = "check-gpu"
CHECK_CACHE_GPU: Final = "check-cache-gpu"


class EnginePrograms(Construct):
    """The programs of ours that every engine of a namespace mounts: vLLM's and LMCache's.

    Two ConfigMaps, once in a namespace, applied before any engine.
    """

    def __init__(self, scope: Construct, construct_id: str, *, namespace: str) -> None:
        """Add the ConfigMaps.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespace: Of the engines.

        Raises:
            KascadeError: It cannot be the name of one.
        """
        super().__init__(scope, construct_id)
        if (problem := namespace_error(namespace)) is not None:
            raise KascadeError(problem)
        for program, name in ((CACHE_PROGRAM, CACHE_CONFIG_MAP), (_PROGRAM, _CONFIG_MAP)):
            meta = Metadata(name=name, namespace=namespace, labels=labels({}))
            add_program(self, program=program, meta=meta)


def engine_program_hash() -> str:
    """Name the programs' text, so that another text restarts the pods."""
    return program_hash(_PROGRAM)


def program_volume() -> Fields:
    """Volume of the pod."""
    return {"name": PROGRAM_VOLUME, "configMap": {"name": _CONFIG_MAP}}


def health_env(engine: EnginePlan) -> dict[str, str]:
    """Environment of vLLM."""
    return {**PROGRAM_ENV, SILENT_SECONDS: str(engine.core_silent_seconds)}


def pre_stop(engine: EnginePlan) -> Fields:
    """Handler that ends once nothing runs, and at the latest after the plan's drain."""
    return {
        "exec": {
            "command": [
                "python3",
                "-m",
                f"{PACKAGE}.drain",
                f"http://127.0.0.1:{engine.port}",
                str(engine.notice_seconds),
                str(engine.drain_seconds),
            ]
        }
    }


def gpu_checks(engine: EnginePlan) -> list[Fields]:
    """Init containers that prove, before anything starts, that both programs get the same GPUs.

    The first asks for GPUs as vLLM does. The kubelet hands an init container's devices to the
    containers after it, so they are vLLM's, and a pod's request is the larger of the two. The
    second asks for none, as the LMCache server does.
    """
    return [
        _check(
            CHECK_GPU,
            engine,
            ["take", str(engine.gpus), GPUS_FILE],
            size=resources(HELPER_SIZE, {GPU_RESOURCE: engine.gpus}),
        ),
        _check(CHECK_CACHE_GPU, engine, ["find", GPUS_FILE], env=NVIDIA_ENV),
    ]


def _check(
    name: str,
    engine: EnginePlan,
    args: list[str],
    *,
    size: Fields = HELPER_RESOURCES,
    env: dict[str, str] | None = None,
) -> Fields:
    return {
        "name": name,
        "image": engine.image,
        "command": ["python3", "-m", f"{PACKAGE}.gpus"],
        "args": args,
        "env": plain_env({**PROGRAM_ENV, **(env or {})}),
        "resources": size,
        "securityContext": {**NO_PRIVILEGES, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [SHM_MOUNT, PROGRAM_MOUNT],
    }
