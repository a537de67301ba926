"""The verification of sharing as objects: a template that nobody runs by itself."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import replace

import kubernetes_validate
import pytest

from kascade.cli.job import job_from
from kascade.plan import ServingPlan, VerifyPlan
from kascade.programs import program_files
from kascade.programs.verify.command import _parser, settings
from tests.unit.kube.rendered import (
    Object,
    container,
    everything,
    find,
    matches,
    of_kind,
    pod,
    pod_labels,
)

Render = Callable[[ServingPlan], dict[str, list[Object]]]


@pytest.fixture
def verify(default_plan: ServingPlan) -> VerifyPlan:
    return default_plan.verifications[0]


@pytest.fixture
def engine_chart(default_charts: dict[str, list[Object]], verify: VerifyPlan) -> list[Object]:
    return default_charts[f"engine-{verify.engine}"]


@pytest.fixture
def template(engine_chart: list[Object], verify: VerifyPlan) -> Object:
    return find(engine_chart, "CronJob", verify.name)


def test_every_engine_that_can_share_has_one(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    expected = [engine.name for engine in plan.engines if engine.lmcache.l2 is not None]
    assert [verify.engine for verify in plan.verifications] == expected
    assert len(of_kind(everything(charts), "CronJob")) == len(expected)


def test_without_an_l2_there_is_none(default_plan: ServingPlan, rendered: Render) -> None:
    charts = rendered(replace(default_plan, verifications=()))
    assert of_kind(everything(charts), "CronJob") == []


def test_it_runs_only_when_somebody_starts_it_and_then_once(template: Object) -> None:
    spec = template["spec"]
    assert spec["suspend"] is True
    assert spec["concurrencyPolicy"] == "Forbid"
    job = spec["jobTemplate"]["spec"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_deadlines_fit_into_each_other(template: Object, verify: VerifyPlan) -> None:
    job = template["spec"]["jobTemplate"]["spec"]
    longest = verify.replicas * (2 * verify.request_seconds + verify.store_seconds)
    assert job["activeDeadlineSeconds"] > longest
    assert job["ttlSecondsAfterFinished"] > job["activeDeadlineSeconds"]


def test_its_name_leaves_room_for_what_kubernetes_adds(plan: ServingPlan) -> None:
    # Longest allowed model name and our ending; a CronJob's name may have 52 characters.
    assert all(len(verify.name) <= 52 for verify in plan.verifications)
    assert len("x" * 32 + "-verify") <= 52


def test_it_has_no_rights_no_root_and_no_token(template: Object) -> None:
    spec = pod(template)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    context = container(spec, "verify")["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_program_reads_its_arguments(template: Object, verify: VerifyPlan) -> None:
    part = container(pod(template), "verify")
    assert part["command"] == ["python3", "-m", "verify"]
    arguments = _parser().parse_args(part["args"])
    assert arguments.discover == verify.pods_service
    assert arguments.router_url == f"http://{verify.router}:{verify.router_port}"
    chosen = settings(arguments)
    assert chosen.prompt_tokens == verify.prompt_tokens
    assert chosen.ttft_ratio == verify.ttft_ratio
    assert chosen.router_policy == verify.router_policy
    assert chosen.request_seconds == verify.request_seconds


def test_the_job_that_the_command_makes_of_it_fits_the_schema(template: Object) -> None:
    live = {**template, "metadata": {**template["metadata"], "uid": "0-1"}}
    given = argparse.Namespace(seed=5, tokens=None, ttft_ratio=0.5)
    job = job_from(copy.deepcopy(live), "a-verify-0a1b2c", given)
    kubernetes_validate.validate(job, "1.35", strict=True)
    assert job["spec"]["backoffLimit"] == 0
    made = container(pod(job), "verify")["args"]
    assert _parser().parse_args(made).seed == 5
    assert _parser().parse_args(made).ttft_ratio == 0.5


def test_the_config_map_holds_the_whole_program_where_python_looks(
    template: Object, default_charts: dict[str, list[Object]]
) -> None:
    part = container(pod(template), "verify")
    (mount,) = part["volumeMounts"]
    (volume,) = pod(template)["volumes"]
    environment = {entry["name"]: entry["value"] for entry in part["env"]}
    assert mount["mountPath"] == f"{environment['PYTHONPATH']}/verify"
    carried = find(default_charts["cache"], "ConfigMap", volume["configMap"]["name"])
    assert carried["data"] == program_files("verify")


def test_the_service_lists_ready_replicas_by_their_own_addresses(
    engine_chart: list[Object], verify: VerifyPlan
) -> None:
    spec = find(engine_chart, "Service", verify.pods_service)["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is False
    deployment = find(engine_chart, "Deployment", verify.engine)
    assert matches({"matchLabels": spec["selector"]}, pod_labels(deployment))


def test_it_reaches_its_engine_and_its_router_and_they_let_it_in(
    template: Object, default_charts: dict[str, list[Object]], verify: VerifyPlan
) -> None:
    objects = everything(default_charts)
    assert verify.router is not None
    assert verify.router_port is not None
    outgoing = find(objects, "NetworkPolicy", verify.name)["spec"]
    assert matches(outgoing["podSelector"], pod_labels(template))
    opened = sorted(port["port"] for rule in outgoing["egress"] for port in rule["ports"])
    assert verify.router_metrics_port is not None
    ports = [verify.engine_port, verify.lmcache_port, verify.router_port]
    assert opened == sorted([*ports, verify.router_metrics_port])
    incoming = find(objects, "NetworkPolicy", f"{verify.name}-ingress")["spec"]
    (rule,) = incoming["ingress"]
    assert matches(rule["from"][0]["podSelector"], pod_labels(template))
    router = find(objects, "NetworkPolicy", verify.router)["spec"]["ingress"]
    clients = [peer.get("podSelector", {}) for rule in router for peer in rule["from"]]
    assert any(c and matches(c, pod_labels(template)) for c in clients)


@pytest.mark.parametrize(
    ("even", "judged", "tokens"), [(None, False, 6000), (1000, True, 6000), (4000, True, 8000)]
)
def test_the_prompt_is_long_enough_to_pay(
    even: int | None, judged: bool, tokens: int, default_plan: ServingPlan
) -> None:
    from kascade.plan import Figure
    from kascade.sizing.verification import verify_plan

    engine = default_plan.engines[0]
    figure = None if even is None else Figure(value=even, unit="tokens", reason="")
    engine = replace(
        engine,
        max_model_len=32768,
        figures=replace(engine.figures, break_even_tokens=figure, break_even_reason="no gain"),
    )
    made = verify_plan(engine, default_plan.routers[0], image="python")
    assert made is not None
    assert (made.ttft_ratio is not None, made.prompt_tokens) == (judged, tokens)
    short = verify_plan(replace(engine, max_model_len=2000), default_plan.routers[0], image="p")
    assert short is not None
    assert short.prompt_tokens == 1500
    # Another number of replicas changes no object of the verification.
    single = verify_plan(replace(engine, replicas=1), default_plan.routers[0], image="python")
    assert single == replace(made, replicas=1)
    bare = replace(engine, lmcache=replace(engine.lmcache, l2=None))
    assert verify_plan(bare, default_plan.routers[0], image="python") is None
