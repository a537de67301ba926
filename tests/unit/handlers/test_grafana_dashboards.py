"""The dashboard function against a Grafana of its own and stubbed AWS calls."""

from __future__ import annotations

import http.client
import io
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from kascade.handlers.grafana_dashboards import index

WORKSPACE = "g-0123456789"
TOKEN = "key-of-the-token"  # noqa: S105 - the fake Grafana takes any
ACCOUNT = {"id": "7", "name": "kascade-demo", "isDisabled": "false", "grafanaRole": "ADMIN"}
PROPERTIES = {
    "WorkspaceId": WORKSPACE,
    "WorkspaceEndpoint": f"{WORKSPACE}.grafana-workspace.us-west-2.amazonaws.com",
    "GrafanaVersion": "12.4",
    "PrometheusEndpoint": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1/",
    "Region": "us-west-2",
    "FolderUid": "demo",
    "FolderTitle": "Demo",
    "DatasourceUid": "demo-amp",
    "ScrapeIntervalSeconds": "30",
    "Bucket": "assets",
    "Key": "content.json",
}
BOARD = {"uid": "tiers", "title": "Tiers", "panels": []}


@dataclass
class FakeGrafana:
    """As much of Grafana's HTTP API as the function talks to."""

    folders: dict[str, Any] = field(default_factory=dict)
    datasources: dict[str, Any] = field(default_factory=dict)
    dashboards: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    failures: list[int] = field(default_factory=list)
    """Statuses to answer first, whatever is asked; 0 hangs up without an answer."""
    lose_answers: int = 0
    """Answers to do the work for and then not to give."""

    def answer(  # noqa: C901, PLR0911, PLR0912 - a table of routes
        self, method: str, path: str, body: Any
    ) -> tuple[int, Any]:
        self.calls.append((method, path))
        path, _, query = path.partition("?")
        match [method, *path.strip("/").split("/")[1:]]:
            case ["PUT", "datasources", "uid", uid]:
                return self._replace(self.datasources, uid, body)
            case ["POST", "datasources"]:
                return self._create(self.datasources, body["uid"], body, 409)
            case ["GET", "datasources", "uid", uid] if uid in self.datasources:
                return 200, self.datasources[uid]
            case ["DELETE", "datasources", "uid", uid]:
                return self._drop(self.datasources, uid)
            case ["PUT", "folders", uid]:
                return self._replace(self.folders, uid, body)
            case ["POST", "folders"]:
                return self._create(self.folders, body["uid"], body, 412)
            case ["DELETE", "folders", uid]:
                held = [k for k, v in self.dashboards.items() if v["folderUid"] == uid]
                for dashboard in held:
                    del self.dashboards[dashboard]
                return self._drop(self.folders, uid)
            case ["POST", "dashboards", "db"]:
                if body["folderUid"] not in self.folders:
                    return 400, {"message": "folder not found"}
                self.dashboards[body["dashboard"]["uid"]] = body
                return 200, {"status": "success"}
            case ["DELETE", "dashboards", "uid", uid]:
                return self._drop(self.dashboards, uid)
            case ["GET", "search"]:
                folder = query.rpartition("folderUIDs=")[2]
                return 200, [
                    {"uid": k} for k, v in self.dashboards.items() if v["folderUid"] == folder
                ]
            case _:
                return 404, {"message": "not found"}

    @staticmethod
    def _replace(kept: dict[str, Any], uid: str, body: Any) -> tuple[int, Any]:
        if uid not in kept:
            return 404, {"message": "not found"}
        kept[uid] = body
        return 200, body

    @staticmethod
    def _create(kept: dict[str, Any], uid: str, body: Any, exists: int) -> tuple[int, Any]:
        if uid in kept:
            return exists, {"message": "exists"}
        kept[uid] = body
        return 200, body

    @staticmethod
    def _drop(kept: dict[str, Any], uid: str) -> tuple[int, Any]:
        return (200, {}) if kept.pop(uid, None) is not None else (404, {"message": "not found"})


@pytest.fixture
def fake() -> FakeGrafana:
    return FakeGrafana()


@pytest.fixture
def connect(fake: FakeGrafana) -> Iterator[index.Connect]:
    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            fake.tokens.add(self.headers["Authorization"])
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            if fake.failures:
                status, answer = fake.failures.pop(0), {"message": f"no, {TOKEN}."}
            else:
                status, answer = fake.answer(self.command, self.path, body)
                if fake.lose_answers:
                    fake.lose_answers -= 1
                    status = 0
            if status == 0:
                self.close_connection = True
                return
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = respond  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def to_fake(host: str) -> http.client.HTTPConnection:
        assert host == PROPERTIES["WorkspaceEndpoint"]
        return http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)

    yield to_fake
    server.shutdown()
    server.server_close()


