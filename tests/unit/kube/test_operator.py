"""A model in mode operator: what is asked of the operator, and what admission adds to its pods."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k8s.charts import build_charts, manifest_app
from k8s.engine import EngineChart
from kascade import KascadeError, ServingPlan, plan_file
from kascade.kube._cel import cel, pointer
from kascade.kube.admission import mutation, validation
from kascade.kube.l2.attachment import attach
from kascade.kube.lmcache import server_args
from kascade.kube.vllm import transfer_arg
from kascade.plan import AdmissionPlan, EnginePlan, MountedWeights
from tests.unit.kube.rendered import Object, find, matches, of_kind, render

CONFIG = Path(__file__).parents[3] / "config" / "operator.yaml"


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return plan_file(CONFIG)


@pytest.fixture(scope="module")
def charts(plan: ServingPlan) -> dict[str, list[Object]]:
    return render(plan)


@pytest.fixture
def engine(plan: ServingPlan) -> EnginePlan:
    (found,) = [engine for engine in plan.engines if engine.operator is not None]
    return found


@pytest.fixture
def chart(charts: dict[str, list[Object]], engine: EnginePlan) -> list[Object]:
    return charts[f"engine-{engine.name}"]


def test_the_operator_makes_deployment_router_and_service(
    charts: dict[str, list[Object]], chart: list[Object]
) -> None:
    ours = [item["metadata"]["name"] for item in of_kind(chart, "Deployment")]
    assert ours == ["qwen2-7b-janitor"]
    assert [item["metadata"]["name"] for item in of_kind(chart, "Service")] == ["qwen2-7b-pods"]
    assert len(of_kind(chart, "InferenceEndpointConfig")) == 1
    routers = {item["metadata"]["name"] for item in charts["router"]}
    assert routers == {"qwen25-7b-router"}
    assert list(charts) == [
        "platform",
        "cache",
        "admission",
        "engine-qwen25-7b",
        "engine-qwen2-7b",
        "router",
        "dashboards",
    ]


def test_the_endpoint_asks_for_no_cache_of_the_operators_own(chart: list[Object]) -> None:
    spec = find(chart, "InferenceEndpointConfig", "qwen2-7b")["spec"]
    assert spec["kvCacheSpec"] == {"enableL1Cache": False, "enableL2Cache": False}
    assert not [word for word in spec["worker"]["args"] if "kv-transfer" in word]
    assert spec["intelligentRoutingSpec"] == {"enabled": True, "routingStrategy": "prefixaware"}


def test_only_the_operators_namespace_and_the_collector_get_in(chart: list[Object]) -> None:
    policy = find(chart, "NetworkPolicy", "qwen2-7b")["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app": "qwen2-7b"}}
    opened = {
        json.dumps(peer, sort_keys=True): [port["port"] for port in rule["ports"]]
        for rule in policy["ingress"]
        for peer in rule["from"]
    }
    inside = {"kubernetes.io/metadata.name": "hyperpod-inference-system"}
    operator = opened.pop(json.dumps({"namespaceSelector": {"matchLabels": inside}}))
    assert operator == [8000, 8081]
    assert all("ipBlock" in peer for peer in opened)
    assert set(map(tuple, opened.values())) == {(8000, 8080)}


def test_without_observability_nobody_scrapes(plan: ServingPlan) -> None:
    bare = replace(plan, network=replace(plan.network, collector_cidrs=()))
    policy = find(render(bare)["engine-qwen2-7b"], "NetworkPolicy", "qwen2-7b")["spec"]
    assert len(policy["ingress"]) == 1


def test_both_kinds_of_policy_hold_one_text(plan: ServingPlan, engine: EnginePlan) -> None:
    own = AdmissionPlan(evaluator="kubernetes", reason="", kyverno=None)
    rendered = render(replace(plan, admission=own))
    assert "admission" not in rendered
    chart = rendered[f"engine-{engine.name}"]
    (kubernetes,) = of_kind(chart, "MutatingAdmissionPolicy")
    (binding,) = of_kind(chart, "MutatingAdmissionPolicyBinding")
    (kyverno,) = of_kind(render(plan)[f"engine-{engine.name}"], "MutatingPolicy")
    assert binding["spec"] == {"policyName": kubernetes["metadata"]["name"]}
    assert kubernetes["spec"].items() <= kyverno["spec"].items()
    assert kyverno["spec"].keys() - kubernetes["spec"].keys() == {
        "autogen",
        "evaluation",
        "webhookConfiguration",
    }


def test_policies_look_at_this_models_pods_alone_and_fail_closed(chart: list[Object]) -> None:
    policies = of_kind(chart, "MutatingPolicy", "ValidatingAdmissionPolicy")
    assert len(policies) == 2
    for policy in policies:
        spec = policy["spec"]
        assert spec["failurePolicy"] == "Fail"
        constraints = spec["matchConstraints"]
        assert matches(constraints["objectSelector"], {"app": "qwen2-7b"})
        assert not matches(constraints["objectSelector"], {"app": "qwen25-7b"})
        assert not matches(constraints["objectSelector"], {})
        assert constraints["namespaceSelector"]["matchLabels"] == {
            "kubernetes.io/metadata.name": "mixed"
        }
        (rule,) = constraints["resourceRules"]
        assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])


def test_the_text_holds_the_arguments_of_our_own_pods(
    plan: ServingPlan, engine: EnginePlan
) -> None:
    l2 = attach(engine, plan.network)
    spec: Any = mutation(engine, l2)
    text = spec["mutations"][0]["jsonPatch"]["expression"]
    assert cel(transfer_arg(engine)) in text
    assert cel(server_args(engine, l2)) in text
    validations: Any = validation(engine, policy="p")["validations"]
    assert cel(transfer_arg(engine)) in validations[1]["expression"]


def test_an_engine_without_l2_gets_its_server_alone(engine: EnginePlan) -> None:
    spec: Any = mutation(replace(engine, lmcache=replace(engine.lmcache, l2=None)), None)
    text = spec["mutations"][0]["jsonPatch"]["expression"]
    assert '"lmcache"' in text
    for absent in ("check-cache-mount", "persistentVolumeClaim", "cache-key"):
        assert absent not in text


def test_mounted_weights_are_the_endpoints_one_volume(
    plan: ServingPlan, engine: EnginePlan
) -> None:
    weights = MountedWeights(claim="models", folder=None, bucket=None)
    mounted = replace(engine, mounted_weights=weights, revision=None)
    engines = tuple(mounted if e is engine else e for e in plan.engines)
    chart = render(replace(plan, engines=engines))[f"engine-{engine.name}"]
    spec = find(chart, "InferenceEndpointConfig", engine.name)["spec"]
    assert spec["modelSourceConfig"] == {"modelSourceType": "kubernetesVolume"}
    (volume,) = spec["kubernetes"]["volumes"]
    mount, worker = spec["worker"]["modelVolumeMount"], spec["worker"]
    assert volume["name"] == mount["name"]
    assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert mount["mountPath"] == f"{worker['workingDir']}/{worker['args'][0]}"
    # The policy finds volume and mount there and adds neither.
    text = of_kind(chart, "MutatingPolicy")[0]["spec"]["mutations"][0]["jsonPatch"]["expression"]
    assert f"== {cel(mount['mountPath'])}) ? []" in text


def test_an_operator_managed_model_without_a_plan_of_its_admission_is_refused(
    plan: ServingPlan, engine: EnginePlan
) -> None:
    app = manifest_app("unused")
    with pytest.raises(KascadeError, match="qwen2-7b is in mode operator"):
        EngineChart(app, "engine", engine=engine, network=plan.network, curvine=plan.curvine)


def test_without_a_router_of_ours_there_is_no_chart_of_routers(plan: ServingPlan) -> None:
    engines = tuple(engine for engine in plan.engines if engine.operator is not None)
    only = replace(plan, engines=engines, routers=())
    assert build_charts(manifest_app("unused"), only).router is None


def test_the_verification_leaves_the_operators_router_alone(chart: list[Object]) -> None:
    (template,) = of_kind(chart, "CronJob")
    args = template["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not [word for word in args if word.startswith("--router")]
    egress = find(chart, "NetworkPolicy", "qwen2-7b-verify")["spec"]["egress"]
    assert len(egress) == 1


def test_kyverno_hears_the_api_server_alone(charts: dict[str, list[Object]]) -> None:
    space = find(charts["admission"], "Namespace", "kyverno")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    policy = find(charts["admission"], "NetworkPolicy", "kyverno")["spec"]
    assert policy["podSelector"] == {}
    (rule,) = policy["ingress"]
    assert rule == {
        "from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}],
        "ports": [{"protocol": "TCP", "port": 9443}],
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a "b" \\ c\n', '"a \\"b\\" \\\\ c\\n"'),
        ({}, "{}"),
        ([], "[]"),
        ({"a": [1, 2]}, '{"a": [dyn(1), dyn(2)]}'),
        ([{"a": "b"}, {"c": 1}], '[dyn({"a": "b"}), dyn({"c": 1})]'),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert cel(value) == text


def test_a_value_without_a_literal_is_refused() -> None:
    with pytest.raises(TypeError, match=r"CEL has no literal for 1\.5"):
        cel({"a": 1.5})


def test_keys_are_steps_of_a_pointer() -> None:
    assert pointer("a~b/c") == "a~0b~1c"
