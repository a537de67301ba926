"""Simulated nodes that look like what the plan asks AWS for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kascade.catalog.instances import INSTANCES
from kascade.plan import ServingPlan
from kascade.sizing.host import allocatable_cpu_millicores
from kascade.sizing.instances import in_common
from tests.rehearsal.kubectl import Object
from tests.rehearsal.kwok import NODE_LABEL

GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
SYSTEM_LABEL: Final = "eks.amazonaws.com/nodegroup"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"

_ALLOCATABLE_DISK: Final = 0.9
"""The kubelet evicts pods when a tenth of the disk is left."""

_SYSTEM_GIB_PER_CPU: Final = 4
"""Of EC2's m types, the only ones that system nodes may have."""

_SYSTEM_MAX_PODS: Final = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What a kubelet would report of an instance."""

    cpu_millicores: int
    memory_mib: int
    disk_gib: int
    max_pods: int
    gpus: int = 0
    efa_interfaces: int = 0

    def allocatable(self) -> dict[str, str]:
        """Return what pods may take, as the scheduler reads it."""
        shown = {
            "cpu": f"{self.cpu_millicores}m",
            "memory": f"{self.memory_mib}Mi",
            "ephemeral-storage": f"{int(self.disk_gib * _ALLOCATABLE_DISK)}Gi",
            "pods": str(self.max_pods),
        }
        # Both come from the device plugins, which cannot run here.
        if self.gpus:
            shown["nvidia.com/gpu"] = str(self.gpus)
        if self.efa_interfaces:
            shown["vpc.amazonaws.com/efa"] = str(self.efa_interfaces)
        return shown


def hyperpod_shape(instance_types: Sequence[str], *, volume_gib: int) -> NodeShape:
    """Return the shape of a HyperPod instance, from the catalog; of several types the least."""
    instance = in_common([INSTANCES[name] for name in instance_types])
    if instance.max_pods is None:
        msg = f"{instance.name} has no published pod limit, so its nodes cannot be simulated."
        raise ValueError(msg)
    return NodeShape(
        cpu_millicores=allocatable_cpu_millicores(instance.vcpus),
        memory_mib=instance.allocatable_ram_mib,
        disk_gib=volume_gib,
        max_pods=instance.max_pods,
        gpus=instance.gpus,
        efa_interfaces=instance.efa_interfaces,
    )


def system_shape(instance_type: str, *, volume_gib: int) -> NodeShape:
    """Return the shape of a system node, such as m7i.xlarge.

    Memory by Karpenter's model, as in the catalog: 7.5 % that the hypervisor keeps, EKS's reserve
    of 255 MiB and 11 MiB a pod, and 100 MiB at which the kubelet evicts.
    """
    size = instance_type.partition(".")[2]
    cpus = 4 * int(size.removesuffix("xlarge") or 1)
    memory_mib = int(cpus * _SYSTEM_GIB_PER_CPU * 1024 * 0.925) - 255 - 11 * _SYSTEM_MAX_PODS - 100
    return NodeShape(
        cpu_millicores=allocatable_cpu_millicores(cpus),
        memory_mib=memory_mib,
        disk_gib=volume_gib,
        max_pods=_SYSTEM_MAX_PODS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Instances that are alike, of one type or of several in turn."""

    name: str
    instance_types: Sequence[str]
    count: int
    zones: Sequence[str]
    shape: NodeShape
    labels: Mapping[str, str]
    taints: Sequence[tuple[str, str, str]] = ()
    prefix: str
    owner: str = ""
    """Tells the instances of a replacing group from those of the one it replaces."""

    def nodes(self) -> Iterator[Object]:
        """Yield the nodes, spread over the zones in turn."""
        for index in range(self.count):
            yield self.node(index)

    def node(self, index: int, *, generation: int = 0) -> Object:
        """Return one node; a later generation replaces an instance that was lost."""
        seed = f"{self.owner} {self.name} {index} {generation}".encode()
        name = f"{self.prefix}{hashlib.sha256(seed).hexdigest()[:17]}"
        allocatable = self.shape.allocatable()
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    NODE_LABEL: "fake",
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/hostname": name,
                    TYPE_LABEL: self.instance_types[index % len(self.instance_types)],
                    ZONE_LABEL: self.zones[index % len(self.zones)],
                    **self.labels,
                },
            },
            "spec": {
                "taints": [
                    {"key": key, "effect": effect} | ({"value": value} if value else {})
                    for key, value, effect in self.taints
                ]
            },
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }


def hyperpod_group(  # noqa: PLR0913 - what an instance group has
    name: str,
    *,
    instance_types: Sequence[str],
    count: int,
    zones: Sequence[str],
    volume_gib: int,
    cluster: str,
    labels: Mapping[str, str],
    taints: Sequence[tuple[str, str, str]],
) -> NodeGroup:
    """Describe the nodes of a HyperPod instance group.

    Labels as in the HyperPod guide: the instance type keeps its ``ml.`` prefix.
    """
    return NodeGroup(
        name=name,
        instance_types=instance_types,
        count=count,
        zones=zones,
        shape=hyperpod_shape(instance_types, volume_gib=volume_gib),
        labels={
            GROUP_LABEL: name,
            "sagemaker.amazonaws.com/cluster-name": cluster,
            "sagemaker.amazonaws.com/compute-type": "hyperpod",
            "sagemaker.amazonaws.com/node-health-status": "Schedulable",
            **labels,
        },
        taints=taints,
        prefix="hyperpod-i-",
    )


def system_group(
    *, instance_type: str, count: int, zones: Sequence[str], volume_gib: int
) -> NodeGroup:
    """Describe the nodes of the EKS managed node group."""
    return NodeGroup(
        name="system",
        instance_types=(instance_type,),
        count=count,
        zones=zones,
        shape=system_shape(instance_type, volume_gib=volume_gib),
        labels={
            SYSTEM_LABEL: "system",
            "eks.amazonaws.com/capacityType": "ON_DEMAND",
        },
        prefix="i-",
    )


def planned_groups(plan: ServingPlan) -> dict[str, NodeGroup]:
    """Return every group of a plan by its name, the system nodes first."""
    zones = plan.network.home_zones
    system = plan.cluster.system_group
    groups = [
        system_group(
            instance_type=system.instance_type,
            count=system.count,
            zones=zones,
            volume_gib=system.root_volume_gib,
        )
    ]
    groups += [
        hyperpod_group(
            group.name,
            instance_types=group.instance_types,
            count=group.count,
            zones=zones if group.zone is None else (group.zone,),
            volume_gib=group.volume_gib,
            cluster=plan.cluster.hyperpod_name,
            labels=group.labels,
            taints=group.taints,
        )
        for group in plan.cluster.groups
    ]
    return {group.name: group for group in groups}
