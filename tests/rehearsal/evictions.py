"""Pods of an engine, how they are evicted, and a node on which that takes its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.kwok import NODE_LABEL


def engine_pods(cluster: Cluster, name: str) -> list[Object]:
    """Return the pods of one engine."""
    selector = f"app.kubernetes.io/instance={name},app.kubernetes.io/component=engine"
    return cluster.kubectl.get("pods", "-A", "-l", selector)


@contextmanager
def silent(cluster: Cluster, node: str) -> Iterator[None]:
    """Let nobody play the kubelet of a node: what is asked to end there goes on ending."""
    cluster.kubectl("label", "node", node, f"{NODE_LABEL}-")
    try:
        yield
    finally:
        cluster.kubectl("label", "node", node, f"{NODE_LABEL}=fake")


def evict(cluster: Cluster, pod: Object) -> None:
    """Ask for an eviction as `kubectl drain` does; a budget may reject it (429)."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
