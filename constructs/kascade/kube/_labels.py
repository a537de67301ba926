"""Labels, names and port names that one object writes and another one reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Names of container ports that serve /metrics. The scrape configuration finds its targets by the
# prefix "m-" of a container port's name, because one pod can have two of them (vLLM and LMCache),
# which a label or an annotation on the pod cannot say. At most 15 characters (Kubernetes' limit).
VLLM_PORT: Final = "m-vllm"
LMCACHE_PORT: Final = "m-lmcache"
MASTER_PORT: Final = "m-cv-master"
WORKER_PORT: Final = "m-cv-worker"
FUSE_PORT: Final = "m-cv-fuse"
ROUTER_PORT: Final = "m-router"
JANITOR_PORT: Final = "m-janitor"

OPERATOR_PORT: Final = "http"
"""vLLM's port in a pod of HyperPod's operator, whose CRD takes ``http`` or ``grpc``."""

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
"""HyperPod writes the type with its ``ml.`` prefix here."""

INSTANCE_GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
"""On every HyperPod node and on no other: its presence tells the two kinds of node apart."""

NODE_HEALTH_KEY: Final = "sagemaker.amazonaws.com/node-health-status"
"""Label and taint of HyperPod's health agent."""

GPU_RESOURCE: Final = "nvidia.com/gpu"
"""Extended resource of the NVIDIA device plugin, and the usual taint of GPU nodes."""

ENGINE_LABEL: Final = "kascade.dev/engine"
"""Name of the engine that a pod runs (engines) or stands in front of (routers)."""

OPERATOR_LABEL: Final = "app"
"""On the pods that HyperPod's inference operator makes: the name of their InferenceEndpointConfig
(its SDK lists an endpoint's pods by it: sagemaker-hyperpod 3.12.0, ``hp_endpoint.py``)."""

GROUP_LABEL: Final = "kascade.dev/group"
"""Instance group of a Curvine worker."""

CONFIG_HASH_ANNOTATION: Final = "kascade.dev/config-hash"
"""On a pod template: a changed ConfigMap changes the template, which restarts the pods."""

_PART_OF: Final = {
    "app.kubernetes.io/part-of": "kascade",
    "app.kubernetes.io/managed-by": "kascade",
}


def selector(*, name: str, instance: str, component: str) -> dict[str, str]:
    """Labels that select pods.

    Selectors of workloads are immutable, so nothing that may change (a version, an image, a
    strategy) ever belongs in here.
    """
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": component,
    }


def labels(selecting: Mapping[str, str]) -> dict[str, str]:
    """Labels of an object: its selector and who manages it."""
    return {**selecting, **_PART_OF}


def engine_selector(engine: str) -> dict[str, str]:
    """Labels that select the pods of one engine; the router discovers its workers by them."""
    return selector(name="vllm", instance=engine, component="engine")


def router_selector(router: str) -> dict[str, str]:
    """Labels that select the pods of one router."""
    return selector(name="vllm-router", instance=router, component="router")


def gateway_selector(gateway: str) -> dict[str, str]:
    """Labels that select the pods of one tenant's gateway."""
    return selector(name="tenant-gateway", instance=gateway, component="tenant-gateway")


def verify_selector(engine: str) -> dict[str, str]:
    """Labels that select the verification of one engine."""
    return selector(name="verify", instance=engine, component="verify")


def curvine_selector(cluster_id: str, component: str) -> dict[str, str]:
    """Labels that select the pods of one part of a Curvine cluster."""
    return selector(name="curvine", instance=cluster_id, component=component)