class Call:
    """Stands for Lambda's context."""

    aws_request_id = "request-1"

    def __init__(self, seconds: float = 300) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


@dataclass
class Aws:
    """Stubbed clients; a test says which calls it expects, in order."""

    grafana: Any
    s3: Any
    stubs: tuple[Stubber, Stubber]

    @property
    def on_grafana(self) -> Stubber:
        return self.stubs[0]

    def expect_content(self, *dashboards: dict[str, Any]) -> None:
        content = json.dumps({board["uid"]: board for board in dashboards}).encode()
        self.stubs[1].add_response(
            "get_object",
            {"Body": StreamingBody(io.BytesIO(content), len(content))},
            {"Bucket": "assets", "Key": "content.json"},
        )

    def expect_account(self, *, exists: bool = True) -> None:
        found = [ACCOUNT] if exists else []
        self.on_grafana.add_response(
            "list_workspace_service_accounts",
            {"serviceAccounts": found, "workspaceId": WORKSPACE},
            {"workspaceId": WORKSPACE},
        )
        if not exists:
            self.on_grafana.add_response(
                "create_workspace_service_account",
                {"id": "7", "name": "kascade-demo", "grafanaRole": "ADMIN", "workspaceId": "g-1"},
                {"workspaceId": WORKSPACE, "name": "kascade-demo", "grafanaRole": "ADMIN"},
            )

    def expect_token(self) -> None:
        self.on_grafana.add_response(
            "create_workspace_service_account_token",
            {
                "serviceAccountToken": {"id": "9", "name": "t", "key": TOKEN},
                "serviceAccountId": "7",
                "workspaceId": WORKSPACE,
            },
            {
                "workspaceId": WORKSPACE,
                "serviceAccountId": "7",
                "name": ANY,
                "secondsToLive": 900,
            },
        )
        self.on_grafana.add_response(
            "delete_workspace_service_account_token",
            {"tokenId": "9", "serviceAccountId": "7", "workspaceId": WORKSPACE},
            {"workspaceId": WORKSPACE, "serviceAccountId": "7", "tokenId": "9"},
        )

    def expect_account_deleted(self) -> None:
        self.on_grafana.add_response(
            "delete_workspace_service_account",
            {"serviceAccountId": "7", "workspaceId": WORKSPACE},
            {"workspaceId": WORKSPACE, "serviceAccountId": "7"},
        )


@pytest.fixture
def aws() -> Iterator[Aws]:
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-west-2"}
    grafana, s3 = boto3.client("grafana", **keys), boto3.client("s3", **keys)
    with Stubber(grafana) as on_grafana, Stubber(s3) as on_s3:
        yield Aws(grafana, s3, (on_grafana, on_s3))
        on_grafana.assert_no_pending_responses()
        on_s3.assert_no_pending_responses()


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def run(aws: Aws, connect: index.Connect, pauses: list[float]) -> Run:
    def go(
        request: str = "Create", *, seconds: float = 300, old: Any = None, **changes: str
    ) -> dict[str, Any]:
        deployer = index.Deployer(
            grafana=aws.grafana, s3=aws.s3, connect=connect, sleep=pauses.append
        )
        event = {
            "RequestType": request,
            "PhysicalResourceId": f"{WORKSPACE}/demo",
            "ResourceProperties": {**PROPERTIES, **changes},
            "OldResourceProperties": old or {},
        }
        return deployer.run(event, Call(seconds))

    return go


def test_create_writes_datasource_folder_and_dashboards(
    aws: Aws, fake: FakeGrafana, run: Run
) -> None:
    aws.expect_content(BOARD)
    aws.expect_account(exists=False)
    aws.expect_token()

    answer = run()

    assert answer == {
        "PhysicalResourceId": f"{WORKSPACE}/demo",
        "Data": {"FolderUrl": f"https://{PROPERTIES['WorkspaceEndpoint']}/dashboards/f/demo"},
    }
    assert fake.datasources["demo-amp"] == {
        "uid": "demo-amp",
        "name": "demo-amp",
        "type": "grafana-amazonprometheus-datasource",
        "access": "proxy",
        "url": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1",
        "isDefault": True,
        "jsonData": {
            "httpMethod": "POST",
            "sigV4Auth": True,
            "sigV4AuthType": "default",
            "sigV4Region": "us-west-2",
            "timeInterval": "30s",
            "kascadeFolder": "demo",
        },
    }
    assert fake.folders["demo"]["title"] == "Demo"
    assert fake.dashboards["tiers"]["dashboard"] == {**BOARD, "id": None}
    assert fake.dashboards["tiers"]["folderUid"] == "demo"
    assert fake.tokens == {f"Bearer {TOKEN}"}


