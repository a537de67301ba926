"""config/karpenter.yaml from no GPU node on: engines wait, and pools bring what they wait for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kascade.kube._labels import INSTANCE_GROUP_LABEL
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.karpenter import Karpenter
from tests.rehearsal.kubectl import Object
from tests.rehearsal.rendered import CONFIGS, Rendered


def engines(cluster: Cluster) -> list[Object]:
    return [
        pod
        for pod in cluster.kubectl.everywhere(["pods"])
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "engine"
    ]


def test_waiting_engines_get_their_nodes_and_no_more(
    empty_cluster: Cluster, tmp_path: Path
) -> None:
    rendered = Rendered.from_file(CONFIGS / "karpenter.yaml", tmp_path)
    wanted = sum(engine.replicas for engine in rendered.plan.engines)
    empty_cluster.install(rendered, hyperpod_nodes=False)
    assert empty_cluster.within(lambda: len(engines(empty_cluster)) == wanted, 30)
    assert all("nodeName" not in pod["spec"] for pod in engines(empty_cluster))

    karpenter = Karpenter(empty_cluster.kubectl, volume_gib=200)

    def grown() -> bool:
        karpenter.step()
        return all(pod["spec"].get("nodeName") for pod in engines(empty_cluster))

    assert empty_cluster.within(grown, 60)
    empty_cluster.settle()
    # Two engines with a GPU each, and two with two of the four of one instance.
    assert karpenter.made == Counter({"l40s-a": 2, "l40s-b": 1})
    groups = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(INSTANCE_GROUP_LABEL)
        for node in empty_cluster.kubectl.get("nodes")
    }
    placed = Counter(groups[pod["spec"]["nodeName"]] for pod in engines(empty_cluster))
    assert placed == Counter({engine.group: engine.replicas for engine in rendered.plan.engines})

    # A third replica gets the third instance; a fourth, beyond the group's count, waits.
    name = rendered.plan.engines[0].name
    namespace = rendered.plan.namespaces.serving
    empty_cluster.kubectl("scale", "deployment", name, "--replicas=4", "-n", namespace)
    assert empty_cluster.within(lambda: len(engines(empty_cluster)) == wanted + 2, 30)
    assert empty_cluster.within(lambda: _stepped(karpenter)["l40s-a"] == 3, 30)
    for _ in range(3):
        karpenter.step()
    assert karpenter.made["l40s-a"] == 3


def _stepped(karpenter: Karpenter) -> Counter[str]:
    karpenter.step()
    return karpenter.made


def test_a_pool_that_does_not_promise_the_group_brings_nothing(
    empty_cluster: Cluster, tmp_path: Path
) -> None:
    """What becomes of an engine whose affinity no pool can meet: the broken variant."""
    rendered = Rendered.from_file(CONFIGS / "karpenter.yaml", tmp_path)

    def forget(pool: Object) -> None:
        del pool["spec"]["template"]["metadata"]["labels"][INSTANCE_GROUP_LABEL]

    broken = rendered.changed("NodePool", forget, "l40s-a")
    empty_cluster.install(broken, hyperpod_nodes=False)
    wanted = sum(engine.replicas for engine in rendered.plan.engines)
    assert empty_cluster.within(lambda: len(engines(empty_cluster)) == wanted, 30)
    karpenter = Karpenter(empty_cluster.kubectl, volume_gib=200)
    assert empty_cluster.within(lambda: _stepped(karpenter)["l40s-b"] == 1, 30)
    for _ in range(3):
        karpenter.step()
    assert karpenter.made == Counter({"l40s-b": 1})
