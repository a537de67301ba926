"""The cascade in the pods of HyperPod's operator, put there by a real API server.

On 1.34 Kyverno's policy is read as the beta of Kubernetes' own; on 1.36 also the stable one is
rendered and obeyed.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kascade.kube.engine_program import HEALTH_ARG, gpu_checks
from kascade.kube.l2.attachment import attach
from kascade.kube.lmcache import server_container
from kascade.kube.vllm import model_args, transfer_arg
from kascade.plan import AdmissionPlan, EnginePlan, NetworkPlan
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.operator import of_kind, operator_pod, pod
from tests.rehearsal.rendered import CONFIGS, Rendered

operator_managed = pytest.mark.parametrize("rendered", ["operator"], indirect=True)


def engine_of(rendered: Rendered) -> EnginePlan:
    (engine,) = [e for e in rendered.plan.engines if e.operator is not None]
    return engine


def covers(whole: Any, part: Any) -> bool:
    """Whether an object of the API server holds all of a smaller one; it adds defaults."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and covers(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(covers, whole, part))
    return bool(whole == part) or str(whole) == str(part)


GUARDS = ("check-gpu", "check-cache-gpu", "check-cache-mount")


def admitted(cluster: Cluster, item: Object) -> Object:
    """Return a pod as the API server would store it.

    Raises:
        AssertionError: It rejects, with what it said.
    """
    done = cluster.kubectl.run(
        "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(item)
    )
    assert done.returncode == 0, done.stderr
    made: Object = json.loads(done.stdout)
    return made


def sample(rendered: Rendered, **labels: str) -> Object:
    """Return a pod as the operator makes it."""
    engine = engine_of(rendered)
    endpoint = rendered.find("InferenceEndpointConfig", engine.name)
    return pod(
        operator_pod(endpoint),
        name="sample",
        namespace=engine.namespace,
        labels={"app": engine.name, "deploying-service": "hyperpod-inference", **labels},
    )


def part(spec: Object, name: str) -> Object:
    every = [*spec["containers"], *spec.get("initContainers", [])]
    found: Object
    (found,) = [container for container in every if container["name"] == name]
    return found


def check_cascade(item: Object, engine: EnginePlan, network: NetworkPlan) -> None:
    """Assert that a pod has all that ours have of the cache."""
    spec, l2 = item["spec"], attach(engine, network)
    assert l2 is not None
    assert [c["name"] for c in spec["initContainers"]] == [*GUARDS, "lmcache"]
    assert covers(part(spec, "check-cache-mount"), l2.guard)
    ours = json.loads(json.dumps(server_container(engine, l2)))
    theirs = part(spec, "lmcache")
    # A token of the API, where the account mounts one.
    theirs["volumeMounts"] = theirs["volumeMounts"][: len(ours["volumeMounts"])]
    assert covers(theirs, ours)
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for volume in l2.volumes:
        assert covers(volumes[str(volume["name"])], volume)
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
    worker = part(spec, engine.name)
    # Our middleware of limits is for engines behind a router of ours.
    assert worker["args"] == [*model_args(engine), HEALTH_ARG, transfer_arg(engine)]
    paths = {m["mountPath"] for m in worker["volumeMounts"]}
    assert paths >= {"/dev/shm", "/weights", "/opt/kascade/kascade_engine"}  # noqa: S108
    for guard in gpu_checks(engine):
        assert covers(part(spec, str(guard["name"])), json.loads(json.dumps(guard)))
    assert {e["name"] for e in worker["env"]} >= {"LMCACHE_TRACK_USAGE", "PYTHONHASHSEED"}
    assert len({e["name"] for e in worker["env"]}) == len(worker["env"])


@operator_managed
def test_the_operators_pods_run_with_the_cascade(cluster: Cluster, rendered: Rendered) -> None:
    engine = engine_of(rendered)
    pods = cluster.kubectl.get("pods", "-n", engine.namespace, "-l", f"app={engine.name}")
    assert len(pods) == engine.replicas
    for item in pods:
        check_cascade(item, engine, rendered.plan.network)
        assert item["status"]["phase"] == "Running"


@operator_managed
def test_a_second_pass_changes_nothing(cluster: Cluster, rendered: Rendered) -> None:
    once = admitted(cluster, sample(rendered))
    again = copy.deepcopy(once)
    again["metadata"] = {
        key: again["metadata"][key]
        for key in ("name", "namespace", "labels", "annotations")
        if key in again["metadata"]
    }
    again.pop("status", None)
    twice = admitted(cluster, again)
    assert twice["spec"] == once["spec"]
    assert twice["metadata"]["labels"] == once["metadata"]["labels"]


