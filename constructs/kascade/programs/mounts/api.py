"""The few requests to the Kubernetes API."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS: Final = 10


class NoAnswerError(Exception):
    """The API server did not do what it was asked, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of this node.

    Attributes:
        uid: What the kubelet's directories are named by.
        leaving: Whether it is being deleted already.
    """

    name: str
    uid: str
    leaving: bool


class Api:
    """The API server as one node's driver may use it."""

    def __init__(self, url: str = "") -> None:
        """Find it.

        Args:
            url: Where it is, without a login; the cluster's own unless given.
        """
        self._own = not url
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        host = f"[{host}]" if ":" in host else host
        self._url = url or f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._own:
            trust = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
            handlers.append(urllib.request.HTTPSHandler(context=trust))
        self._opener = urllib.request.build_opener(*handlers)

    def pods_on(self, node: str, namespace: str) -> tuple[Pod, ...]:
        """List a namespace's pods on a node.

        Raises:
            NoAnswerError: They are not known.
        """
        query = urllib.parse.urlencode({"fieldSelector": f"spec.nodeName={node}"})
        _, listed = self._ask("GET", f"/api/v1/namespaces/{namespace}/pods?{query}")
        try:
            return tuple(
                Pod(
                    name=item["metadata"]["name"],
                    uid=item["metadata"]["uid"],
                    leaving="deletionTimestamp" in item["metadata"],
                )
                for item in listed["items"]
            )
        except (KeyError, TypeError) as error:
            msg = f"the API server lists pods without {error}"
            raise NoAnswerError(msg) from None

    def evict(self, pod: Pod, namespace: str) -> bool:
        """Ask for a pod to be deleted; False where a disruption budget forbids it for now.

        Raises:
            NoAnswerError: It was neither done nor forbidden.
        """
        status, _ = self._ask(
            "POST",
            f"/api/v1/namespaces/{namespace}/pods/{pod.name}/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": namespace},
                # Another pod may have the name by now.
                "deleteOptions": {"preconditions": {"uid": pod.uid}},
            },
            but=(HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
        )
        return status != HTTPStatus.TOO_MANY_REQUESTS

    def delete_secret(self, name: str, namespace: str) -> None:
        """Delete a Secret, if there is one.

        Raises:
            NoAnswerError: It may still be there.
        """
        path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        self._ask("DELETE", path, but=(HTTPStatus.NOT_FOUND,))

    def _ask(
        self, method: str, path: str, body: object = None, *, but: tuple[int, ...] = ()
    ) -> tuple[int, Any]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            if self._own:
                # Read each time: the kubelet renews it.
                headers["Authorization"] = f"Bearer {(ACCOUNT / 'token').read_text()}"
            asked = urllib.request.Request(  # noqa: S310 - of the cluster, or given
                f"{self._url}{path}",
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                method=method,
            )
            with self._opener.open(asked, timeout=TIMEOUT_SECONDS) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code in but:
                return error.code, None
            msg = f"{method} {path}: {error}"
            raise NoAnswerError(msg) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            msg = f"{method} {path}: {error}"
            raise NoAnswerError(msg) from None
