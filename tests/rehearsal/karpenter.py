"""HyperPod's Karpenter, played: it makes the nodes that waiting pods want, from the pools it finds.

It knows no more of a node than its pool promises (labels, taints, type, zone) and what the catalog
says of the type, so a pod that the real one would find no pool for finds none here.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.rehearsal.kubectl import Kubectl, Object
from tests.rehearsal.nodes import TYPE_LABEL, ZONE_LABEL, NodeGroup, hyperpod_shape
from tests.rehearsal.snapshot import matches

GPU: Final = "nvidia.com/gpu"
POOL_LABEL: Final = "karpenter.sh/nodepool"


class Karpenter:
    """One controller.

    Attributes:
        made: Nodes so far, by pool.
    """

    def __init__(self, kubectl: Kubectl, *, volume_gib: int) -> None:
        self._kubectl = kubectl
        self._volume_gib = volume_gib
        self.made: Counter[str] = Counter()

    def step(self) -> None:
        """Make a node for each pod that waits and that some pool has room for."""
        pools = self._kubectl.get("nodepools")
        classes = {item["metadata"]["name"] for item in self._kubectl.get("hyperpodnodeclasses")}
        # What has been made and is not taken yet is for the pods that wait, before anything new.
        room = self._room()
        for pod in self._waiting():
            for pool in pools:
                name = pool["metadata"]["name"]
                node = _promised(pool)
                if (
                    node is None
                    or pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] not in classes
                ):
                    continue
                if not (_attracted(pod, node) and _tolerates(pod, node)):
                    continue
                wanted = _gpus(pod)
                if room[name] < wanted and self._may_grow(pool, node):
                    self._make(name, node)
                    room[name] += hyperpod_shape((node["type"],), volume_gib=self._volume_gib).gpus
                if room[name] >= wanted:
                    room[name] -= wanted
                    break

    def _room(self) -> Counter[str]:
        """Free GPUs of the nodes so far, by pool."""
        room: Counter[str] = Counter()
        pool_of: dict[str, str] = {}
        for node in self._kubectl.get("nodes"):
            pool = node["metadata"]["labels"].get(POOL_LABEL)
            if pool is not None:
                pool_of[node["metadata"]["name"]] = pool
                room[pool] += int(node["status"]["allocatable"][GPU])
        for pod in self._kubectl.everywhere(["pods"]):
            room[pool_of.get(pod["spec"].get("nodeName", ""), "")] -= _gpus(pod)
        return room

    def _waiting(self) -> list[Object]:
        return [
            pod
            for pod in self._kubectl.everywhere(["pods"])
            if _gpus(pod) and not pod["spec"].get("nodeName")
        ]

    def _may_grow(self, pool: Object, node: Object) -> bool:
        gpus = hyperpod_shape((node["type"],), volume_gib=self._volume_gib).gpus
        after = (self.made[pool["metadata"]["name"]] + 1) * gpus
        return after <= int(pool["spec"]["limits"][GPU])

    def _make(self, pool: str, node: Object) -> None:
        group = NodeGroup(
            name=pool,
            instance_types=(node["type"],),
            count=1,
            zones=(node["zone"],),
            shape=hyperpod_shape((node["type"],), volume_gib=self._volume_gib),
            labels=node["labels"] | {POOL_LABEL: pool},
            taints=node["taints"],
            prefix="hyperpod-i-",
        )
        self._kubectl.create([group.node(self.made[pool])])
        self.made[pool] += 1


def _promised(pool: Object) -> Object | None:
    """What a node of a pool will have, as far as the pool says."""
    template = pool["spec"]["template"]
    exact = {
        item["key"]: item["values"][0]
        for item in template["spec"]["requirements"]
        if item["operator"] == "In"
    }
    if not {TYPE_LABEL, ZONE_LABEL} <= set(exact):
        return None
    return {
        "type": exact[TYPE_LABEL],
        "zone": exact[ZONE_LABEL],
        "labels": template.get("metadata", {}).get("labels", {}),
        "taints": [
            (taint["key"], taint.get("value", ""), taint["effect"])
            for taint in template["spec"].get("taints", [])
        ],
    }


def _attracted(pod: Object, node: Object) -> bool:
    labels = node["labels"] | {TYPE_LABEL: node["type"], ZONE_LABEL: node["zone"]}
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return any(matches(term, labels) for term in required["nodeSelectorTerms"])


def _tolerates(pod: Object, node: Object) -> bool:
    tolerated = {item.get("key") for item in pod["spec"].get("tolerations", [])}
    return all(key in tolerated for key, _, _ in node["taints"])


def _gpus(pod: Object) -> int:
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(GPU, 0))
        for container in pod["spec"]["containers"]
    )
