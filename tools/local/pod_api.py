"""The part of a Kubernetes API that lists and watches pods, for programs that discover them.

The router and Prometheus find their pods here with their own clients. It knows one kind, keeps
nothing, and listens on loopback.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import yaml

from tools.local.pods import NODE, Pod

Document = dict[str, Any]

_PODS: Final = "pods"
TARGETS_PATH: Final = "/targets"
"""Where Prometheus asks for targets: Debian's build has no client of the Kubernetes API."""

_WATCH_SECONDS: Final = 290
_START_TIME: Final = "2026-01-01T00:00:00Z"
"""No client reads it, but the field is a date."""


class PodApi:
    """Serves the pods that it is told of.

    Attributes:
        url: Where it answers.
    """

    def __init__(self, address: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: Somebody else listens there.
        """
        self._changed = threading.Condition()
        self._version = 1
        self._events: list[tuple[int, str, Document]] = []
        self._pods: dict[str, Document] = {}
        self._closing = False
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api._answer(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        ThreadingHTTPServer.daemon_threads = True
        self._server = ThreadingHTTPServer((address, port), Handler)
        self.url = f"http://{address}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening, and end every watch."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads here; return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "local",
            "clusters": [{"name": "local", "cluster": {"server": self.url}}],
            "users": [{"name": "local", "user": {}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        }
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path

    def put(self, pod: Document) -> None:
        """Add or change a pod, as an object without resource version."""
        name = pod["metadata"]["name"]
        self._record("MODIFIED" if name in self._pods else "ADDED", name, pod)

    def remove(self, name: str) -> None:
        """Delete a pod."""
        if name in self._pods:
            self._record("DELETED", name, self._pods[name])

    def _record(self, event: str, name: str, pod: Document) -> None:
        with self._changed:
            self._version += 1
            metadata = {**pod["metadata"], "resourceVersion": str(self._version)}
            stamped = {**pod, "metadata": metadata}
            if event == "DELETED":
                del self._pods[name]
            else:
                self._pods[name] = stamped
            self._events.append((self._version, event, stamped))
            self._changed.notify_all()

    # --- What a client sees -----------------------------------------------------------------

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        split = urlsplit(request.path)
        query = {name: values[-1] for name, values in parse_qs(split.query).items()}
        if split.path == TARGETS_PATH:
            with self._changed:
                known = list(self._pods.values())
            _send(request, 200, [one for pod in known for one in _scrape_targets(pod)])
            return
        parts = split.path.strip("/").split("/")
        if parts[:3] != ["api", "v1", "namespaces"] or parts[4:5] != [_PODS]:
            _send(request, 404, _status(404, "NotFound"))
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            if query.get("watch") in ("1", "true", "True"):
                self._watch(request, parts[3], query)
            else:
                self._list(request, parts[3], query)

    def _list(self, request: BaseHTTPRequestHandler, namespace: str, query: dict[str, str]) -> None:
        with self._changed:
            version, known = self._version, list(self._pods.values())
        items = [pod for pod in known if _selected(pod, namespace, query)]
        body = {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(version)},
            "items": items,
        }
        _send(request, 200, body)

    def _watch(
        self, request: BaseHTTPRequestHandler, namespace: str, query: dict[str, str]
    ) -> None:
        seen = int(query.get("resourceVersion") or 0)
        deadline = time.monotonic() + float(query.get("timeoutSeconds") or _WATCH_SECONDS)
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while time.monotonic() < deadline and not self._closing:
            for version, kind, pod in self._events_after(seen):
                seen = version
                if _selected(pod, namespace, query):
                    line = json.dumps({"type": kind, "object": pod}).encode() + b"\n"
                    request.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    request.wfile.flush()
        request.wfile.write(b"0\r\n\r\n")

    def _events_after(self, version: int) -> list[tuple[int, str, Document]]:
        """Return what has happened since, after waiting a moment for something to happen."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self._closing, timeout=1)
            return [event for event in self._events if event[0] > version]


def _selected(pod: Document, namespace: str, query: dict[str, str]) -> bool:
    metadata = pod["metadata"]
    wanted = [pair for pair in query.get("labelSelector", "").split(",") if pair]
    has = {f"{name}={value}" for name, value in metadata["labels"].items()}
    return metadata["namespace"] == namespace and all(pair in has for pair in wanted)


def _scrape_targets(pod: Document) -> list[Document]:
    """List a pod's ports as Prometheus' own discovery of pods would, as far as rules read it."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    meta = "__meta_kubernetes_"
    common = {
        f"{meta}namespace": metadata["namespace"],
        f"{meta}pod_name": metadata["name"],
        f"{meta}pod_node_name": spec["nodeName"],
        f"{meta}pod_phase": status["phase"],
    }
    for name, value in metadata["labels"].items():
        sanitized = "".join(c if c.isalnum() else "_" for c in name)
        common[f"{meta}pod_label_{sanitized}"] = value
    return [
        {
            "targets": [f"{status['podIP']}:{port['containerPort']}"],
            "labels": {**common, f"{meta}pod_container_port_name": port["name"]},
        }
        for container in [*spec.get("initContainers", []), *spec["containers"]]
        for port in container.get("ports", [])
    ]


def _status(code: int, reason: str) -> Document:
    return {"kind": "Status", "apiVersion": "v1", "reason": reason, "code": code}


def _send(request: BaseHTTPRequestHandler, code: int, body: Document | list[Document]) -> None:
    content = json.dumps(body).encode()
    request.send_response(code)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def _as_served(spec: Document) -> Document:
    """Write quantities as the API does: always as text."""

    def container(entry: Document) -> Document:
        resources = {
            kind: {name: str(value) for name, value in amounts.items()}
            for kind, amounts in entry.get("resources", {}).items()
        }
        return {**entry, "resources": resources}

    return {
        name: [container(entry) for entry in value]
        if name in ("containers", "initContainers")
        else value
        for name, value in spec.items()
    }


def pod_object(pod: Pod, *, address: str, ready: bool, ending: bool = False) -> Document:
    """Return a pod as the API shows a running one.

    Args:
        pod: What runs.
        address: Its address.
        ready: Whether its readiness probes succeed.
        ending: Whether somebody has deleted it.
    """
    deleted = {
        "deletionTimestamp": _START_TIME,
        "deletionGracePeriodSeconds": int(pod.grace_seconds),
    }
    spec = _as_served(pod.template["spec"])
    statuses = [
        {
            "name": container["name"],
            "ready": ready,
            "started": True,
            "restartCount": 0,
            "image": container["image"],
            "imageID": "",
            "state": {"running": {"startedAt": _START_TIME}},
            "lastState": {},
        }
        for container in spec["containers"]
    ]
    conditions = [
        {"type": kind, "status": "True" if ready else "False"}
        for kind in ("Ready", "ContainersReady")
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": f"{pod.namespace}-{pod.name}",
            "labels": dict(pod.labels),
            "creationTimestamp": _START_TIME,
            **(deleted if ending else {}),
        },
        "spec": {**spec, "nodeName": NODE},
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": address,
            "startTime": _START_TIME,
            "conditions": conditions,
            "containerStatuses": statuses,
        },
    }
