"""The played Grafana rejects what the real one rejects; test_deploy.py shows what it lets in."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.rehearsal.aws.grafana import ManagedGrafana
from tools.rehearsal_env import rehearsal_environment

pytestmark = pytest.mark.rehearsal

REGION = "us-west-2"
NAME = "g-0123456789ab"
HOST = f"{NAME}.grafana-workspace.{REGION}.amazonaws.com"


@pytest.fixture
def grafana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedGrafana]:
    scratch = tmp_path_factory.mktemp("grafana") / "certificates"
    python = rehearsal_environment().python
    with ManagedGrafana(scratch, python=python, region=REGION) as served:
        served.hear({"physical_id": NAME, "action": "create"})
        yield served


@pytest.fixture
def aws(grafana: ManagedGrafana) -> Any:
    return boto3.client(
        "grafana",
        endpoint_url=grafana.address,
        region_name=REGION,
        aws_access_key_id="rehearsal",
        aws_secret_access_key="rehearsal",  # noqa: S106 - nobody checks it
    )


def token(aws: Any, *, role: str = "ADMIN") -> str:
    account = aws.create_workspace_service_account(workspaceId=NAME, name=role, grafanaRole=role)
    made = aws.create_workspace_service_account_token(
        workspaceId=NAME, serviceAccountId=account["id"], name=role, secondsToLive=60
    )
    key: str = made["serviceAccountToken"]["key"]
    return key


def ask(  # noqa: PLR0913, PLR0917 - what a request consists of
    grafana: ManagedGrafana, method: str, path: str, key: str, body: Any = None, host: str = HOST
) -> int:
    context = ssl.create_default_context(cafile=str(grafana.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", grafana.port, context=context, timeout=5)
    connection.connect = lambda: _connect(connection, context, host)  # type: ignore[method-assign]
    headers = {"Authorization": f"Bearer {key}", "Host": host}
    connection.request(method, path, body=json.dumps(body), headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def _connect(connection: http.client.HTTPSConnection, context: ssl.SSLContext, host: str) -> None:
    plain = socket.create_connection((connection.host, connection.port), timeout=5)
    connection.sock = context.wrap_socket(plain, server_hostname=host)


def test_its_certificate_is_for_workspaces_only(grafana: ManagedGrafana, aws: Any) -> None:
    key = token(aws)
    assert ask(grafana, "GET", "/api/search?type=dash-db", key) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(grafana, "GET", "/api/search?type=dash-db", key, host="grafana.example.com")


def test_only_a_valid_token_opens_it(grafana: ManagedGrafana, aws: Any) -> None:
    path = "/api/search?type=dash-db"
    assert ask(grafana, "GET", path, "glsa_wrong") == 401
    expired = token(aws)
    (held,) = grafana.workspaces[NAME].tokens.values()
    held.expires_at -= 61
    assert ask(grafana, "GET", path, expired) == 401
    assert ask(grafana, "GET", path, token(aws, role="VIEWER")) == 403
    assert grafana.workspaces[NAME].refused == 2


def test_it_answers_as_grafana_does(grafana: ManagedGrafana, aws: Any) -> None:
    key = token(aws)

    def call(method: str, path: str, body: Any = None) -> int:
        return ask(grafana, method, path, key, body)

    source = {"uid": "amp", "name": "amp"}
    assert call("PUT", "/api/datasources/uid/amp", source) == 404
    assert call("POST", "/api/datasources", source) == 200
    assert call("POST", "/api/datasources", source) == 409
    folder = {"uid": "f", "title": "F"}
    board = {"dashboard": {"uid": "d", "title": "D"}, "folderUid": "f"}
    assert call("POST", "/api/dashboards/db", board) == 400
    assert call("POST", "/api/folders", folder) == 200
    assert call("POST", "/api/folders", folder) == 412
    assert call("PUT", "/api/folders/f", folder) == 412
    assert call("PUT", "/api/folders/f", folder | {"overwrite": True}) == 200
    assert call("POST", "/api/dashboards/db", board) == 200
    assert call("POST", "/api/dashboards/db", board) == 412
    assert call("DELETE", "/api/folders/f") == 200
    assert grafana.workspaces[NAME].dashboards == {}
    assert call("DELETE", "/api/dashboards/uid/d") == 404


def test_a_workspace_that_is_gone_is_not_found(grafana: ManagedGrafana, aws: Any) -> None:
    grafana.hear({"physical_id": NAME, "action": "delete"})
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        aws.list_workspace_service_accounts(workspaceId=NAME)
