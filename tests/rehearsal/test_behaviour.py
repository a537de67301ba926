"""What happens after the installation: roll-outs, changes, losses, drains."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rehearsal.cluster import Cluster
from tests.rehearsal.evictions import engine_pods, evict, silent
from tests.rehearsal.kubectl import KubectlError, Object
from tests.rehearsal.kwok import NODE_LABEL
from tests.rehearsal.nodes import GROUP_LABEL, ZONE_LABEL
from tests.rehearsal.rendered import LIVED_IN, Rendered, identity

GPU = "nvidia.com/gpu"

lived_in = pytest.mark.parametrize("rendered", LIVED_IN, indirect=True)

LOSS_SECONDS = 60
"""A silent node is noticed after 16 s and its pods leave 5 s later; the rest is for controllers."""


@contextmanager
def availability(cluster: Cluster, namespace: str, deployment: str) -> Iterator[list[int]]:
    """Record how many replicas are available, at each change of a Deployment's status."""
    seen: list[int] = []
    path = "jsonpath={.status.availableReplicas}{'\\n'}"
    watch = cluster.kubectl.popen(
        "get", "deployment", deployment, "-n", namespace, "-w", "-o", path
    )
    assert watch.stdout is not None

    def follow() -> None:
        assert watch.stdout is not None
        seen.extend(int(line or 0) for line in watch.stdout)

    thread = threading.Thread(target=follow, daemon=True)
    seen.append(int(watch.stdout.readline() or 0))
    thread.start()
    try:
        yield seen
    finally:
        watch.terminate()
        watch.wait()
        thread.join()


def _free_gpus(cluster: Cluster, group: str) -> dict[str, int]:
    """How many GPUs no pod has asked for, by the nodes of a group."""
    free = {
        node["metadata"]["name"]: int(node["status"]["allocatable"][GPU])
        for node in cluster.kubectl.get("nodes", "-l", f"{GROUP_LABEL}={group}")
    }
    for pod in cluster.kubectl.everywhere(["pods"]):
        node = pod["spec"].get("nodeName")
        for container in pod["spec"]["containers"]:
            limit = container.get("resources", {}).get("limits", {}).get(GPU, 0)
            if node in free:
                free[node] -= int(limit)
    return free


@lived_in
def test_a_rollout_with_every_gpu_taken_completes(restored: Cluster, rendered: Rendered) -> None:
    """No replica finds a free GPU, so one has to go before the next can come."""
    for engine in rendered.plan.engines:
        assert engine.max_surge + engine.max_unavailable == 1
        room = max(_free_gpus(restored, engine.group).values())
        assert (room >= engine.gpus) == (engine.max_surge == 1)
    changed = rendered
    ours = [engine for engine in rendered.plan.engines if engine.operator is None]
    for engine in ours:
        changed = changed.changed("Deployment", _new_image, engine.name)
    for engine in ours:
        before = {pod["metadata"]["uid"] for pod in engine_pods(restored, engine.name)}
        place = ("-n", engine.namespace)
        with availability(restored, engine.namespace, engine.name) as available:
            restored.kubectl.apply(changed.charts[f"engine-{engine.name}"])
            restored.kubectl(
                "rollout", "status", f"deployment/{engine.name}", *place, "--timeout=60s"
            )
        after = {pod["metadata"]["uid"] for pod in engine_pods(restored, engine.name)}
        assert not before & after
        # The Deployment promises this; it is the plan's number that is under test.
        assert min(available) >= engine.replicas - engine.max_unavailable
        assert len(available) > 1


def _new_image(deployment: Object) -> None:
    for part in ("initContainers", "containers"):
        for container in deployment["spec"]["template"]["spec"][part]:
            container["image"] += "-next"


