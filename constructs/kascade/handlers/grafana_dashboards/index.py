"""Carry dashboards into a Managed Grafana workspace, as a CloudFormation custom resource.

CloudFormation makes a workspace but nothing inside it. This function makes a Grafana token that
lives minutes, writes the data source, the folder and every dashboard of an S3 object with it, and
deletes what the folder holds beyond them. The token is deleted at the end, after an error too.

Called by the CDK's provider framework, which reports to CloudFormation.
"""

from __future__ import annotations

import http.client
import json
import logging
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

T = TypeVar("T")

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

TOKEN_SECONDS = 15 * 60
RESERVE_SECONDS = 30
"""Of the function's time, kept back for deleting the token and reporting."""

HTTP_TIMEOUT_SECONDS = 10
ATTEMPTS = 6
LONGEST_PAUSE_SECONDS = 16
PAGE = 5000
"""Most dashboards of one folder that the search returns; its own upper limit."""

AMAZON_TYPE_SINCE = 12
"""Major Grafana version from which AMP has a data source type of its own."""

_ENDPOINT = re.compile(r"(?P<id>g-[0-9a-z]+)\.grafana-workspace\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_AWS = Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "max_attempts": 4})

# 401 and 403 too: a new token, or a new network rule of the workspace, takes seconds to be known.
_WORTH_RETRYING = frozenset({401, 403, 429, 500, 502, 503, 504})
_OK = frozenset({200, 201})
_NOT_FOUND = 404
_EXISTS = frozenset({409, 412})

Connect = Callable[[str], http.client.HTTPConnection]
"""Opens a connection to a host; tests put a server of their own behind it."""


class DeployError(Exception):
    """What went wrong, in one sentence for CloudFormation's event list."""


class Context(Protocol):
    """What is used of Lambda's context object."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the call."""
        ...


@dataclass(frozen=True)
class DashboardSettings:
    """The custom resource's properties."""

    workspace_id: str
    endpoint: str
    grafana_version: str
    prometheus_endpoint: str
    region: str
    folder_uid: str
    folder_title: str
    datasource_uid: str
    scrape_interval_seconds: str
    bucket: str
    key: str

    @classmethod
    def read(cls, properties: Mapping[str, Any]) -> DashboardSettings:
        """Take them from an event.

        Raises:
            DeployError: One is missing.
        """
        try:
            return cls(
                workspace_id=properties["WorkspaceId"],
                endpoint=properties["WorkspaceEndpoint"],
                grafana_version=properties["GrafanaVersion"],
                prometheus_endpoint=properties["PrometheusEndpoint"],
                region=properties["Region"],
                folder_uid=properties["FolderUid"],
                folder_title=properties["FolderTitle"],
                datasource_uid=properties["DatasourceUid"],
                scrape_interval_seconds=properties["ScrapeIntervalSeconds"],
                bucket=properties["Bucket"],
                key=properties["Key"],
            )
        except KeyError as missing:
            message = f"The resource lacks the property {missing}."
            raise DeployError(message) from None

    @property
    def physical_id(self) -> str:
        """Another workspace or folder is another resource, so that the old one is cleaned up."""
        return f"{self.workspace_id}/{self.folder_uid}"

    @property
    def account_name(self) -> str:
        """Name of the Grafana service account; one for each folder."""
        return f"kascade-{self.folder_uid}"

    @property
    def datasource(self) -> dict[str, Any]:
        """The data source as Grafana's API takes it.

        ``kascadeFolder`` is ours: it says which folder's deployment wrote the data source last.
        """
        major = self.grafana_version.partition(".")[0]
        own_type = not major.isdigit() or int(major) >= AMAZON_TYPE_SINCE
        return {
            "uid": self.datasource_uid,
            "name": self.datasource_uid,
            "type": "grafana-amazonprometheus-datasource" if own_type else "prometheus",
            "access": "proxy",
            "url": self.prometheus_endpoint.rstrip("/"),
            "isDefault": True,
            "jsonData": {
                "httpMethod": "POST",
                "sigV4Auth": True,
                "sigV4AuthType": "default",
                "sigV4Region": self.region,
                "timeInterval": f"{self.scrape_interval_seconds}s",
                "kascadeFolder": self.folder_uid,
            },
        }


class Deadline:
    """The time a call may take, and the pauses inside it."""

    def __init__(self, seconds: float, sleep: Callable[[float], None]) -> None:
        self._end = time.monotonic() + seconds
        self._sleep = sleep

    def pause(self, attempt: int) -> bool:
        """Wait before the next attempt, longer each time; False when there is no time for it."""
        if attempt >= ATTEMPTS:
            return False
        seconds = min(2.0**attempt, LONGEST_PAUSE_SECONDS)
        if time.monotonic() + seconds + HTTP_TIMEOUT_SECONDS > self._end:
            return False
        self._sleep(seconds)
        return True


def open_https(host: str) -> http.client.HTTPConnection:
    """Connect to a workspace: TLS with a checked certificate, no proxy, no redirects followed."""
    return http.client.HTTPSConnection(
        host, timeout=HTTP_TIMEOUT_SECONDS, context=ssl.create_default_context()
    )


class Grafana:
    """The few calls of Grafana's HTTP API that are needed."""

    def __init__(self, host: str, token: str, *, deadline: Deadline, connect: Connect) -> None:
        self._host = host
        self._token = token
        self._deadline = deadline
        self._connect = connect

    def put_datasource(self, body: Mapping[str, Any]) -> None:
        """Create or replace a data source."""
        self._put(f"/api/datasources/uid/{_safe(body['uid'])}", "/api/datasources", body)

    def put_folder(self, uid: str, title: str) -> None:
        """Create a folder or rename it."""
        body = {"uid": uid, "title": title, "overwrite": True}
        self._put(f"/api/folders/{_safe(uid)}", "/api/folders", body)

    def put_dashboard(self, dashboard: Mapping[str, Any], folder_uid: str) -> None:
        """Create or replace a dashboard."""
        body = {
            "dashboard": {**dashboard, "id": None},
            "folderUid": folder_uid,
            "overwrite": True,
            "message": "Deployed by CloudFormation",
        }
        self._expect("POST", "/api/dashboards/db", body)

    def dashboards(self, folder_uid: str) -> set[str]:
        """Uids of a folder's dashboards."""
        path = f"/api/search?type=dash-db&limit={PAGE}&folderUIDs={_safe(folder_uid)}"
        return {found["uid"] for found in self._expect("GET", path)}

    def delete_dashboard(self, uid: str) -> None:
        """Delete a dashboard, if it is there."""
        self._delete(f"/api/dashboards/uid/{_safe(uid)}")

    def delete_folder(self, uid: str) -> None:
        """Delete a folder and all in it, if it is there."""
        self._delete(f"/api/folders/{_safe(uid)}")

    def delete_datasource(self, uid: str, *, written_for: str) -> None:
        """Delete a data source, if it is there and no other folder's deployment took it over."""
        path = f"/api/datasources/uid/{_safe(uid)}"
        status, found = self._request("GET", path)
        if status == _NOT_FOUND:
            return
        self._check("GET", path, status, found)
        if found.get("jsonData", {}).get("kascadeFolder") == written_for:
            self._delete(path)

    def _put(self, path: str, collection: str, body: Mapping[str, Any]) -> None:
        status, answer = self._request("PUT", path, body)
        if status == _NOT_FOUND:
            status, answer = self._request("POST", collection, body)
            if status not in _EXISTS:
                self._check("POST", collection, status, answer)
                return
            # An attempt whose answer was lost did its work after all.
            status, answer = self._request("PUT", path, body)
        self._check("PUT", path, status, answer)

    def _delete(self, path: str) -> None:
        status, answer = self._request("DELETE", path)
        if status != _NOT_FOUND:
            self._check("DELETE", path, status, answer)

    def _expect(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        status, answer = self._request(method, path, body)
        self._check(method, path, status, answer)
        return answer

    def _check(self, method: str, path: str, status: int, answer: Any) -> None:
        if status in _OK:
            return
        said = str(answer.get("message", ""))[:200] if isinstance(answer, dict) else ""
        said = said.replace(self._token, "(token)").rstrip(". ")
        message = f"Grafana answered {method} {path} with {status}{f': {said}' if said else ''}."
        raise DeployError(message)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        attempt = 0
        while True:
            try:
                status, answer = self._exchange(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if not self._deadline.pause(attempt):
                    message = (
                        f"Grafana could not be reached for {method} {path} "
                        f"({type(error).__name__})."
                    )
                    raise DeployError(message) from None
            else:
                if status not in _WORTH_RETRYING or not self._deadline.pause(attempt):
                    return status, answer
            attempt += 1

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        connection = self._connect(self._host)
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={
                    "Accept": "application/json",
                    "Authorization": f"Bearer {self._token}",
                    "Content-Type": "application/json",
                },
            )
            response = connection.getresponse()
            return response.status, _parsed(response.read())
        finally:
            connection.close()


class Deployer:
    """One run of the custom resource."""

    def __init__(
        self,
        *,
        grafana: Any,
        s3: Any,
        connect: Connect = open_https,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the AWS clients and, for tests, a way to connect and to wait."""
        self._grafana = grafana
        self._s3 = s3
        self._connect = connect
        self._sleep = sleep

    def run(self, event: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Handle one event of the custom resource.

        Raises:
            DeployError: It failed.
        """
        settings = DashboardSettings.read(event["ResourceProperties"])
        remaining = context.get_remaining_time_in_millis() / 1000
        deadline = Deadline(max(0.0, remaining - RESERVE_SECONDS), self._sleep)
        try:
            if event["RequestType"] == "Delete":
                self._remove(settings, deadline, context.aws_request_id)
                return {"PhysicalResourceId": event["PhysicalResourceId"]}
            old = event.get("OldResourceProperties", {}).get("DatasourceUid")
            return self._deploy(settings, deadline, context.aws_request_id, old_datasource=old)
        except ClientError as error:
            reason = error.response.get("Error", {})
            said = str(reason.get("Message", "")).rstrip(". ")
            message = f"{error.operation_name} failed with {reason.get('Code')}: {said}."
            raise DeployError(message) from None
        except BotoCoreError as error:
            message = f"AWS could not be reached ({type(error).__name__})."
            raise DeployError(message) from None

    def _deploy(
        self,
        settings: DashboardSettings,
        deadline: Deadline,
        request: str,
        *,
        old_datasource: str | None,
    ) -> dict[str, Any]:
        dashboards = self._read_dashboards(settings, deadline)
        account = self._service_account(settings, deadline)
        with self._session(settings, account, deadline, request) as grafana:
            grafana.put_datasource(settings.datasource)
            grafana.put_folder(settings.folder_uid, settings.folder_title)
            for uid in sorted(dashboards):
                grafana.put_dashboard(dashboards[uid], settings.folder_uid)
            gone = grafana.dashboards(settings.folder_uid) - dashboards.keys()
            for uid in sorted(gone):
                grafana.delete_dashboard(uid)
            if old_datasource not in (None, settings.datasource_uid):
                grafana.delete_datasource(old_datasource, written_for=settings.folder_uid)
        log.info("Wrote %d dashboards and deleted %d", len(dashboards), len(gone))
        return {
            "PhysicalResourceId": settings.physical_id,
            "Data": {
                "FolderUrl": f"https://{settings.endpoint}/dashboards/f/{settings.folder_uid}"
            },
        }

    def _remove(self, settings: DashboardSettings, deadline: Deadline, request: str) -> None:
        try:
            account = self._service_account(settings, deadline)
        except self._grafana.exceptions.ResourceNotFoundException:
            log.info("Workspace %s is gone, and all in it", settings.workspace_id)
            return
        try:
            with self._session(settings, account, deadline, request) as grafana:
                grafana.delete_folder(settings.folder_uid)
                grafana.delete_datasource(settings.datasource_uid, written_for=settings.folder_uid)
        finally:
            self._grafana.delete_workspace_service_account(
                workspaceId=settings.workspace_id, serviceAccountId=account
            )

    def _read_dashboards(self, settings: DashboardSettings, deadline: Deadline) -> dict[str, Any]:
        def read() -> bytes:
            found = self._s3.get_object(Bucket=settings.bucket, Key=settings.key)
            content: bytes = found["Body"].read()
            return content

        dashboards = _parsed(_patiently(read, deadline))
        where = f"s3://{settings.bucket}/{settings.key}"
        if not isinstance(dashboards, dict):
            message = f"{where} is not a JSON object of dashboards by uid."
            raise DeployError(message)
        for uid, dashboard in dashboards.items():
            if not isinstance(dashboard, dict) or dashboard.get("uid") != uid:
                message = f"{where} holds no dashboard with the uid {uid!r} under that key."
                raise DeployError(message)
        return dashboards

    def _service_account(self, settings: DashboardSettings, deadline: Deadline) -> str:
        """Find or create the service account; its id."""

        def find() -> str | None:
            token: dict[str, str] = {}
            while True:
                page = self._grafana.list_workspace_service_accounts(
                    workspaceId=settings.workspace_id, **token
                )
                for account in page["serviceAccounts"]:
                    if account["name"] == settings.account_name:
                        found: str = account["id"]
                        return found
                if not page.get("nextToken"):
                    return None
                token = {"nextToken": page["nextToken"]}

        found = _patiently(find, deadline)
        if found is not None:
            return found
        created: str = self._grafana.create_workspace_service_account(
            workspaceId=settings.workspace_id,
            name=settings.account_name,
            grafanaRole="ADMIN",  # data sources take no less
        )["id"]
        return created

    @contextmanager
    def _session(
        self, settings: DashboardSettings, account: str, deadline: Deadline, request: str
    ) -> Iterator[Grafana]:
        endpoint = _ENDPOINT.fullmatch(settings.endpoint)
        if endpoint is None or endpoint["id"] != settings.workspace_id:
            message = (
                f"{settings.endpoint!r} is not the endpoint of workspace {settings.workspace_id}."
            )
            raise DeployError(message)
        token = self._grafana.create_workspace_service_account_token(
            workspaceId=settings.workspace_id,
            serviceAccountId=account,
            name=f"kascade-{request}-{time.time_ns()}",
            secondsToLive=TOKEN_SECONDS,
        )["serviceAccountToken"]
        try:
            yield Grafana(settings.endpoint, token["key"], deadline=deadline, connect=self._connect)
        finally:
            self._delete_token(settings.workspace_id, account, token["id"])

    def _delete_token(self, workspace: str, account: str, token_id: str) -> None:
        """Delete the token; a failure is only logged, since it must not hide the real error."""
        try:
            self._grafana.delete_workspace_service_account_token(
                workspaceId=workspace, serviceAccountId=account, tokenId=token_id
            )
        except (ClientError, BotoCoreError) as error:
            log.warning(
                "Token %s was not deleted (%s) and expires within %d s",
                token_id,
                type(error).__name__,
                TOKEN_SECONDS,
            )


def _patiently(call: Callable[[], T], deadline: Deadline) -> T:
    """Repeat a call that is rejected: rights granted seconds ago take a while to be known."""
    attempt = 0
    while True:
        try:
            return call()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            refused = code in {"AccessDenied", "AccessDeniedException"}
            if not refused or not deadline.pause(attempt):
                raise
        attempt += 1


def _safe(segment: str) -> str:
    return quote(segment, safe="")


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content or b"{}")
    except ValueError:
        return {}


def on_event(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Lambda's entry point."""
    deployer = Deployer(
        grafana=boto3.client("grafana", config=_AWS), s3=boto3.client("s3", config=_AWS)
    )
    return deployer.run(event, context)
