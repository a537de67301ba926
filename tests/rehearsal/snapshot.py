"""All objects of a cluster at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tests.rehearsal.kubectl import Kubectl, Object

KINDS: Final = (
    "pods",
    "nodes",
    "namespaces",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "services",
    "endpointslices",
    "networkpolicies",
    "poddisruptionbudgets",
    "persistentvolumeclaims",
    "resourcequotas",
    "events",
)


@dataclass(frozen=True)
class Snapshot:
    """All objects of one moment."""

    objects: tuple[Object, ...]

    @classmethod
    def take(cls, kubectl: Kubectl) -> Snapshot:
        """Read the API server."""
        return cls(tuple(kubectl.everywhere(KINDS)))

    def of(self, kind: str) -> list[Object]:
        """Return the objects of one kind."""
        return [item for item in self.objects if item["kind"] == kind]

    @cached_property
    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Labels of every namespace."""
        return {
            item["metadata"]["name"]: item["metadata"].get("labels", {})
            for item in self.of("Namespace")
        }

    @cached_property
    def sleeping(self) -> list[Object]:
        """Pods that suspended CronJobs would make: none is there, but their policies must fit."""
        found = []
        for job in self.of("CronJob"):
            template = job["spec"]["jobTemplate"]["spec"]["template"]
            meta = {**template["metadata"], "namespace": job["metadata"]["namespace"]}
            found.append({**template, "kind": "Pod", "metadata": meta})
        return found

    def pods(self, selector: Object, namespaces: Iterator[str] | list[str]) -> list[Object]:
        """Return the living pods that a label selector chooses in some namespaces."""
        chosen = set(namespaces)
        return [
            pod
            for pod in self.of("Pod")
            if pod["metadata"]["namespace"] in chosen
            and matches(selector, pod["metadata"].get("labels", {}))
            and pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
        ]


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector chooses these labels; an empty one chooses all."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or []:
        key, operator, values = term["key"], term["operator"], term.get("values") or []
        fits = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[operator]
        if not fits:
            return False
    return True
