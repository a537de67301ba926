"""Reads pods out of rendered manifests, as far as a process on this machine can follow them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][A-Za-z0-9_]*)\)")
NODE = "this-machine"
"""Name of the only node there is."""

_KUBELET_PERIOD_SECONDS = 10
_KUBELET_TIMEOUT_SECONDS = 1
_KUBELET_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """An HTTP probe, with the kubelet's defaults filled in."""

    path: str
    port: int
    period_seconds: float
    timeout_seconds: float
    failures: int
    grace_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Exec:
    """A handler that runs a program in the container."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sleep:
    """A handler that waits."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of one pod, with every value known.

    Attributes:
        environment: As the manifest sets it, references to the pod's fields resolved.
        mounts: Path in the container to name of the volume.
        sidecar: It stays up beside the main containers and starts before them.
        init: It has to end before the next one starts.
        ports: Name to number.
        pre_stop: What comes before its end.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[str, str]
    sidecar: bool
    init: bool
    ports: Mapping[str, int]
    startup: Probe | None
    readiness: Probe | None
    liveness: Probe | None
    pre_stop: Exec | Sleep | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod.

    Attributes:
        containers: In the order in which they start.
        volumes: Name of a volume to its source in the manifest.
        document: The manifest's object that the pod came from.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    containers: tuple[Container, ...]
    volumes: Mapping[str, Document]
    grace_seconds: float
    template: Document

    def container(self, name: str) -> Container:
        """Return the container of that name."""
        (found,) = (one for one in self.containers if one.name == name)
        return found


def expand(words: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """Replace ``$(NAME)`` as the kubelet does; an unknown name stays as it is.

    >>> expand(["--id=$(POD)", "$$(POD)", "$(OTHER)"], {"POD": "a"})
    ['--id=a', '$(POD)', '$(OTHER)']
    """

    def one(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        return f"$({name})" if escaped else values.get(name, match.group())

    return [_REFERENCE.sub(one, str(word)) for word in words]


def pods(objects: Iterable[Document]) -> Iterator[Pod]:
    """Yield the pods of every Deployment, as many as it has replicas."""
    for document in objects:
        if document["kind"] == "Deployment":
            for index in range(document["spec"]["replicas"]):
                yield _pod(document, f"{document['metadata']['name']}-{index}")


def pod_of_job(template: Document, *, name: str, namespace: str) -> Pod:
    """Return the pod that a Job's template asks for."""
    document = {"metadata": {"namespace": namespace}, "spec": {"template": template}}
    return _pod(document, name)


def _pod(document: Document, name: str) -> Pod:
    template = document["spec"]["template"]
    spec, namespace = template["spec"], document["metadata"]["namespace"]
    fields = {
        "metadata.name": name,
        "metadata.namespace": namespace,
        "spec.nodeName": NODE,
    }
    containers = [
        _container(entry, fields, init=init)
        for init, entries in ((True, spec.get("initContainers", [])), (False, spec["containers"]))
        for entry in entries
    ]
    return Pod(
        name=name,
        namespace=namespace,
        labels=template.get("metadata", {}).get("labels", {}),
        containers=tuple(containers),
        volumes={entry["name"]: entry for entry in spec.get("volumes", [])},
        grace_seconds=spec.get("terminationGracePeriodSeconds", 30),
        template=template,
    )


def _container(entry: Document, fields: Mapping[str, str], *, init: bool) -> Container:
    environment = {
        variable["name"]: variable["value"]
        if "value" in variable
        else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        for variable in entry.get("env", [])
    }
    ports = {port["name"]: port["containerPort"] for port in entry.get("ports", [])}
    sidecar = entry.get("restartPolicy") == "Always"
    words = [*entry.get("command", []), *entry.get("args", [])]
    return Container(
        name=entry["name"],
        argv=tuple(expand(words, environment)),
        environment=environment,
        mounts={mount["mountPath"]: mount["name"] for mount in entry.get("volumeMounts", [])},
        sidecar=sidecar,
        init=init and not sidecar,
        ports=ports,
        startup=_probe(entry.get("startupProbe"), ports),
        readiness=_probe(entry.get("readinessProbe"), ports),
        liveness=_probe(entry.get("livenessProbe"), ports),
        pre_stop=_handler(entry.get("lifecycle", {}).get("preStop")),
    )


def _handler(entry: Document | None) -> Exec | Sleep | None:
    """Read a lifecycle handler; the kubelet replaces no references in one."""
    if entry is None:
        return None
    if "sleep" in entry:
        return Sleep(entry["sleep"]["seconds"])
    return Exec(tuple(entry["exec"]["command"]))


def _probe(entry: Document | None, ports: Mapping[str, int]) -> Probe | None:
    if entry is None:
        return None
    asked = entry["httpGet"]
    port = asked["port"]
    return Probe(
        path=asked["path"],
        port=ports[port] if isinstance(port, str) else port,
        period_seconds=entry.get("periodSeconds", _KUBELET_PERIOD_SECONDS),
        timeout_seconds=entry.get("timeoutSeconds", _KUBELET_TIMEOUT_SECONDS),
        failures=entry.get("failureThreshold", _KUBELET_FAILURES),
        grace_seconds=entry.get("terminationGracePeriodSeconds"),
    )
