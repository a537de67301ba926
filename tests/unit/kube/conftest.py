from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kascade import plan_file
from kascade.plan import CurvineL2Plan, CurvinePlan, EnginePlan, ServingPlan
from tests.unit.kube.rendered import Object, everything, render

_CONFIG = Path(__file__).parents[3] / "config"


CONFIGS = ("default", "fleet", "managed", "directory", "tenants")


@cache
def _plan(name: str) -> ServingPlan:
    return plan_file(_CONFIG / f"{name}.yaml")


@cache
def _charts(name: str) -> dict[str, list[Object]]:
    return render(_plan(name))


@pytest.fixture(params=CONFIGS)
def any_plan(request: pytest.FixtureRequest) -> ServingPlan:
    """Each kind of L2."""
    return _plan(request.param)


@pytest.fixture
def managed() -> ServingPlan:
    return _plan("managed")


@pytest.fixture
def directory() -> ServingPlan:
    return _plan("directory")


@pytest.fixture(params=["default", "fleet", "tenants"])
def plan(request: pytest.FixtureRequest) -> ServingPlan:
    """Each of the plans that ship with the project."""
    return _plan(request.param)


@pytest.fixture
def charts(plan: ServingPlan) -> dict[str, list[Object]]:
    """The plan's charts."""
    return next(_charts(name) for name in CONFIGS if _plan(name) is plan)


@pytest.fixture
def objects(charts: dict[str, list[Object]]) -> list[Object]:
    """The objects of all charts."""
    return everything(charts)


@pytest.fixture
def default_plan() -> ServingPlan:
    return _plan("default")


@pytest.fixture
def default_charts() -> dict[str, list[Object]]:
    return _charts("default")


@pytest.fixture
def curvine(default_plan: ServingPlan) -> CurvinePlan:
    assert default_plan.curvine is not None
    return default_plan.curvine


@pytest.fixture
def engine(default_plan: ServingPlan) -> EnginePlan:
    return default_plan.engines[0]


@pytest.fixture
def l2(engine: EnginePlan) -> CurvineL2Plan:
    assert isinstance(engine.lmcache.l2, CurvineL2Plan)
    return engine.lmcache.l2


@pytest.fixture
def rendered() -> Callable[[ServingPlan], dict[str, list[Object]]]:
    """Render a plan of one's own."""
    return render
