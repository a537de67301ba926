"""A VPC of several ranges: what every NetworkPolicy makes of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kascade import ServingPlan, plan_file
from tests.unit.kube.rendered import Object, everything, find, of_kind, render

CONFIG = Path(__file__).parents[2] / "data" / "configs" / "existing-ranges.yaml"
EVERYWHERE = "0.0.0.0/0"

CALL_THE_API = {
    "curvine-csi-controller",
    "curvine-csi-node",
    "kascade-cache-keys",
    "kascade-janitor",
    "kyverno",
    "qwen25-7b-router",
}
FETCH_WEIGHTS = {"qwen2-7b", "qwen25-7b"}


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return plan_file(CONFIG)


@pytest.fixture(scope="module")
def charts(plan: ServingPlan) -> dict[str, list[Object]]:
    return render(plan)


def blocks(charts: dict[str, list[Object]]) -> Iterator[tuple[str, list[Object]]]:
    """Each egress rule to addresses, by the name of its policy."""
    for policy in of_kind(everything(charts), "NetworkPolicy"):
        for rule in policy["spec"].get("egress", []):
            found = [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer]
            if found:
                yield policy["metadata"]["name"], found


def outside(ranges: tuple[str, ...], cidrs: list[str]) -> list[str]:
    """Ranges that none of these networks holds whole."""
    held = [IPv4Network(cidr) for cidr in cidrs]
    return [own for own in ranges if not any(IPv4Network(own).subnet_of(each) for each in held)]


def test_the_plan_has_every_range(plan: ServingPlan) -> None:
    assert plan.network.vpc_cidrs == (
        "10.192.0.0/16",
        "10.1.0.0/16",
        "10.2.0.0/16",
        "100.64.0.0/16",
    )


def test_who_calls_the_api_server_may_find_it_in_any_range(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    missed = {
        name: outside(plan.network.vpc_cidrs, [block["cidr"] for block in found])
        for name, found in blocks(charts)
        if EVERYWHERE not in {block["cidr"] for block in found}
    }
    assert missed == {name: [] for name in CALL_THE_API}


def test_who_fetches_weights_reaches_nothing_in_any_range(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    open_to = {
        name: outside(plan.network.vpc_cidrs, block["except"])
        for name, found in blocks(charts)
        for block in found
        if block["cidr"] == EVERYWHERE
    }
    assert open_to == {name: [] for name in FETCH_WEIGHTS}


def test_kyverno_hears_the_api_server_from_any_range(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    (rule,) = find(charts["admission"], "NetworkPolicy", "kyverno")["spec"]["ingress"]
    assert rule["from"] == [{"ipBlock": {"cidr": cidr}} for cidr in plan.network.vpc_cidrs]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9443}]


def test_metrics_stay_with_the_collectors_own_subnets(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    admitted = {
        peer["ipBlock"]["cidr"]
        for policy in of_kind(everything(charts), "NetworkPolicy")
        if policy["metadata"]["name"] != "kyverno"
        for rule in policy["spec"].get("ingress", [])
        for peer in rule["from"]
        if "ipBlock" in peer
    }
    assert admitted == set(plan.network.collector_cidrs)