@lived_in
def test_another_replica_count_touches_its_own_model_alone(
    restored: Cluster, rendered: Rendered, tmp_path: Path
) -> None:
    """One replica fewer of the first model: that engine is let go, and nobody else restarts.

    The model's router is resized, since its memory and its limit of requests count the engines, and
    so do the marks of its janitor.
    """
    engine, router = rendered.plan.engines[0], rendered.plan.routers[0]

    def one_fewer(config: Object) -> None:
        config["models"][0]["replicas"] -= 1

    fewer = Rendered.edited(rendered.file, tmp_path, one_fewer)
    assert [identity(a) for a in fewer.objects()] == [identity(b) for b in rendered.objects()]
    pods_before = _pods(restored)
    before = restored.versions(rendered)
    restored.apply(fewer)
    place = ("-n", engine.namespace, "--timeout=60s")
    for name in (engine.name, router.name, f"{engine.name}-janitor"):
        restored.kubectl("rollout", "status", f"deployment/{name}", *place)
    assert restored.within(
        lambda: len(engine_pods(restored, engine.name)) == engine.replicas - 1, 30
    )
    # Controllers write their counts into a budget's status; nothing applied changes one.
    changed = {
        key
        for key, version in restored.versions(rendered).items()
        if before[key] != version and "/PodDisruptionBudget/" not in key
    }
    assert changed == {
        f"{engine.namespace}/Deployment/{name}"
        for name in (engine.name, router.name, f"{engine.name}-janitor")
    }
    gone = [name for uid, name in pods_before.items() if uid not in _pods(restored)]
    # One replica, and the janitor, which is an instance of the same name.
    assert gone.count(engine.name) == 2
    assert set(gone) == {engine.name, router.name}


def _pods(cluster: Cluster) -> dict[str, str]:
    """Which workload's pods there are, by uid, those that have succeeded left out."""
    return {
        pod["metadata"]["uid"]: pod["metadata"]["labels"].get("app.kubernetes.io/instance", "")
        for pod in cluster.kubectl.everywhere(["pods"])
        if pod["status"].get("phase") != "Succeeded"
    }


@pytest.mark.parametrize("rendered", ["default"], indirect=True)
def test_a_lost_node_is_replaced_and_its_engine_runs_again(
    restored: Cluster, rendered: Rendered
) -> None:
    """Silence, eviction, and HyperPod's replacement of the instance."""
    engine = rendered.plan.engines[0]
    lost = engine_pods(restored, engine.name)[0]["spec"]["nodeName"]
    others = {
        pod["metadata"]["uid"]
        for pod in restored.kubectl.everywhere(["pods"])
        if pod["spec"]["nodeName"] != lost
    }
    restored.kubectl("label", "node", lost, f"{NODE_LABEL}-")
    sentence = restored.complains("has no node: 0/", LOSS_SECONDS)
    assert "untolerated taint" in sentence
    assert "Insufficient nvidia.com/gpu" in sentence

    group = restored.groups[engine.group]
    index = [node["metadata"]["name"] for node in group.nodes()].index(lost)
    restored.kubectl("delete", "node", lost)
    replacement = group.node(index, generation=1)
    restored.kubectl.create([replacement])
    restored.settle(LOSS_SECONDS + 60)  # pods of a node that is gone are collected after 40 s
    on_new = [p["spec"]["nodeName"] for p in engine_pods(restored, engine.name)]
    assert replacement["metadata"]["name"] in on_new
    still = {pod["metadata"]["uid"] for pod in restored.kubectl.everywhere(["pods"])}
    assert others <= still


@lived_in
def test_replicas_stand_in_several_zones(cluster: Cluster, rendered: Rendered) -> None:
    """Where the nodes of their group do: the loss of a zone then costs half of the replicas."""
    for engine in rendered.plan.engines:
        nodes = cluster.kubectl.get("nodes", "-l", f"{GROUP_LABEL}={engine.group}")
        zone_of = {
            node["metadata"]["name"]: node["metadata"]["labels"][ZONE_LABEL] for node in nodes
        }
        zones = {zone_of[p["spec"]["nodeName"]] for p in engine_pods(cluster, engine.name)}
        assert engine.spread_zones == (len(set(zone_of.values())) > 1)
        assert len(zones) == min(engine.replicas, len(set(zone_of.values())))


