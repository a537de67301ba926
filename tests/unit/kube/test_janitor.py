"""The janitor's pod, its rights, and who may reach it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kascade.kube.janitor import janitor_args
from kascade.plan import JanitorPlan, NetworkPlan, ServingPlan
from kascade.programs import program_files
from kascade.programs.janitor.settings import settings
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
    render,
)

NAME = "qwen2-7b-janitor"
COMMON = "kascade-janitor"


@pytest.fixture
def engine_objects(default_charts: dict[str, list[Object]]) -> list[Object]:
    return default_charts["engine-qwen2-7b"]


@pytest.fixture
def deployment(engine_objects: list[Object]) -> Object:
    return find(engine_objects, "Deployment", NAME)


@pytest.fixture
def janitor(default_plan: ServingPlan) -> JanitorPlan:
    (found,) = default_plan.janitors
    return found


def test_every_engine_has_one(plan: ServingPlan, objects: list[Object]) -> None:
    names = {item["metadata"]["name"] for item in of_kind(objects, "Deployment")}
    assert {f"{engine.name}-janitor" for engine in plan.engines} <= names


def test_the_program_reads_its_arguments(deployment: Object, janitor: JanitorPlan) -> None:
    found = container(pod(deployment), "janitor")
    read = settings(found["args"])
    assert (read.high_bytes, read.low_bytes) == (janitor.high_bytes, janitor.low_bytes)
    assert read.directory == janitor.mount_path
    assert read.filesystem == "fuse"
    assert read.namespace == deployment["metadata"]["namespace"]


def test_it_knows_the_engines_pods_by_their_labels(
    deployment: Object, engine_objects: list[Object]
) -> None:
    engine = find(engine_objects, "Deployment", "qwen2-7b")
    found = flags(container(pod(deployment), "janitor")["args"])
    selector = dict(pair.split("=") for pair in found["--selector"].split(","))
    assert selector == engine["spec"]["selector"]["matchLabels"]
    assert selector.items() <= pod_labels(engine).items()
    assert not selector.items() <= pod_labels(deployment).items()


def test_temp_directories_begin_as_lmcache_is_told(
    deployment: Object, engine_objects: list[Object]
) -> None:
    engine = find(engine_objects, "Deployment", "qwen2-7b")
    (adapter,) = [
        word for word in container(pod(engine), "lmcache")["args"] if "relative_tmp_dir" in word
    ]
    prefix = flags(container(pod(deployment), "janitor")["args"])["--temp-prefix"]
    assert f'"relative_tmp_dir":"{prefix}$(POD_NAME)"' in adapter


def test_it_looks_for_the_marker_that_the_bootstrap_makes(
    deployment: Object, default_charts: dict[str, list[Object]]
) -> None:
    (job,) = [
        item
        for item in of_kind(default_charts["cache"], "Job")
        if item["metadata"]["name"].startswith("curvine-bootstrap")
    ]
    marker = flags(container(pod(deployment), "janitor")["args"])["--marker"]
    assert marker in container(pod(job), "bootstrap")["args"]


def test_it_mounts_the_engines_own_volume_and_nothing_else_of_the_node(
    deployment: Object, engine_objects: list[Object], janitor: JanitorPlan
) -> None:
    claim = find(engine_objects, "PersistentVolumeClaim", janitor.claim)
    volumes = {volume["name"]: volume for volume in pod(deployment)["volumes"]}
    assert volumes["cache"]["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert volumes.keys() == {"cache", "program"}


def test_it_runs_where_the_driver_is(deployment: Object, engine_objects: list[Object]) -> None:
    engine = find(engine_objects, "Deployment", "qwen2-7b")
    for part in ("affinity", "tolerations"):
        assert pod(deployment)[part] == pod(engine)[part]


def test_it_has_no_rights_but_to_list_pods(
    deployment: Object, default_charts: dict[str, list[Object]]
) -> None:
    role = find(default_charts["cache"], "Role", COMMON)
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    binding = find(default_charts["cache"], "RoleBinding", COMMON)
    assert [one["name"] for one in binding["subjects"]] == [COMMON]
    assert pod(deployment)["serviceAccountName"] == COMMON


def test_it_has_none_of_roots_rights(deployment: Object) -> None:
    context = container(pod(deployment), "janitor")["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsUser": 0,
        "readOnlyRootFilesystem": True,
    }
    assert pod(deployment)["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}


def test_only_the_collector_reaches_it_and_it_reaches_the_api_server_only(
    default_plan: ServingPlan,
    deployment: Object,
    default_charts: dict[str, list[Object]],
    janitor: JanitorPlan,
) -> None:
    spec = find(default_charts["cache"], "NetworkPolicy", COMMON)["spec"]
    assert matches(spec["podSelector"], pod_labels(deployment))
    (rule,) = spec["ingress"]
    cidrs = [peer["ipBlock"]["cidr"] for peer in rule["from"]]
    assert cidrs == list(default_plan.network.collector_cidrs)
    assert [port["port"] for port in rule["ports"]] == [janitor.port]
    (out,) = spec["egress"]
    assert [port["port"] for port in out["ports"]] == [443]


def test_without_a_collector_nobody_reaches_it(default_plan: ServingPlan) -> None:
    network: NetworkPlan = replace(default_plan.network, collector_cidrs=())
    charts = render(replace(default_plan, network=network, observability=None))
    spec = find(charts["cache"], "NetworkPolicy", COMMON)["spec"]
    assert "ingress" not in spec
    assert "Ingress" in spec["policyTypes"]


def test_health_is_asked_on_the_port_of_metrics(deployment: Object, janitor: JanitorPlan) -> None:
    found = container(pod(deployment), "janitor")
    assert found["ports"] == [{"name": "m-janitor", "containerPort": janitor.port}]
    assert found["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "m-janitor"}


def test_there_is_one_at_a_time(deployment: Object) -> None:
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_the_program_lies_in_a_config_map_and_a_new_one_restarts_the_pod(
    deployment: Object, default_charts: dict[str, list[Object]]
) -> None:
    program = find(default_charts["cache"], "ConfigMap", COMMON)
    assert program["data"] == program_files("janitor")
    assert pod_template(deployment)["metadata"]["annotations"]["kascade.dev/config-hash"]
    (volume,) = [one for one in pod(deployment)["volumes"] if one["name"] == "program"]
    assert volume["configMap"]["name"] == program["metadata"]["name"]


def test_turned_off_it_leaves_nothing(default_plan: ServingPlan) -> None:
    objects = everything(render(replace(default_plan, janitors=())))
    assert [item for item in objects if "janitor" in item["metadata"]["name"]] == []


def test_any_mount_will_do_for_another_file_system(janitor: JanitorPlan) -> None:
    words = janitor_args(replace(janitor, filesystem=""))
    assert settings(words).filesystem == ""
