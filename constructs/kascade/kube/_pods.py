"""Fragments of pod specs that several workloads share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kascade.kube._labels import (
    GPU_RESOURCE,
    INSTANCE_GROUP_LABEL,
    INSTANCE_TYPE_LABEL,
    NODE_HEALTH_KEY,
)
from kascade.kube._objects import Fields
from kascade.plan import ContainerSize

CACHE_PRIORITY: Final = "kascade-cache"
ENGINE_PRIORITY: Final = "kascade-engine"

NO_PRIVILEGES: Final[Fields] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
"""Container security context for images that run as root and for which another user is untested:
the container stays root, without any of root's rights."""

POD_SECURITY: Final[Fields] = {"seccompProfile": {"type": "RuntimeDefault"}}
"""Pod security context next to ``NO_PRIVILEGES``."""

NON_ROOT: Final[Fields] = {**NO_PRIVILEGES, "readOnlyRootFilesystem": True}
"""Container security context of programs that need neither root nor a writable root."""

NON_ROOT_POD: Final[Fields] = {
    **POD_SECURITY,
    "runAsNonRoot": True,
    # "nobody" of most images; the number alone satisfies Pod Security level "restricted".
    "runAsUser": 65534,
    "runAsGroup": 65534,
}


SHM_VOLUME: Final = "shm"
SHM_MOUNT: Final[Fields] = {"name": SHM_VOLUME, "mountPath": "/dev/shm"}  # noqa: S108 - shared memory
"""Shared memory of an engine's pod."""


def _on_nodes(*expressions: Fields) -> Fields:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": list(expressions)}]
            }
        }
    }


ON_SYSTEM_NODES: Final[Fields] = _on_nodes(
    {"key": INSTANCE_GROUP_LABEL, "operator": "DoesNotExist"}
)
"""Affinity of everything that needs no GPU. Required rather than preferred: the EBS driver needs
extra rights on HyperPod nodes, and GPU nodes are too dear for a pod that merely fits there."""


def resources(size: ContainerSize, extended: Mapping[str, int] | None = None) -> Fields:
    """Requests and limits of one container.

    There is no CPU limit: throttling a process that feeds a GPU costs more than it protects.

    Args:
        size: CPU and memory.
        extended: Extended resources such as GPUs; request and limit must be equal.
    """
    return {
        "requests": {
            "cpu": f"{size.cpu_millicores}m",
            "memory": f"{size.memory_mib}Mi",
            **(extended or {}),
        },
        "limits": {"memory": f"{size.limit_mib}Mi", **(extended or {})},
    }


HELPER_SIZE: Final = ContainerSize(cpu_millicores=10, memory_mib=64, memory_limit_mib=256)
HELPER_RESOURCES: Final[Fields] = resources(HELPER_SIZE)
"""For one-off checks and Jobs, and for CSI sidecars, which idle at 15 to 40 MiB. The limit only
catches a leak: being killed halfway costs more than the difference."""


def tolerations(taint_keys: Iterable[str]) -> list[Fields]:
    """Tolerate the deployment's own taints and the usual taint of GPU nodes, whatever effect."""
    keys = sorted({*taint_keys, GPU_RESOURCE})
    return [{"key": key, "operator": "Exists"} for key in keys]


UNHEALTHY_NODE: Final[Fields] = {
    "key": NODE_HEALTH_KEY,
    "operator": "Equal",
    "value": "Unschedulable",
    "effect": "NoSchedule",
}
"""Taint that HyperPod sets during health checks; AWS asks node-level agents to tolerate it."""


def in_group(group: str, instance_types: Iterable[str]) -> Fields:
    """Affinity for the healthy nodes of one HyperPod instance group.

    The health labels are excluded rather than "Schedulable" demanded, because a fresh node has no
    such label before its first check.
    """
    unhealthy = [
        "Unschedulable",
        "UnschedulablePendingReboot",
        "UnschedulablePendingReplacement",
    ]
    return _on_nodes(
        {"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": [group]},
        {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": list(instance_types)},
        {"key": NODE_HEALTH_KEY, "operator": "NotIn", "values": unhealthy},
    )


def of_types(instance_types: Iterable[str], *more: Fields) -> Fields:
    """Affinity for nodes of the given types and whatever ``more`` demands of them."""
    types = list(instance_types)
    return _on_nodes({"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": types}, *more)


def spread(selecting: Mapping[str, str], key: str = "kubernetes.io/hostname") -> Fields:
    """Spread pods over nodes (or zones) where there is a choice.

    ``ScheduleAnyway``: a rule that rejects would leave a replacement pod pending whenever the only
    free place is on a node, or in a zone, that already has one.
    """
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selecting)},
    }


ZONE: Final = "topology.kubernetes.io/zone"


def spread_widely(selecting: Mapping[str, str], *, zones: bool) -> list[Fields]:
    """Spread pods over nodes, and over zones where their nodes stand in several."""
    over_zones = [spread(selecting, ZONE)] if zones else []
    return [spread(selecting), *over_zones]


def field_env(name: str, path: str) -> Fields:
    """Environment variable from the pod's own fields."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


NVIDIA_ENV: Final = {
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
}
"""What the nvidia runtime reads of a container that requests no GPU and has to see all of them. It
may ignore that in a container without ``SYS_ADMIN``: the node's configuration decides."""


def plain_env(values: Mapping[str, str]) -> list[Fields]:
    """Environment variables with fixed values, in the given order."""
    return [{"name": name, "value": value} for name, value in values.items()]


def tcp_probe(port: int, *, period: int, failures: int) -> Fields:
    """Probe that the port accepts connections."""
    return {"tcpSocket": {"port": port}, "periodSeconds": period, "failureThreshold": failures}


def http_probe(
    path: str, port: str, *, period: int, failures: int, ends_within: int | None = None
) -> Fields:
    """Probe that a path answers below 400 within five seconds.

    Args:
        path: What is asked.
        port: Name of the container's port.
        period: Seconds from one question to the next.
        failures: Failures in a row until it counts.
        ends_within: Seconds that a container gets to end once a startup or liveness probe has
            failed; without it the pod's whole grace period, drain and all, although a process that
            answers nobody has nobody to wait for.
    """
    grace = {} if ends_within is None else {"terminationGracePeriodSeconds": ends_within}
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
        **grace,
    }