@lived_in
def test_no_second_replica_is_evicted_while_one_still_drains(
    restored: Cluster, rendered: Rendered
) -> None:
    """A pod that ends its answers takes two minutes, and counts as gone from the first second."""
    engine = next(e for e in rendered.plan.engines if e.replicas > 1)
    draining, other = engine_pods(restored, engine.name)[:2]
    node = draining["spec"]["nodeName"]
    with silent(restored, node):
        evict(restored, draining)
        with pytest.raises(KubectlError, match="violate the pod's disruption budget"):
            evict(restored, other)
        (still,) = restored.kubectl.get("pod", draining["metadata"]["name"], "-n", engine.namespace)
        assert "deletionTimestamp" in still["metadata"]
        (spared,) = restored.kubectl.get("pod", other["metadata"]["name"], "-n", engine.namespace)
        assert "deletionTimestamp" not in spared["metadata"]
    restored.settle(LOSS_SECONDS + 60)
    evict(restored, other)


@lived_in
def test_a_drain_waits_for_the_budget(restored: Cluster, rendered: Rendered) -> None:
    """With every GPU taken, a second node is not drained before the first replica is back."""
    engine = next(e for e in rendered.plan.engines if e.replicas > 1)
    first, second = [p["spec"]["nodeName"] for p in engine_pods(restored, engine.name)][:2]
    if first == second:
        pytest.fail(f"both replicas of {engine.name} stand on {first}; a drain proves nothing")
    options = ("--ignore-daemonsets", "--delete-emptydir-data")
    try:
        restored.kubectl("drain", first, *options, "--timeout=60s")
        with pytest.raises(KubectlError, match="violate the pod's disruption budget"):
            restored.kubectl("drain", second, *options, "--timeout=8s")
        assert second in {p["spec"].get("nodeName") for p in engine_pods(restored, engine.name)}
        restored.kubectl("uncordon", first)
        restored.kubectl("drain", second, *options, "--timeout=60s")
    finally:
        restored.kubectl("uncordon", first, second)


@lived_in
def test_a_system_node_can_be_drained(restored: Cluster) -> None:
    """Routers, masters and controllers move to the other system nodes, or wait for their zone."""
    nodes = [
        node["metadata"]["name"] for node in restored.kubectl.get("nodes", "-l", f"!{GROUP_LABEL}")
    ]
    for node in nodes:
        restored.kubectl(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"
        )
        left = restored.kubectl.get("pods", "-A", f"--field-selector=spec.nodeName={node}")
        kinds = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in left}
        restored.kubectl("uncordon", node)
        restored.settle()
        assert kinds <= {"DaemonSet", "Job"}


@lived_in
def test_a_changed_setting_restarts_its_readers_only(restored: Cluster, rendered: Rendered) -> None:
    """Curvine reads its file once, so another file has to be another pod template."""
    assert rendered.plan.curvine is not None
    group = rendered.plan.curvine.workers[0].group
    name = f"curvine-worker-{group}"

    def touch(daemons: Object) -> None:
        daemons["spec"]["template"]["metadata"]["annotations"]["kascade.dev/config-hash"] = "other"

    before = _pods(restored)
    names = _names(restored)
    restored.apply(rendered.changed("DaemonSet", touch, name))
    place = ("-n", rendered.plan.curvine.namespace)
    restored.kubectl("rollout", "status", f"daemonset/{name}", *place, "--timeout=60s")
    gone = before.keys() - _pods(restored).keys()
    assert len(gone) == restored.groups[group].count
    assert {names[uid].rpartition("-")[0] for uid in gone} == {name}


def _names(cluster: Cluster) -> dict[str, str]:
    pods = cluster.kubectl.everywhere(["pods"])
    return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
