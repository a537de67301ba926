"""The rules that the charts bring for the API server itself, asked of a real one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import KubectlError, Object
from tests.rehearsal.rendered import CONFIGS, Rendered

SHARED = "/dev/shm"  # noqa: S108 - shared memory


# --- one directory of the host, where L2 is HyperPod's tiered storage -----------------------------


def other_path(spec: Object) -> None:
    _volume(spec)["hostPath"]["path"] = "/dev"


def other_volume(spec: Object) -> None:
    spec["volumes"].append({"name": "root", "hostPath": {"path": "/"}})
    spec["containers"][0]["volumeMounts"].append({"name": "root", "mountPath": "/host"})


def writable(spec: Object) -> None:
    for container in spec["initContainers"]:
        for mount in container["volumeMounts"]:
            if mount["name"] == "cache":
                mount["readOnly"] = False


def privileged(spec: Object) -> None:
    spec["containers"][0]["securityContext"] = {"privileged": True}


def privileged_sidecar(spec: Object) -> None:
    spec["initContainers"][-1]["securityContext"] = {"privileged": True}


def capable(spec: Object) -> None:
    spec["containers"][0]["securityContext"]["capabilities"]["add"] = ["SYS_ADMIN"]


def host_network(spec: Object) -> None:
    spec["hostNetwork"] = True


def host_pid(spec: Object) -> None:
    spec["hostPID"] = True


def host_port(spec: Object) -> None:
    spec["containers"][0]["ports"][0]["hostPort"] = 8000


def unconfined(spec: Object) -> None:
    spec["securityContext"]["seccompProfile"]["type"] = "Unconfined"


def sysctl(spec: Object) -> None:
    spec["securityContext"]["sysctls"] = [{"name": "net.core.somaxconn", "value": "1024"}]


def _volume(spec: Object) -> Object:
    found: Object = next(item for item in spec["volumes"] if "hostPath" in item)
    return found


REFUSED: dict[Callable[[Object], None], str] = {
    other_path: f"may mount {SHARED} of its host and nothing else",
    other_volume: f"may mount {SHARED} of its host and nothing else",
    writable: "may only be mounted with readOnly: true",
    privileged: "privileged containers are not allowed",
    privileged_sidecar: "privileged containers are not allowed",
    capable: "may add capabilities",
    host_network: "hostNetwork, hostPID and hostIPC are not allowed",
    host_pid: "hostNetwork, hostPID and hostIPC are not allowed",
    host_port: "host ports are not allowed",
    unconfined: "seccomp must not be Unconfined",
    sysctl: "may set sysctls",
}


def _pod(rendered: Rendered) -> Object:
    """One engine's pod, as its Deployment would make it."""
    engine = rendered.plan.engines[0]
    template = rendered.find("Deployment", engine.name)["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder", "namespace": engine.namespace},
        "spec": copy.deepcopy(template["spec"]),
    }


@pytest.mark.parametrize("rendered", ["managed"], indirect=True)
def test_an_engine_is_let_in_and_nothing_beyond_it(cluster: Cluster, rendered: Rendered) -> None:
    dry = "--dry-run=server"
    cluster.kubectl.apply([_pod(rendered)], dry)
    for change, words in REFUSED.items():
        pod = _pod(rendered)
        change(pod["spec"])
        with pytest.raises(KubectlError, match=words):
            cluster.kubectl.apply([pod], dry)


@pytest.mark.parametrize("rendered", ["managed"], indirect=True)
def test_the_expressions_fit_the_types(cluster: Cluster, rendered: Rendered) -> None:
    """The API server accepts others too, and evaluates them as far as it goes."""
    name = f"{rendered.plan.namespaces.serving}-one-host-directory"
    assert cluster.within(lambda: "observedGeneration" in _status(cluster, name), 30)
    assert _status(cluster, name)["typeChecking"].get("expressionWarnings", []) == []


def _status(cluster: Cluster, name: str) -> Object:
    (policy,) = cluster.kubectl.get("validatingadmissionpolicy", name)
    status: Object = policy.get("status", {})
    return status


@pytest.mark.parametrize("rendered", ["managed"], indirect=True)
def test_a_debug_container_gets_no_more(cluster: Cluster, rendered: Rendered) -> None:
    engine = rendered.plan.engines[0]
    selector = f"app.kubernetes.io/instance={engine.name},app.kubernetes.io/component=engine"
    pod = cluster.kubectl.get("pods", "-n", engine.namespace, "-l", selector)[0]
    done = cluster.kubectl.run(
        "debug", pod["metadata"]["name"], "-n", engine.namespace, "--image=x",
        "--profile=sysadmin", "--target=vllm",
    )  # fmt: skip
    assert "privileged containers are not allowed" in done.stderr


# --- masters are fixed for life ------------------------------------------------------------------


def three_masters(config: Object) -> None:
    config["cache"] = {"l2": {"kind": "curvine", "masters": 3}}
    config["kubernetes"] = {"system_group": {"count": 4, "max_count": 5}}


def test_another_number_of_masters_is_refused(empty_cluster: Cluster, tmp_path: Path) -> None:
    """Up, down and by hand: the rule comes with three masters, ahead of their StatefulSet."""

    def four_nodes(config: Object) -> None:
        three_masters(config)
        config["cache"]["l2"]["masters"] = 1

    one = Rendered.edited(CONFIGS / "default.yaml", tmp_path / "one", four_nodes)
    three = Rendered.edited(CONFIGS / "default.yaml", tmp_path / "three", three_masters)
    kubectl = empty_cluster.kubectl
    words = "the number of Curvine masters is fixed for the life of the pool"

    empty_cluster.install(three)
    empty_cluster.settle()
    rule = f"{three.plan.namespaces.cache}-masters-fixed"
    assert empty_cluster.within(lambda: "observedGeneration" in _status(empty_cluster, rule), 30)
    assert _status(empty_cluster, rule)["typeChecking"].get("expressionWarnings", []) == []
    masters = three.find("StatefulSet", "curvine-master")
    space = masters["metadata"]["namespace"]
    with pytest.raises(KubectlError, match=words):
        kubectl.apply([one.find("StatefulSet", "curvine-master")], "--force-conflicts")
    scaled = kubectl.run("scale", "statefulset", "curvine-master", "-n", space, "--replicas=1")
    assert words in scaled.stderr
    # Anything else about them may change.
    changed = copy.deepcopy(masters)
    changed["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 61
    kubectl.apply([changed], "--force-conflicts")
    kubectl("rollout", "status", "statefulset/curvine-master", "-n", space, "--timeout=60s")

    # From one to three: what has no namespace is applied first.
    kubectl.delete([masters])
    kubectl.delete(
        [item for item in three.objects() if item["kind"].startswith("ValidatingAdmission")]
    )
    kubectl.apply([one.find("StatefulSet", "curvine-master")])
    rules = [item for item in three.objects() if item["kind"].startswith("ValidatingAdmission")]
    kubectl.apply(rules)

    def refused() -> bool:
        done = kubectl.run(
            "scale", "statefulset", "curvine-master", "-n", space, "--replicas=3",
            "--dry-run=server",
        )  # fmt: skip
        return words in done.stderr

    assert empty_cluster.within(refused, 20)
