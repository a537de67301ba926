"""The instances that an emulated AWS hands out, as simulated nodes of a real cluster.

They follow from what the template says of node groups and instance groups, not from the plan: a
label, taint or count that did not arrive there is missing on the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kascade.plan import ServingPlan
from tests.rehearsal.cloud import aws_workloads
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.nodes import NodeGroup, hyperpod_group, system_group

NODEGROUP: Final = "AWS::EKS::Nodegroup"
HYPERPOD: Final = "AWS::SageMaker::Cluster"

_SYSTEM_VOLUME_GIB: Final = 100
"""In the launch template, which an announcement only names; no pod asks for disk."""

Zones = Callable[[list[str]], list[str]]
"""Looks up the zones of subnets."""


class Instances:
    """Brings nodes and takes them away, as groups are made, changed and deleted."""

    def __init__(self, cluster: Cluster, plan: ServingPlan, *, zones: Zones) -> None:
        """Begin without any node.

        Args:
            cluster: Where the nodes join.
            plan: Says which pods AWS itself runs on them.
            zones: Looks up the zones of subnets.
        """
        self._cluster = cluster
        self._plan = plan
        self._zones = zones
        self._nodes: dict[str, dict[str, Object]] = {}

    def hear(self, event: Mapping[str, Any]) -> None:
        """Act on one announcement of the emulator."""
        owner = event["physical_id"]
        wanted: dict[str, Object] = {}
        if event["action"] != "delete":
            for group in self._groups(event["type"], event["properties"]):
                nodes = replace(group, owner=owner).nodes()
                wanted |= {node["metadata"]["name"]: node for node in nodes}
        self._become(self._nodes.get(owner, {}), wanted)
        self._nodes[owner] = wanted
        if not wanted:
            del self._nodes[owner]

    def _become(self, present: dict[str, Object], wanted: dict[str, Object]) -> None:
        kubectl = self._cluster.kubectl
        first = not self._nodes
        coming = [node for name, node in wanted.items() if name not in present]
        going = sorted(present.keys() - wanted.keys())
        if coming:
            kubectl.create(coming)
        if first and coming:
            kubectl.apply(aws_workloads(self._plan))
        if going and not wanted and len(self._nodes) == 1:
            kubectl.delete(aws_workloads(self._plan))
        for name in going:
            kubectl("delete", "node", name)
            # The instance is gone, so no kubelet will say that its pods are.
            kubectl(
                "delete", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}",
                "--force", "--grace-period=0",
            )  # fmt: skip

    def _groups(self, kind: str, properties: Mapping[str, Any]) -> list[NodeGroup]:
        if kind == NODEGROUP:
            return [
                system_group(
                    instance_type=properties["InstanceTypes"][0],
                    count=int(properties["ScalingConfig"]["DesiredSize"]),
                    zones=self._zones(properties["Subnets"]),
                    volume_gib=_SYSTEM_VOLUME_GIB,
                )
            ]
        return [self._hyperpod(group, properties) for group in properties["InstanceGroups"]]

    def _hyperpod(self, group: Mapping[str, Any], cluster: Mapping[str, Any]) -> NodeGroup:
        network = group.get("OverrideVpcConfig") or cluster["VpcConfig"]
        settings = group.get("KubernetesConfig") or {}
        (volume,) = group["InstanceStorageConfigs"]
        return hyperpod_group(
            group["InstanceGroupName"],
            instance_types=_types(group),
            count=int(group["InstanceCount"]),
            zones=self._zones(network["Subnets"]),
            volume_gib=int(volume["EbsVolumeConfig"]["VolumeSizeInGB"]),
            cluster=cluster["ClusterName"],
            labels=settings.get("Labels") or {},
            taints=[
                (taint["Key"], taint.get("Value", ""), taint["Effect"])
                for taint in settings.get("Taints") or []
            ],
        )


def _types(group: Mapping[str, Any]) -> list[str]:
    if "InstanceType" in group:
        return [group["InstanceType"]]
    return list(group["InstanceRequirements"]["InstanceTypes"])