def test_a_second_run_changes_nothing(aws: Aws, fake: FakeGrafana, run: Run) -> None:
    states = []
    for exists in (False, True):
        aws.expect_content(BOARD)
        aws.expect_account(exists=exists)
        aws.expect_token()
        run("Create" if not exists else "Update")
        states.append(json.dumps([fake.datasources, fake.folders, fake.dashboards]))
    assert states[0] == states[1]
    assert not any(method == "DELETE" for method, _ in fake.calls)


def test_an_account_on_a_later_page_is_found(aws: Aws, fake: FakeGrafana, run: Run) -> None:
    aws.expect_content(BOARD)
    other = {**ACCOUNT, "id": "1", "name": "other"}
    for found, more, asked in (
        ([other], {"nextToken": "n"}, {}),
        ([ACCOUNT], {}, {"nextToken": "n"}),
    ):
        aws.on_grafana.add_response(
            "list_workspace_service_accounts",
            {"serviceAccounts": found, "workspaceId": WORKSPACE, **more},
            {"workspaceId": WORKSPACE, **asked},
        )
    aws.expect_token()
    run()
    assert "tiers" in fake.dashboards


def test_update_deletes_what_is_no_longer_listed(aws: Aws, fake: FakeGrafana, run: Run) -> None:
    fake.folders["demo"] = {"title": "Old title"}
    fake.dashboards["old"] = {"folderUid": "demo"}
    fake.dashboards["elsewhere"] = {"folderUid": "other"}
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()
    run("Update")
    assert set(fake.dashboards) == {"tiers", "elsewhere"}
    assert fake.folders["demo"]["title"] == "Demo"


def test_update_deletes_a_datasource_of_another_uid(aws: Aws, fake: FakeGrafana, run: Run) -> None:
    fake.datasources["old-amp"] = {"jsonData": {"kascadeFolder": "demo"}}
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()
    run("Update", old={**PROPERTIES, "DatasourceUid": "old-amp"})
    assert set(fake.datasources) == {"demo-amp"}


def test_delete_removes_folder_datasource_and_account(
    aws: Aws, fake: FakeGrafana, run: Run
) -> None:
    fake.folders["demo"] = {}
    fake.dashboards["tiers"] = {"folderUid": "demo"}
    fake.datasources["demo-amp"] = {"jsonData": {"kascadeFolder": "demo"}}
    aws.expect_account()
    aws.expect_token()
    aws.expect_account_deleted()
    assert run("Delete") == {"PhysicalResourceId": f"{WORKSPACE}/demo"}
    assert (fake.folders, fake.dashboards, fake.datasources) == ({}, {}, {})


def test_delete_keeps_a_datasource_that_another_folder_took_over(
    aws: Aws, fake: FakeGrafana, run: Run
) -> None:
    fake.datasources["demo-amp"] = {"jsonData": {"kascadeFolder": "newer"}}
    aws.expect_account()
    aws.expect_token()
    aws.expect_account_deleted()
    run("Delete")
    assert set(fake.datasources) == {"demo-amp"}


def test_delete_of_nothing_succeeds(aws: Aws, run: Run) -> None:
    aws.expect_account()
    aws.expect_token()
    aws.expect_account_deleted()
    run("Delete")


def test_delete_with_a_missing_workspace_succeeds(aws: Aws, fake: FakeGrafana, run: Run) -> None:
    aws.on_grafana.add_client_error(
        "list_workspace_service_accounts", "ResourceNotFoundException", http_status_code=404
    )
    assert run("Delete") == {"PhysicalResourceId": f"{WORKSPACE}/demo"}
    assert fake.calls == []


