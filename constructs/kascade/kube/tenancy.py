"""What an engine's pod needs to keep tenants apart: our middleware in vLLM's server."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import engine_selector, labels
from kascade.kube._objects import Fields, Metadata, add_program, program_hash
from kascade.kube._pods import plain_env
from kascade.kube.engine_program import PYTHON_PATH
from kascade.plan import EnginePlan, TenancyPlan
from kascade.programs.tenancy.settings import HEADER, LARGEST_BODY, TENANTS
from kascade.units import MIB

_PROGRAM: Final = "tenancy"
_VOLUME: Final = "tenancy"
_PACKAGE: Final = "kascade_tenancy"
"""What Python calls it in the pod: a name that hides no package of the image."""

MIDDLEWARE: Final = f"{_PACKAGE}.TenantSalt"


class TenancyProgram(Construct):
    """The middleware's text, beside the engine that it belongs to.

    One for each engine: its chart is applied before anything of the engine's, and it is small.
    """

    def __init__(self, scope: Construct, construct_id: str, *, engine: EnginePlan) -> None:
        """Add the ConfigMap.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            engine: The engine; it has a tenancy.
        """
        super().__init__(scope, construct_id)
        meta = Metadata(
            name=_config_map(engine),
            namespace=engine.namespace,
            labels=labels(engine_selector(engine.name)),
        )
        add_program(self, program=_PROGRAM, meta=meta)


def tenancy_program_hash() -> str:
    """Name the program's text, so that another text restarts the pods."""
    return program_hash(_PROGRAM)


def tenancy_args() -> list[str]:
    """Arguments of ``vllm serve``."""
    return [f"--middleware={MIDDLEWARE}"]


def tenancy_env(tenancy: TenancyPlan) -> list[Fields]:
    """Environment of the container."""
    header = {} if tenancy.header is None else {HEADER: tenancy.header}
    return plain_env(
        {
            TENANTS: ",".join(tenancy.salts),
            **header,
            LARGEST_BODY: str(tenancy.largest_body_mib * MIB),
        }
    )


TENANCY_MOUNT: Final[Fields] = {
    "name": _VOLUME,
    "mountPath": f"{PYTHON_PATH}/{_PACKAGE}",
    "readOnly": True,
}


def tenancy_volume(engine: EnginePlan) -> Fields:
    """Volume of the pod."""
    return {"name": _VOLUME, "configMap": {"name": _config_map(engine)}}


def _config_map(engine: EnginePlan) -> str:
    return f"{engine.name}-tenancy"
