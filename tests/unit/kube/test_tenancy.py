"""What keeps tenants apart, as objects: middleware, tenant gateways, and who may reach whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kascade.kube.limits import LIMITS_MIDDLEWARE
from kascade.kube.tenant_gateway import nginx_config
from kascade.plan import ServingPlan, TenantGatewayPlan
from kascade.programs import program_files
from tests.unit.kube.conftest import _charts, _plan
from tests.unit.kube.rendered import (
    Object,
    container,
    everything,
    find,
    flags,
    matches,
    of_kind,
    pod,
    pod_labels,
    pod_template,
    ports,
)

Render = Callable[[ServingPlan], dict[str, list[Object]]]


@pytest.fixture
def plan() -> ServingPlan:
    return _plan("tenants")


@pytest.fixture
def charts() -> dict[str, list[Object]]:
    return _charts("tenants")


@pytest.fixture
def objects(charts: dict[str, list[Object]]) -> list[Object]:
    return everything(charts)


@pytest.fixture
def gateway(plan: ServingPlan) -> TenantGatewayPlan:
    return plan.tenant_gateways[0]


def environment(part: Object) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in part["env"] if "value" in entry}


def test_every_engine_sets_its_salts(plan: ServingPlan, charts: dict[str, list[Object]]) -> None:
    for engine in plan.engines:
        assert engine.tenancy is not None
        chart = charts[f"engine-{engine.name}"]
        deployment = find(chart, "Deployment", engine.name)
        part = container(pod(deployment), "vllm")
        assert "--middleware=kascade_tenancy.TenantSalt" in part["args"]
        env = environment(part)
        assert env["KASCADE_TENANTS"] == ",".join(engine.tenancy.salts)
        assert env.get("KASCADE_TENANT_HEADER") == engine.tenancy.header
        assert int(env["KASCADE_LARGEST_BODY_BYTES"]) == engine.tenancy.largest_body_mib << 20
        (mount,) = (m for m in part["volumeMounts"] if m["name"] == "tenancy")
        assert mount["mountPath"] == f"{env['PYTHONPATH']}/kascade_tenancy"
        assert mount["readOnly"] is True
        data = find(chart, "ConfigMap", f"{engine.name}-tenancy")["data"]
        assert data == program_files("tenancy")
        assert set(data) == {"__init__.py", "middleware.py", "paths.py", "settings.py"}
        assert "kascade.dev/config-hash" in pod_template(deployment)["metadata"]["annotations"]


def test_an_engine_that_all_share_has_none_of_it(default_charts: dict[str, list[Object]]) -> None:
    deployment = find(default_charts["engine-qwen2-7b"], "Deployment", "qwen2-7b")
    part = container(pod(deployment), "vllm")
    assert [word for word in part["args"] if word.startswith("--middleware")] == [
        f"--middleware={LIMITS_MIDDLEWARE}",
        "--middleware=kascade_engine.CoreHealth",
    ]
    assert [name for name in environment(part) if name.startswith("KASCADE_T")] == []
    assert of_kind(default_charts["engine-qwen2-7b"], "ConfigMap") == []


def admitted(objects: list[Object], labels: dict[str, str], namespace: dict[str, str]) -> set[str]:
    """Name the pods whose policies let a pod with these labels in, from another namespace or ours.

    Args:
        objects: All objects.
        labels: Of a pod in the serving namespace, or empty.
        namespace: Labels of another namespace, or empty.
    """
    found = set()
    for policy in of_kind(objects, "NetworkPolicy"):
        if policy["metadata"]["namespace"] != "tenants":
            continue
        for rule in policy["spec"].get("ingress", []):
            for peer in rule["from"]:
                inside = bool(labels) and "podSelector" in peer and "namespaceSelector" not in peer
                outside = bool(namespace) and "namespaceSelector" in peer
                if (inside and matches(peer["podSelector"], labels)) or (
                    outside and matches(peer["namespaceSelector"], namespace)
                ):
                    found.add(policy["metadata"]["name"])
    return found


@pytest.mark.parametrize(
    ("label", "reached"),
    [
        ("tenant.kascade.dev/alice", {"qwen2-7b-alice-gateway"}),
        ("tenant.kascade.dev/bob", {"qwen2-7b-bob-gateway"}),
        ("tenant.kascade.dev/carol", {"qwen25-7b-carol-router"}),
        ("tenant.kascade.dev/dave", {"qwen25-7b-dave-router"}),
        # Of the other models of a cluster.
        ("kascade.dev/client", set()),
        ("tenant.kascade.dev/kascade-verifier", set()),
    ],
)
def test_a_client_reaches_its_own_way_in_and_nothing_else(
    objects: list[Object], label: str, reached: set[str]
) -> None:
    assert admitted(objects, {label: "true"}, {}) == reached
    assert admitted(objects, {}, {label: "true"}) == reached


def test_a_salted_router_admits_its_gateways_and_the_proof(
    plan: ServingPlan, objects: list[Object]
) -> None:
    tenant_gateways = {gateway.name for gateway in plan.tenant_gateways}
    router = find(objects, "NetworkPolicy", "qwen2-7b-router")["spec"]
    (rule,) = (r for r in router["ingress"] if r["ports"][0]["port"] == plan.routers[0].port)
    everyone = of_kind(objects, "Deployment", "CronJob")
    let_in = {
        item["metadata"]["name"]
        for item in everyone
        for peer in rule["from"]
        if matches(peer["podSelector"], pod_labels(item))
    }
    assert let_in == tenant_gateways | {"qwen2-7b-verify"}


def test_an_isolated_router_admits_the_verification_of_its_own_engine(
    objects: list[Object],
) -> None:
    verify = pod_labels(find(objects, "CronJob", "qwen25-7b-carol-verify"))
    ways = {"qwen25-7b-carol-router", "qwen25-7b-carol-verify-ingress"}
    assert admitted(objects, verify, {}) == ways


def test_each_engine_mounts_its_own_key_and_volume(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    secrets, claims = [], []
    for engine in plan.engines:
        volumes = pod(find(charts[f"engine-{engine.name}"], "Deployment", engine.name))["volumes"]
        secrets += [v["secret"]["secretName"] for v in volumes if "secret" in v]
        claims += [
            v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
        ]
    assert len(set(secrets)) == len(set(claims)) == len(plan.engines)


def test_one_job_makes_all_keys_inside_the_cluster(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    role = find(charts["cache"], "Role", "kascade-cache-keys")
    wanted = {engine.lmcache.l2.key_secret for engine in plan.engines if engine.lmcache.l2}
    assert set(role["rules"][0]["resourceNames"]) == wanted
    assert len(wanted) == 3


def test_a_gateway_has_no_rights_no_root_and_a_budget(
    charts: dict[str, list[Object]], gateway: TenantGatewayPlan
) -> None:
    deployment = find(charts["router"], "Deployment", gateway.name)
    spec = pod(deployment)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    part = container(spec, "tenant-gateway")
    assert part["securityContext"]["readOnlyRootFilesystem"] is True
    assert part["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert ports(deployment) == {gateway.port}
    assert deployment["spec"]["replicas"] == 2
    assert find(charts["router"], "PodDisruptionBudget", gateway.name)
    assert spec["terminationGracePeriodSeconds"] > gateway.request_timeout_seconds


def test_a_gateway_reads_the_configuration_that_is_mounted(
    charts: dict[str, list[Object]], gateway: TenantGatewayPlan
) -> None:
    deployment = find(charts["router"], "Deployment", gateway.name)
    part = container(pod(deployment), "tenant-gateway")
    (volume,) = (v for v in pod(deployment)["volumes"] if "configMap" in v)
    (mount,) = (m for m in part["volumeMounts"] if m["name"] == volume["name"])
    data = find(charts["router"], "ConfigMap", volume["configMap"]["name"])["data"]
    assert {f"{mount['mountPath']}/{name}" for name in data} <= set(part["args"])
    assert data == {"nginx.conf": nginx_config(gateway)}


def test_another_configuration_restarts_a_gateway(
    plan: ServingPlan, rendered: Render, gateway: TenantGatewayPlan
) -> None:
    from dataclasses import replace

    def noted(one: TenantGatewayPlan) -> str:
        changed = replace(plan, tenant_gateways=(one,))
        found: str = pod_template(find(rendered(changed)["router"], "Deployment", one.name))[
            "metadata"
        ]["annotations"]["kascade.dev/config-hash"]
        return found

    assert noted(gateway) != noted(replace(gateway, max_payload_mib=1))


def test_a_gateway_sets_its_tenant_and_leads_to_two_posts(gateway: TenantGatewayPlan) -> None:
    config = nginx_config(gateway)
    assert f"proxy_set_header x-kascade-tenant {gateway.tenant};" in config
    assert config.count("proxy_pass") == 3
    assert "proxy_buffering off;" in config
    assert "proxy_request_buffering off;" in config


def test_the_verification_of_a_salted_engine_asks_as_a_tenant(
    charts: dict[str, list[Object]],
) -> None:
    salted = container(pod(find(charts["engine-qwen2-7b"], "CronJob", "qwen2-7b-verify")), "verify")
    assert flags(salted["args"])["--tenant"] == "kascade-verifier"
    assert flags(salted["args"])["--control-tenant"] == "kascade-control"
    alone = find(charts["engine-qwen25-7b-carol"], "CronJob", "qwen25-7b-carol-verify")
    assert "--tenant" not in flags(container(pod(alone), "verify")["args"])