def test_an_error_deletes_the_token_and_becomes_one_sentence(
    aws: Aws, fake: FakeGrafana, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fake.failures = [400]
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()  # the deletion is expected with it
    with pytest.raises(index.DeployError) as error:
        run()
    assert str(error.value) == (
        "Grafana answered PUT /api/datasources/uid/demo-amp with 400: no, (token)."
    )
    assert TOKEN not in caplog.text


def test_a_token_that_cannot_be_deleted_does_not_hide_success(
    aws: Aws, fake: FakeGrafana, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.on_grafana.add_response(
        "create_workspace_service_account_token",
        {
            "serviceAccountToken": {"id": "9", "name": "t", "key": TOKEN},
            "serviceAccountId": "7",
            "workspaceId": WORKSPACE,
        },
    )
    aws.on_grafana.add_client_error("delete_workspace_service_account_token", "ThrottlingException")
    run()
    assert "tiers" in fake.dashboards
    assert "Token 9 was not deleted" in caplog.text


@pytest.mark.parametrize("failures", [[429, 503], [403, 401], [0]])
def test_passing_failures_are_waited_out(
    aws: Aws, fake: FakeGrafana, run: Run, pauses: list[float], failures: list[int]
) -> None:
    expected = [2.0**attempt for attempt in range(len(failures))]
    fake.failures = failures
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()
    run()
    assert "tiers" in fake.dashboards
    assert pauses == expected


def test_a_lost_answer_to_a_creation_is_no_conflict(aws: Aws, fake: FakeGrafana, run: Run) -> None:
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()
    answer = fake.answer

    def lose_the_first_post(method: str, path: str, body: Any) -> tuple[int, Any]:
        if (method, path) == ("POST", "/api/datasources") and not fake.datasources:
            fake.lose_answers = 1
        return answer(method, path, body)

    fake.answer = lose_the_first_post  # type: ignore[method-assign]
    run()
    assert "tiers" in fake.dashboards


def test_lasting_failures_end_within_the_attempts(
    aws: Aws, fake: FakeGrafana, run: Run, pauses: list[float]
) -> None:
    fake.failures = [503] * 20
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()
    with pytest.raises(index.DeployError, match="with 503"):
        run()
    assert len(pauses) == index.ATTEMPTS
    assert sum(pauses) + index.ATTEMPTS * index.HTTP_TIMEOUT_SECONDS < 300 - index.RESERVE_SECONDS


def test_there_is_no_retry_without_time_for_it(
    aws: Aws, fake: FakeGrafana, run: Run, pauses: list[float]
) -> None:
    fake.failures = [0]
    aws.expect_content(BOARD)
    aws.expect_account()
    aws.expect_token()
    with pytest.raises(index.DeployError, match="could not be reached"):
        run(seconds=index.RESERVE_SECONDS + 5)
    assert pauses == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "example.com",
        "g-0123456789.grafana-workspace.us-west-2.amazonaws.com.example.com",
        "g-0123456789.grafana-workspace.us-west-2.amazonaws.com:8443",
        "g-9999999999.grafana-workspace.us-west-2.amazonaws.com",
        "user@g-0123456789.grafana-workspace.us-west-2.amazonaws.com",
    ],
)
def test_no_token_is_made_for_a_foreign_endpoint(
    aws: Aws, fake: FakeGrafana, run: Run, endpoint: str
) -> None:
    aws.expect_content(BOARD)
    aws.expect_account()
    with pytest.raises(index.DeployError, match="is not the endpoint of workspace"):
        run(WorkspaceEndpoint=endpoint)
    assert fake.calls == []


def test_rights_granted_a_moment_ago_are_waited_for(
    aws: Aws, fake: FakeGrafana, run: Run, pauses: list[float]
) -> None:
    aws.stubs[1].add_client_error("get_object", "AccessDenied", http_status_code=403)
    aws.expect_content(BOARD)
    aws.on_grafana.add_client_error("list_workspace_service_accounts", "AccessDeniedException")
    aws.expect_account()
    aws.expect_token()
    run()
    assert "tiers" in fake.dashboards
    assert pauses == [1.0, 1.0]


def test_an_aws_error_becomes_one_sentence(aws: Aws, run: Run) -> None:
    aws.stubs[1].add_client_error("get_object", "NoSuchKey", "The key does not exist.")
    with pytest.raises(index.DeployError) as error:
        run()
    assert str(error.value) == "GetObject failed with NoSuchKey: The key does not exist."


def test_a_dashboard_under_another_uid_is_refused(aws: Aws, run: Run) -> None:
    content = json.dumps({"tiers": {"uid": "other"}}).encode()
    aws.stubs[1].add_response(
        "get_object", {"Body": StreamingBody(io.BytesIO(content), len(content))}
    )
    with pytest.raises(index.DeployError, match="no dashboard with the uid 'tiers'"):
        run()


def test_a_missing_property_is_named() -> None:
    with pytest.raises(index.DeployError, match="lacks the property 'WorkspaceId'"):
        index.DashboardSettings.read({})


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("10.4", "prometheus"),
        ("12.4", "grafana-amazonprometheus-datasource"),
        ("13.0", "grafana-amazonprometheus-datasource"),
        ("", "grafana-amazonprometheus-datasource"),
    ],
)
def test_the_datasource_type_follows_the_version(version: str, kind: str) -> None:
    settings = index.DashboardSettings.read({**PROPERTIES, "GrafanaVersion": version})
    assert settings.datasource["type"] == kind


def test_connections_are_tls_with_a_checked_certificate() -> None:
    connection = index.open_https("example.invalid")
    assert isinstance(connection, http.client.HTTPSConnection)
    context = connection._context  # type: ignore[attr-defined]
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"


def test_the_entry_point_makes_its_own_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    with pytest.raises(index.DeployError, match="lacks the property"):
        index.on_event({"RequestType": "Create", "ResourceProperties": {}}, Call())
