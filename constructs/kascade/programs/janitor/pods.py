"""Which pods there are, by the Kubernetes API."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from .settings import JanitorSettings

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS: Final = 10
_PAGE: Final = 500

_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""A pod's object is 10 to 20 KB, its name is all that is wanted. A server that cannot do that
answers with whole objects."""

_ALIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A pod in one of these phases has no running container, and gets none again."""


class UnknownPodsError(Exception):
    """The API server did not say which pods there are."""


def living_pods(settings: JanitorSettings) -> frozenset[str]:
    """Return the names of the pods that may have a directory of their own.

    Raises:
        UnknownPodsError: The API server cannot be reached, rejects, or knows no such pod at all:
            then the labels are more likely wrong than every engine gone, and what dead pods left
            in their directories can wait.
    """
    names: set[str] = set()
    following = ""
    try:
        opener = _opener(settings)
        while True:
            with opener.open(_request(settings, following), timeout=TIMEOUT_SECONDS) as answer:
                page: dict[str, Any] = json.load(answer)
            names |= {item["metadata"]["name"] for item in page["items"]}
            following = page.get("metadata", {}).get("continue", "")
            if not following:
                break
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        msg = f"the API server does not list pods: {error}"
        raise UnknownPodsError(msg) from None
    if not names:
        msg = f"no pod in {settings.namespace} has the labels {settings.selector}"
        raise UnknownPodsError(msg)
    return frozenset(names)


def _base(settings: JanitorSettings) -> str:
    if settings.api_url:
        return settings.api_url
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    if ":" in host:
        host = f"[{host}]"
    return f"https://{host}:{os.environ['KUBERNETES_SERVICE_PORT']}"


def _opener(settings: JanitorSettings) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if not settings.api_url:
        trust = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
        handlers.append(urllib.request.HTTPSHandler(context=trust))
    return urllib.request.build_opener(*handlers)


def _request(settings: JanitorSettings, following: str) -> urllib.request.Request:
    query = {"labelSelector": settings.selector, "fieldSelector": _ALIVE, "limit": f"{_PAGE}"}
    if following:
        query["continue"] = following
    url = (
        f"{_base(settings)}/api/v1/namespaces/{settings.namespace}/pods?"
        f"{urllib.parse.urlencode(query)}"
    )
    headers = {"Accept": f"{_METADATA_ONLY}, application/json"}
    if not settings.api_url:
        # Read each time: the kubelet renews it.
        headers["Authorization"] = f"Bearer {(ACCOUNT / 'token').read_text()}"
    return urllib.request.Request(url, headers=headers)  # noqa: S310 - of the cluster, or given
