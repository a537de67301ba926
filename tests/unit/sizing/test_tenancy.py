"""Who is kept apart: the plan of salted and isolated models."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kascade import ServingPlan, plan_file
from kascade.catalog.kubernetes import KEY_SECRET
from kascade.plan import EnginePlan, L2Plan, ManagedL2Plan
from kascade.sizing.tenancy import CONTROL_TENANT, TENANT_HEADER, VERIFY_TENANT, shared_places

FOLDER = Path(__file__).parents[3] / "config"
CONFIGS = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return plan_file(FOLDER / "tenants.yaml")


def l2_of(engine: EnginePlan) -> L2Plan:
    assert engine.lmcache.l2 is not None
    return engine.lmcache.l2


def place_of(l2: L2Plan) -> str:
    """A folder of the pool or of a claim, or the daemon's name for a set of blocks."""
    return l2.bucket if isinstance(l2, ManagedL2Plan) else f"{l2.directory}/"


def moved(engine: EnginePlan, **places: Any) -> EnginePlan:
    return replace(engine, lmcache=replace(engine.lmcache, l2=replace(l2_of(engine), **places)))


def test_an_isolated_tenant_has_engines_of_its_own(plan: ServingPlan) -> None:
    assert [engine.name for engine in plan.engines] == [
        "qwen2-7b",
        "qwen25-7b-carol",
        "qwen25-7b-dave",
    ]
    _, carol, dave = plan.engines
    assert carol.replicas == dave.replicas == 2
    assert carol.served_name == dave.served_name == "Qwen/Qwen2.5-7B-Instruct"
    assert [router.engine for router in plan.routers] == [engine.name for engine in plan.engines]
    assert [verification.engine for verification in plan.verifications] == [
        e.name for e in plan.engines
    ]
    assert {row.model for row in plan.tiers} == {engine.name for engine in plan.engines}


def test_each_isolated_tenant_has_a_key_and_the_others_share_one(plan: ServingPlan) -> None:
    assert [l2_of(engine).key_secret for engine in plan.engines] == [
        KEY_SECRET,
        f"{KEY_SECRET}-qwen25-7b-carol",
        f"{KEY_SECRET}-qwen25-7b-dave",
    ]


def test_salts(plan: ServingPlan) -> None:
    salted, carol, _ = (engine.tenancy for engine in plan.engines)
    assert salted is not None
    assert salted.salts == ("alice", "bob", VERIFY_TENANT, CONTROL_TENANT)
    assert salted.header == TENANT_HEADER
    assert carol is not None
    assert carol.salts == ("carol",)
    assert carol.header is None


def test_the_proof_asks_as_a_tenant_that_has_no_gateway(plan: ServingPlan) -> None:
    tenant_gateways = {gateway.tenant for gateway in plan.tenant_gateways}
    assert tenant_gateways == {"alice", "bob"}
    salted, *isolated = plan.verifications
    assert {salted.tenant, salted.control_tenant} == {VERIFY_TENANT, CONTROL_TENANT}
    assert not {salted.tenant, salted.control_tenant} & tenant_gateways
    assert [(verification.tenant, verification.control_tenant) for verification in isolated] == [
        (None, None)
    ] * 2


def test_clients_are_admitted_by_tenant(plan: ServingPlan) -> None:
    assert [router.client_label for router in plan.routers] == [
        None,
        "tenant.kascade.dev/carol",
        "tenant.kascade.dev/dave",
    ]
    assert [gateway.client_label for gateway in plan.tenant_gateways] == [
        "tenant.kascade.dev/alice",
        "tenant.kascade.dev/bob",
    ]


def test_a_gateway_outwaits_its_router(plan: ServingPlan) -> None:
    for gateway in plan.tenant_gateways:
        (router,) = (r for r in plan.routers if r.name == gateway.router)
        assert gateway.request_timeout_seconds > router.request_timeout_seconds
        assert gateway.max_payload_mib == router.max_payload_mib
        assert router.tenancy is not None
        assert router.tenancy.largest_body_mib > router.max_payload_mib


@pytest.mark.parametrize("name", CONFIGS)
def test_no_two_engines_share_a_place(name: str) -> None:
    engines = plan_file(FOLDER / f"{name}.yaml").engines
    assert list(shared_places(engines)) == []
    for one, other in combinations(engines, 2):
        ours, theirs = (place_of(l2_of(engine)) for engine in (one, other))
        assert not ours.startswith(theirs)
        assert not theirs.startswith(ours)


@pytest.mark.parametrize("what", ["volume", "directory", "key_secret"])
def test_a_shared_place_is_refused(plan: ServingPlan, what: str) -> None:
    _, carol, dave = plan.engines
    planted = (carol, moved(dave, **{what: getattr(l2_of(carol), what)}))
    (problem,) = shared_places(planted)
    assert f"qwen25-7b-carol and qwen25-7b-dave would share the {what}" in problem.message


def test_a_shared_model_may_not_have_an_isolated_tenants_key(plan: ServingPlan) -> None:
    salted, carol, _ = plan.engines
    secret = l2_of(carol).key_secret
    assert secret is not None
    (problem,) = shared_places((moved(salted, key_secret=secret), carol))
    assert "key_secret" in problem.message


def test_without_tenants_nothing_changes() -> None:
    plan = plan_file(FOLDER / "default.yaml")
    assert plan.tenant_gateways == ()
    assert [engine.tenancy for engine in plan.engines] == [None]
    assert [router.client_label for router in plan.routers] == ["kascade.dev/client"]
