"""The Job that makes the key of the encrypted cache."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kascade.plan import CurvineL2Plan, ServingPlan
from tests.unit.kube.rendered import Object, container, everything, find, of_kind, pod

Render = Callable[[ServingPlan], dict[str, list[Object]]]


class FakeApi(HTTPServer):
    """Knows Secrets only."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.secrets: dict[str, Any] = {}
        self.tokens: set[str] = set()


class Handler(BaseHTTPRequestHandler):
    server: FakeApi

    def do_GET(self) -> None:
        self._answer(200 if self.path.rpartition("/")[2] in self.server.secrets else 404)

    def do_POST(self) -> None:
        assert self.path == "/api/v1/namespaces/serving/secrets"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.secrets[body["metadata"]["name"]] = body
        self._answer(201)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - base class' name
        pass

    def _answer(self, status: int) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        self.send_response(status)
        self.end_headers()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    server = FakeApi()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def job(default_charts: dict[str, list[Object]]) -> Object:
    (found,) = [
        item
        for item in of_kind(default_charts["cache"], "Job")
        if item["metadata"]["name"].startswith("kascade-cache-keys-")
    ]
    return found


def run(job: Object, api: FakeApi, tmp_path: Path) -> None:
    step = container(pod(job), "make-keys")
    account = f"{tmp_path}/"
    (tmp_path / "token").write_text("a-token")
    _, flag, script = step["command"]
    for real, fake in (
        ("https://", "http://"),
        ("/var/run/secrets/kubernetes.io/serviceaccount/", account),
        ('ssl.create_default_context(cafile=account + "ca.crt")', "None"),
    ):
        assert real in script
        script = script.replace(real, fake)
    host, port = api.server_address[:2]
    subprocess.run(
        [sys.executable, flag, script, *step["args"]],
        check=True,
        capture_output=True,
        timeout=30,
        env={
            "NAMESPACE": "serving",
            "KUBERNETES_SERVICE_HOST": str(host),
            "KUBERNETES_SERVICE_PORT": str(port),
        },
    )


def test_key_is_made_once(job: Object, api: FakeApi, l2: CurvineL2Plan, tmp_path: Path) -> None:
    assert l2.key_secret is not None
    run(job, api, tmp_path)
    made = api.secrets[l2.key_secret]
    assert len(base64.b64decode(made["data"]["key"])) == 32
    run(job, api, tmp_path)
    assert api.secrets[l2.key_secret] is made
    assert api.tokens == {"Bearer a-token"}


def test_rights_end_at_the_named_secrets(
    default_charts: dict[str, list[Object]], l2: CurvineL2Plan
) -> None:
    role = find(default_charts["cache"], "Role", "kascade-cache-keys")
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [l2.key_secret],
            "verbs": ["get"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]


def test_engine_reads_the_key_that_the_job_makes(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    (job,) = [
        item for item in of_kind(charts["cache"], "Job") if "cache-keys" in item["metadata"]["name"]
    ]
    made = set(container(pod(job), "make-keys")["args"][2:])
    for engine in plan.engines:
        volumes = pod(find(charts[f"engine-{engine.name}"], "Deployment", engine.name))["volumes"]
        (secret,) = [volume["secret"] for volume in volumes if "secret" in volume]
        assert secret["secretName"] in made
        assert job["metadata"]["namespace"] == engine.namespace


def test_without_serde_there_is_no_key(default_plan: ServingPlan, rendered: Render) -> None:
    engine = default_plan.engines[0]
    assert isinstance(engine.lmcache.l2, CurvineL2Plan)
    assert default_plan.curvine is not None
    # What is encrypted never shares a directory with what is not.
    directory = engine.lmcache.l2.directory.replace("-aesgcm-", "-none-")
    (volume,) = default_plan.curvine.volumes
    curvine = replace(default_plan.curvine, volumes=(replace(volume, curvine_path=directory),))
    l2 = replace(engine.lmcache.l2, key_secret=None, directory=directory)
    plain = replace(engine, lmcache=replace(engine.lmcache, l2=l2))
    objects = everything(rendered(replace(default_plan, engines=(plain,), curvine=curvine)))
    assert [
        item["metadata"]["name"] for item in objects if "cache-keys" in item["metadata"]["name"]
    ] == []
    assert "aesgcm" not in json.dumps([item for item in objects if item["kind"] == "Deployment"])
