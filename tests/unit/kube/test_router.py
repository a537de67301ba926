"""The router in front of each model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kascade.plan import RouterPlan, ServingPlan
from tests.unit.kube.rendered import (
    Object,
    container,
    find,
    flags,
    of_kind,
    pod,
    pod_labels,
    ports,
)

Render = Callable[[ServingPlan], dict[str, list[Object]]]


@pytest.fixture
def router(default_plan: ServingPlan) -> RouterPlan:
    return default_plan.routers[0]


@pytest.fixture
def args(router: RouterPlan, default_charts: dict[str, list[Object]]) -> list[str]:
    deployment = find(default_charts["router"], "Deployment", router.name)
    written: list[str] = container(pod(deployment), "router")["args"]
    return written


def test_one_router_per_model(plan: ServingPlan, charts: dict[str, list[Object]]) -> None:
    names = {item["metadata"]["name"] for item in of_kind(charts["router"], "Deployment")}
    assert names - {gateway.name for gateway in plan.tenant_gateways} == {
        router.name for router in plan.routers
    }


def test_selector_finds_exactly_its_engine(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    engines = {
        engine.name: find(charts[f"engine-{engine.name}"], "Deployment", engine.name)
        for engine in plan.engines
    }
    for router in plan.routers:
        deployment = find(charts["router"], "Deployment", router.name)
        args = container(pod(deployment), "router")["args"]
        start = args.index("--selector") + 1
        pairs = []
        for argument in args[start:]:
            if argument.startswith("--"):
                break
            pairs.append(tuple(argument.split("=")))
        found = [
            name for name, engine in engines.items() if set(pairs) <= pod_labels(engine).items()
        ]
        assert found == [router.engine]
        port = int(flags(args)["--service-discovery-port"])
        assert port in ports(engines[router.engine])
        namespace = flags(args)["--service-discovery-namespace"]
        assert namespace == engines[router.engine]["metadata"]["namespace"]


def test_arguments_are_the_plans(router: RouterPlan, args: list[str]) -> None:
    given = flags(args)
    assert given["--policy"] == router.policy
    assert given["--request-timeout-secs"] == str(router.request_timeout_seconds)
    assert given["--max-payload-size"] == str(router.max_payload_mib * 1024 * 1024)
    assert given["--max-concurrent-requests"] == str(router.max_concurrent_requests)


def test_out_of_reach_defaults_are_replaced(args: list[str]) -> None:
    given = flags(args)
    assert given["--host"] == given["--prometheus-host"] == "0.0.0.0"  # noqa: S104
    assert given["--health-check-interval-secs"] == "1"
    assert given["--cb-timeout-duration-secs"] == "1"


def test_the_breaker_opens_before_all_attempts_are_spent(args: list[str]) -> None:
    given = flags(args)
    assert int(given["--cb-failure-threshold"]) < int(given["--retry-max-retries"])


def test_others_outlast_a_breaker_that_one_request_opened(args: list[str]) -> None:
    given = flags(args)
    pauses = int(given["--retry-max-retries"]) - 1
    # Each pause is 1.5 times the one before, and up to a fifth shorter (the router's defaults).
    shortest = sum(
        0.8 * int(given["--retry-initial-backoff-ms"]) * 1.5**number for number in range(pauses)
    )
    assert shortest > 1000 * int(given["--cb-timeout-duration-secs"])


@pytest.mark.parametrize("policy", ["cache_aware", "consistent_hash"])
def test_thresholds_belong_to_cache_aware(
    policy: str, router: RouterPlan, default_plan: ServingPlan, rendered: Render
) -> None:
    other = replace(router, policy=policy)
    (engine,) = default_plan.engines
    engines = (replace(engine, renders_for_router=policy == "cache_aware"),)
    (verification,) = default_plan.verifications
    verifications = (replace(verification, router_policy=policy),)
    charts = rendered(
        replace(default_plan, engines=engines, routers=(other,), verifications=verifications)
    )
    deployment = find(charts["router"], "Deployment", router.name)
    given = flags(container(pod(deployment), "router")["args"])
    expected = {"--balance-abs-threshold": "4", "--balance-rel-threshold": "1.1"}
    assert {name: value for name, value in given.items() if name in expected} == (
        expected if policy == "cache_aware" else {}
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_budget_only_for_several(
    replicas: int, router: RouterPlan, default_plan: ServingPlan, rendered: Render
) -> None:
    charts = rendered(replace(default_plan, routers=(replace(router, replicas=replicas),)))
    assert len(of_kind(charts["router"], "PodDisruptionBudget")) == replicas - 1


def test_rights_end_at_reading_pods(
    router: RouterPlan, default_charts: dict[str, list[Object]]
) -> None:
    role = find(default_charts["router"], "Role", router.name)
    assert role["metadata"]["namespace"] == router.namespace
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]


def test_only_labelled_clients_reach_the_api(
    router: RouterPlan, default_charts: dict[str, list[Object]]
) -> None:
    policy = find(default_charts["router"], "NetworkPolicy", router.name)["spec"]
    (rule,) = [
        rule
        for rule in policy["ingress"]
        if router.port in [entry["port"] for entry in rule["ports"]]
    ]
    assert rule["from"] == [
        {"podSelector": {"matchLabels": {"kascade.dev/client": "true"}}},
        {"namespaceSelector": {"matchLabels": {"kascade.dev/client": "true"}}},
    ]


def test_the_verification_alone_may_ask_what_the_router_does_not_know(
    router: RouterPlan, default_charts: dict[str, list[Object]]
) -> None:
    policy = find(default_charts["router"], "NetworkPolicy", router.name)["spec"]
    rules = [
        rule
        for rule in policy["ingress"]
        if router.metrics_port in [entry["port"] for entry in rule["ports"]]
    ]
    peers = [peer for rule in rules for peer in rule["from"] if "ipBlock" not in peer]
    ((name, labels),) = [(k, v) for peer in peers for k, v in peer.items()]
    assert name == "podSelector"
    assert labels["matchLabels"]["app.kubernetes.io/component"] == "verify"


def test_it_runs_without_root(router: RouterPlan, default_charts: dict[str, list[Object]]) -> None:
    spec = pod(find(default_charts["router"], "Deployment", router.name))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container(spec, "router")["securityContext"]["readOnlyRootFilesystem"] is True