@operator_managed
def test_what_the_pod_has_already_is_left(cluster: Cluster, rendered: Rendered) -> None:
    """A shared memory of the operator's own, a variable with another value, other containers."""
    item = sample(rendered)
    worker = item["spec"]["containers"][1]
    worker["env"] = [{"name": "PYTHONHASHSEED", "value": "7"}]
    worker["volumeMounts"].append({"name": "dshm", "mountPath": "/dev/shm"})  # noqa: S108
    item["spec"]["volumes"].append({"name": "dshm", "emptyDir": {"medium": "Memory"}})
    item["spec"]["initContainers"] = [{"name": "prefetch", "image": "aws/prefetch"}]
    made = admitted(cluster, item)["spec"]
    assert [c["name"] for c in made["initContainers"]] == ["prefetch", *GUARDS, "lmcache"]
    mine = part(made, worker["name"])
    assert [m["name"] for m in mine["volumeMounts"] if m["mountPath"] == "/dev/shm"] == ["dshm"]  # noqa: S108
    assert [e["value"] for e in mine["env"] if e["name"] == "PYTHONHASHSEED"] == ["7"]
    for sidecar in ("sidecar-reverse-proxy", "otel-collector"):
        assert "args" not in part(made, sidecar)


@operator_managed
def test_other_pods_are_not_touched(cluster: Cluster, rendered: Rendered) -> None:
    for change in ({"app": "another"}, {"app": "qwen25-7b"}):
        made = admitted(cluster, sample(rendered, **change))
        assert "initContainers" not in made["spec"]
        assert made["metadata"]["labels"]["app"] == change["app"]
    elsewhere = sample(rendered)
    elsewhere["metadata"]["namespace"] = "default"
    elsewhere["spec"].pop("serviceAccountName")
    made = admitted(cluster, elsewhere)
    assert "initContainers" not in made["spec"]


def refusal(cluster: Cluster, item: Object) -> str:
    done = cluster.kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(item))
    return done.stderr if done.returncode else ""


@operator_managed
def test_a_pod_is_refused_where_the_policy_is_gone(restored: Cluster, rendered: Rendered) -> None:
    policy = rendered.find("MutatingPolicy")["metadata"]["name"]
    restored.kubectl("delete", "mutatingadmissionpolicybinding", policy)
    words = f"the policy {policy} did not reach it"
    assert restored.within(lambda: words in refusal(restored, sample(rendered)), 20)
    # It takes effect again a moment after it is there again.
    restored.apply(rendered)
    assert restored.within(lambda: not refusal(restored, sample(rendered)), 20)


@operator_managed
def test_a_pod_without_the_worker_is_refused(cluster: Cluster, rendered: Rendered) -> None:
    item = sample(rendered)
    item["spec"]["containers"][1]["image"] = "aws/another-vllm"
    assert "has no LMCache server of its own" in refusal(cluster, item)


@operator_managed
def test_a_transfer_of_somebody_elses_is_refused(cluster: Cluster, rendered: Rendered) -> None:
    item = sample(rendered)
    item["spec"]["containers"][1]["args"].append("--kv-transfer-config={}")
    assert "exactly the --kv-transfer-config of" in refusal(cluster, item)


@pytest.mark.needs_kubernetes("1.36")
def test_kubernetes_own_policy_does_the_same(empty_cluster: Cluster, tmp_path: Path) -> None:
    """As rendered where the cluster serves v1: no Kyverno, and the same pods."""
    from k8s.charts import build_charts, manifest_app

    rendered = Rendered.from_file(CONFIGS / "operator.yaml", tmp_path / "kyverno")
    admission = AdmissionPlan(evaluator="kubernetes", reason="it serves v1", kyverno=None)
    app = manifest_app(str(tmp_path / "kubernetes"))
    charts = build_charts(app, replace(rendered.plan, admission=admission))
    own: list[Object] = charts.engines[1].to_json()
    assert charts.admission is None
    policies = of_kind(own, "MutatingAdmissionPolicy")
    assert len(policies) == 1
    wanted = rendered.find("MutatingPolicy")["spec"]
    assert policies[0]["spec"].items() <= wanted.items()

    engine = engine_of(rendered)
    empty_cluster.kubectl("create", "namespace", engine.namespace)
    kinds = ("Policy", "PolicyBinding", "ServiceAccount")
    empty_cluster.kubectl.apply(item for item in own if item["kind"].endswith(kinds))
    assert empty_cluster.within(lambda: not refusal(empty_cluster, sample(rendered)), 30)
    check_cascade(admitted(empty_cluster, sample(rendered)), engine, rendered.plan.network)
