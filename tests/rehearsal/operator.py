"""What HyperPod's inference operator makes of an InferenceEndpointConfig, and what Kyverno does.

The operator is closed. Played here is what is known of its pods: labels, the names of the three
containers, ports, the worker as the endpoint says (docs/decisions/0014 has the sources). Kyverno is
played by the API server: its policy and Kubernetes' own are the same CEL text.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tests.rehearsal.kubectl import Object

PROXY_PORT: Final = 8081
_OWN_FIELDS: Final = frozenset({"autogen", "evaluation", "webhookConfiguration"})
"""Fields of Kyverno's policy that Kubernetes' has not."""


def rendered_by_operator(endpoint: Object) -> Object:
    """Return the Deployment of an InferenceEndpointConfig."""
    meta, spec = endpoint["metadata"], endpoint["spec"]
    labels = {"app": meta["name"], "deploying-service": "hyperpod-inference"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": labels},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": {"app": meta["name"]}},
            "template": {"metadata": {"labels": labels}, "spec": operator_pod(endpoint)},
        },
    }


def operator_pod(endpoint: Object) -> Object:
    """Return the specification of one pod."""
    spec = copy.deepcopy(endpoint["spec"])
    worker, port = spec["worker"], spec["worker"]["modelInvocationPort"]
    stripped = [
        entry
        for entry in worker.get("environmentVariables", [])
        if not entry["name"].startswith("LMCACHE_")
    ]
    term = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": [spec["instanceType"]],
    }
    small = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return {
        "serviceAccountName": spec["kubernetes"]["serviceAccountName"],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [term]}]
                }
            }
        },
        "containers": [
            {"name": "sidecar-reverse-proxy", "image": "aws/proxy", "resources": small}
            | {"ports": [{"name": "proxy", "containerPort": PROXY_PORT}]},
            {
                "name": endpoint["metadata"]["name"],
                "image": worker["image"],
                "command": worker["command"],
                "args": worker["args"],
                "env": stripped,
                "ports": [{"name": port["name"], "containerPort": port["containerPort"]}],
                "resources": worker["resources"],
                "volumeMounts": [worker["modelVolumeMount"]],
                **worker["probes"],
            },
            {"name": "otel-collector", "image": "aws/otel", "resources": small},
        ],
        "volumes": [{"name": worker["modelVolumeMount"]["name"], "emptyDir": {}}],
    }


def as_kubernetes(policy: Object, api: str) -> Iterator[Object]:
    """Yield a Kyverno policy as Kubernetes' own, with its binding."""
    group = f"admissionregistration.k8s.io/{api}"
    spec = {key: value for key, value in policy["spec"].items() if key not in _OWN_FIELDS}
    name = policy["metadata"]["name"]
    yield {
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": copy.deepcopy(spec),
    }
    yield {
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    """Return the objects of one kind."""
    return [item for item in objects if item["kind"] == kind]


def pod(specification: Object, *, name: str, namespace: str, labels: dict[str, str]) -> Object:
    """Return a pod with a specification."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": specification}
