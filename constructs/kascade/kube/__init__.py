"""cdk8s constructs: Curvine, engines, routers, and what they stand on.

Plan a part from a few facts (:func:`plan_pool`, :func:`plan_model`), or a whole deployment with
:func:`kascade.plan_serving`, and hand each construct its slice of the plan. cdk8s is loaded with
the first construct that is asked for, so that what only wants a label starts no Node.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kascade.planning.parts import (
    ModelPlan,
    ModelSettings,
    Nodes,
    PoolPlan,
    PoolSettings,
    plan_model,
    plan_pool,
)

if TYPE_CHECKING:
    from kascade.kube.agents import hyperpod_agents
    from kascade.kube.agreement import check_agreement
    from kascade.kube.classes import Classes
    from kascade.kube.curvine.pool import CurvinePool
    from kascade.kube.curvine.volumes import CurvineVolume
    from kascade.kube.engine import Engine
    from kascade.kube.engine_program import EnginePrograms
    from kascade.kube.namespaces import ClosedNamespace
    from kascade.kube.router import Router

__all__ = [
    "Classes",
    "ClosedNamespace",
    "CurvinePool",
    "CurvineVolume",
    "Engine",
    "EnginePrograms",
    "ModelPlan",
    "ModelSettings",
    "Nodes",
    "PoolPlan",
    "PoolSettings",
    "Router",
    "check_agreement",
    "hyperpod_agents",
    "plan_model",
    "plan_pool",
]

_HOMES = {
    "Classes": "classes",
    "ClosedNamespace": "namespaces",
    "CurvinePool": "curvine.pool",
    "CurvineVolume": "curvine.volumes",
    "Engine": "engine",
    "EnginePrograms": "engine_program",
    "Router": "router",
    "check_agreement": "agreement",
    "hyperpod_agents": "agents",
}


if not TYPE_CHECKING:  # or a misspelt name would be an object to the type checker

    def __getattr__(name: str) -> object:
        """Import what is asked for."""
        if name not in _HOMES:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the names above, and no module behind them."""
    return __all__
