"""Rendered containers read back as their programs will read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]
"""An object as it stands in YAML."""


@dataclass(frozen=True, slots=True)
class Program:
    """One container.

    Attributes:
        container: As rendered.
    """

    container: Object

    @property
    def words(self) -> list[str]:
        """Its arguments."""
        return list(self.container.get("args", []))

    @property
    def image(self) -> str:
        """Its image."""
        return str(self.container["image"])

    def flag(self, name: str, default: str = "") -> str:
        """Value of an argument ``--name=value``; the last one counts, as in the programs."""
        return ([default, *self.flags(name)])[-1]

    def flags(self, name: str) -> list[str]:
        """Every value of an argument ``--name=value`` that may be given several times."""
        return [word.removeprefix(f"{name}=") for word in self.words if word.startswith(f"{name}=")]

    def switch(self, name: str) -> bool:
        """Whether an argument without value is there."""
        return name in self.words

    def after(self, name: str) -> list[str]:
        """The words behind an argument, up to the next one."""
        words = self.words
        start = words.index(name) + 1 if name in words else len(words)
        values = []
        for word in words[start:]:
            if word.startswith("--"):
                break
            values.append(word)
        return values

    def document(self, name: str) -> Object:
        """Value of an argument that is JSON; empty without it."""
        found: Object = json.loads(self.flag(name) or "{}")
        return found

    def env(self, name: str) -> str:
        """Fixed value of an environment variable."""
        return next(
            (str(e.get("value", "")) for e in self.container.get("env", []) if e["name"] == name),
            "",
        )

    def field(self, name: str) -> str:
        """The pod's field that an environment variable is taken from."""
        found = [e for e in self.container.get("env", []) if e["name"] == name]
        source = found[-1].get("valueFrom", {}) if found else {}
        return str(source.get("fieldRef", {}).get("fieldPath", ""))

    def port(self, name: str) -> str:
        """Number of a container port."""
        ports = self.container.get("ports", [])
        return next((str(p["containerPort"]) for p in ports if p["name"] == name), "")

    def mount(self, volume: str) -> str:
        """Where a volume of the pod is mounted."""
        mounts = self.container.get("volumeMounts", [])
        return next((str(m["mountPath"]) for m in mounts if m["name"] == volume), "")

    def part_of(self, volume: str) -> str | None:
        """Which part of a volume of the pod is mounted; None for all of it."""
        mounts = self.container.get("volumeMounts", [])
        return next((m.get("subPath") for m in mounts if m["name"] == volume), None)


def pod_spec(workload: Object) -> Object:
    """The pods of a workload."""
    spec = workload["spec"]
    found: Object = spec.get("jobTemplate", {}).get("spec", spec)["template"]["spec"]
    return found


def programs(workload: Object) -> dict[str, Program]:
    """Every container of a workload by its name."""
    spec = pod_spec(workload)
    both = [*spec.get("initContainers", []), *spec["containers"]]
    return {container["name"]: Program(container) for container in both}


def of_component(objects: list[Object], kind: str, component: str) -> Iterator[Object]:
    """Objects of a kind whose pods have a part to play."""
    for item in objects:
        labels = item["metadata"].get("labels", {})
        if item["kind"] == kind and labels.get("app.kubernetes.io/component") == component:
            yield item
