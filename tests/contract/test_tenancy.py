"""The rendered middleware in vLLM's own server: every path, every tenant, and nobody."""

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kascade import ServingPlan
from kascade.kube.tenancy import MIDDLEWARE
from kascade.plan import EnginePlan, TenancyPlan
from kascade.programs.tenancy.paths import OPEN, SALTED
from kascade.programs.verify.client import TENANT_HEADER as ASKED_WITH
from kascade.sizing.tenancy import GATEWAY_GETS, GATEWAY_POSTS, TENANT_HEADER
from tests.contract.pods import after, arguments, containers
from tools.outputs import Document, Outputs

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
CHECKS = "tests.contract.tenancy_checks"
CONFIG = "tenants"

SALTED_PATHS = {path for _, path in SALTED}


def job_of(engine: EnginePlan, outputs: Outputs) -> Document:
    """Return what the engine's container is given, out of the manifests."""
    objects = [document for _, document in outputs.objects()]
    rendered = dict(containers(objects, "vllm"))[f"Deployment/{engine.name}"]
    pod = next(
        item["spec"]["template"]["spec"]
        for item in objects
        if item["kind"] == "Deployment" and item["metadata"]["name"] == engine.name
    )
    env = {entry["name"]: entry["value"] for entry in rendered["env"]}
    data = {i["metadata"]["name"]: i["data"] for i in objects if i["kind"] == "ConfigMap"}
    maps = {v["name"]: v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}
    # Where Python looks for them.
    packages = {
        mount["mountPath"].rpartition("/")[2]: data[maps[mount["name"]]]
        for mount in rendered["volumeMounts"]
        if mount["mountPath"].rpartition("/")[0] == env["PYTHONPATH"]
    }
    return {
        "argv": after(arguments(rendered), "serve"),
        "env": {name: value for name, value in env.items() if name.startswith("KASCADE_")},
        "package": MIDDLEWARE.partition(".")[0],
        "packages": packages,
    }


def ask(job: Document) -> Document:
    if not PYTHON.exists():
        pytest.fail("run `make engine-env`: only vLLM itself says what it answers", pytrace=False)
    ran = subprocess.run(
        [str(PYTHON), "-m", CHECKS],
        cwd=ROOT,
        input=json.dumps(job),
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    answers: Document = json.loads(ran.stdout)
    return answers


Find = Callable[[bool], tuple[TenancyPlan, Document]]


@pytest.fixture(scope="session")
def asked(synthesized: Callable[[str], Outputs], plan: Callable[[str], ServingPlan]) -> Find:
    """Return a function from "has gateways" to an engine's tenancy and vLLM's answers."""

    @cache
    def find(tenant_gateways: bool) -> tuple[TenancyPlan, Document]:
        for engine in plan(CONFIG).engines:
            if engine.tenancy is not None and engine.tenancy.tenant_gateways == tenant_gateways:
                return engine.tenancy, ask(job_of(engine, synthesized(CONFIG)))
        raise AssertionError

    return find


@pytest.fixture(params=[True, False], ids=["salted", "isolated"])
def answered(request: pytest.FixtureRequest, asked: Find) -> tuple[TenancyPlan, Document]:
    return asked(request.param)


def test_vllm_puts_it_before_everything_else(answered: tuple[TenancyPlan, Document]) -> None:
    """But for what counts requests, which reads no body."""
    assert answered[1]["outermost"] == ["CoreHealth", MIDDLEWARE.rpartition(".")[2]]


def test_every_path_is_vllms_and_takes_a_salt(answered: tuple[TenancyPlan, Document]) -> None:
    _, answers = answered
    assert answers["missing"] == []
    assert answers["salted_fields"] == dict.fromkeys(SALTED_PATHS, True)
    assert answers["health"] == 200


def test_each_tenant_gets_its_own_salt(asked: Find) -> None:
    tenancy, answers = asked(True)
    assert set(answers["as_each"]) == SALTED_PATHS
    for path, each in answers["as_each"].items():
        assert set(each) == set(tenancy.salts)
        for tenant, answer in each.items():
            assert (answer["status"], answer["salts"]) == (418, [tenant]), (path, answer)


def test_nobody_and_unknown_tenants_are_refused(asked: Find) -> None:
    _, answers = asked(True)
    assert set(answers["as_nobody"]) == SALTED_PATHS
    for answer in (*answers["as_nobody"].values(), answers["as_unknown"], answers["as_two"]):
        assert (answer["status"], answer["salts"]) == (403, [])
        assert "no known tenant" in answer["text"]


def test_an_isolated_engine_salts_all_it_gets(asked: Find) -> None:
    tenancy, answers = asked(False)
    for answer in answers["as_nobody"].values():
        assert (answer["status"], answer["salts"]) == (418, [*tenancy.tenants])


def test_bodies_in_pieces_and_answers_in_pieces(answered: tuple[TenancyPlan, Document]) -> None:
    tenancy, answers = answered
    for name in ("in_pieces", "twice"):
        assert (answers[name]["status"], answers[name]["salts"]) == (418, [tenancy.tenants[0]])
    assert answers["streamed"]["text"] == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert answers["streamed"]["salts"] == [tenancy.tenants[0]]
    assert answers["no_json"]["status"] == 400


def test_every_other_path_of_vllm_is_closed(answered: tuple[TenancyPlan, Document]) -> None:
    closed = answered[1]["closed"]
    assert "POST /invocations" in closed, "it takes prompts of every kind"
    assert {path: status for path, status in closed.items() if status != 403} == {}


def test_all_who_name_a_tenant_name_it_alike() -> None:
    assert ASKED_WITH == TENANT_HEADER
    assert {("POST", path) for path in GATEWAY_POSTS} <= SALTED
    assert {("GET", path) for path in GATEWAY_GETS} <= OPEN
