"""Managed Grafana, played: the AWS API for its service accounts, and the workspaces' own API.

Both answer on the loopback, the workspaces over TLS with a certificate of a throw-away authority.
What a workspace holds is kept, so that a test can ask.
"""

import json
import re
import secrets
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = Path(__file__).parents[3]
Body = dict[str, Any]
Answer = tuple[int, Any]
NOT_FOUND = 404


@dataclass(slots=True, kw_only=True)
class Token:
    """A token of a service account."""

    name: str
    key: str
    account: str
    expires_at: float


@dataclass(slots=True)
class Workspace:
    """What one workspace holds.

    Attributes:
        accounts: Service accounts, name and role by id.
        tokens: Tokens that have not been deleted, by id.
        datasources: Data sources by uid.
        folders: Folders by uid.
        dashboards: Dashboards by uid, each with its ``folderUid``.
        rejected: Requests that came without a valid token.
    """

    accounts: dict[str, Body] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    datasources: dict[str, Body] = field(default_factory=dict)
    folders: dict[str, Body] = field(default_factory=dict)
    dashboards: dict[str, Body] = field(default_factory=dict)
    refused: int = 0

    def role(self, key: str) -> str | None:
        """Return the role behind a token's key, or None where it opens nothing."""
        for token in self.tokens.values():
            if secrets.compare_digest(token.key, key) and time.time() < token.expires_at:
                return str(self.accounts[token.account]["grafanaRole"])
        return None


class ManagedGrafana:
    """Both servers and the workspaces behind them.

    Attributes:
        workspaces: Those that exist, by id.
        closed: Those that existed, as they were when they were deleted.
        authority: File of the certificate authority that functions have to trust.
        address: Where the AWS API answers.
        port: Where the workspaces answer.
    """

    def __init__(self, scratch: Path, *, python: Path, region: str) -> None:
        """Make the certificates and bind both servers.

        Args:
            scratch: Folder for the certificates.
            python: Interpreter of the rehearsal's environment.
            region: Region of the workspaces.
        """
        self.workspaces: dict[str, Workspace] = {}
        self.closed: dict[str, Workspace] = {}
        self._lock = threading.RLock()
        self._ids = iter(range(1, 1_000_000))
        self._stack = ExitStack()
        scratch.mkdir(parents=True)
        self.authority = scratch / "ca.pem"
        subprocess.run(
            [
                str(python),
                "-m",
                "tests.rehearsal.aws.certificates",
                str(scratch),
                f"*.grafana-workspace.{region}.amazonaws.com",
            ],
            cwd=ROOT,
            check=True,
        )
        self._aws = _server(_AWS_ROUTES, self)
        self._own = _server(_OWN_ROUTES, self)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(scratch / "server.pem")
        # The handshake is each connection's own, or one that hangs would hold up all others.
        self._own.socket = context.wrap_socket(
            self._own.socket, server_side=True, do_handshake_on_connect=False
        )
        self.address = f"http://127.0.0.1:{self._aws.server_port}"
        self.port = self._own.server_port

    def __enter__(self) -> Self:
        for server in (self._aws, self._own):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._stack.callback(server.server_close)
            self._stack.callback(server.shutdown)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def hear(self, event: Mapping[str, Any]) -> None:
        """Make or remove a workspace, as CloudFormation's resource says."""
        with self._lock:
            name = event["physical_id"]
            if event["action"] == "delete":
                self.closed[name] = self.workspaces.pop(name)
            elif event["action"] == "create":
                self.workspaces[name] = Workspace()

    def environment(self, workspaces_url: str) -> dict[str, str]:
        """Return what leads functions here: both addresses, and whose certificates to trust.

        Args:
            workspaces_url: Where the emulator announces workspaces, to be heard by `hear`.
        """
        return {
            "AWS_ENDPOINT_URL_GRAFANA": self.address,
            "REHEARSAL_WORKSPACES_PORT": str(self.port),
            "REHEARSAL_WORKSPACES_URL": workspaces_url,
            "SSL_CERT_FILE": str(self.authority),
        }

    @contextmanager
    def locked(self) -> Iterator[Self]:
        """Keep everyone else out."""
        with self._lock:
            yield self

    def next_id(self) -> str:
        """Return a number that nothing else has."""
        return str(next(self._ids))


class AnsweredError(Exception):
    """An error that is an answer."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, taken apart."""

    grafana: ManagedGrafana
    workspace: Workspace
    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    body: Body


Route = tuple[str, re.Pattern[str], Callable[[Request], Answer]]


class _QuietServer(ThreadingHTTPServer):
    """A server that keeps to itself why a client went away, such as one that trusts nobody."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what is not the client's doing."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _server(routes: list[Route], grafana: ManagedGrafana) -> ThreadingHTTPServer:
    own = routes is _OWN_ROUTES

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with grafana.locked():
                try:
                    enter = _admitted if own else _addressed
                    workspace, path = enter(grafana, self)
                    answer = _route(routes, grafana, workspace, self.command, path, body)
                except AnsweredError as error:
                    answer = error.status, error.body
            self._answer(*answer)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - http.server's names

        def _answer(self, status: int, content: Any) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if isinstance(content, dict) and "__type" in content:
                self.send_header("x-amzn-ErrorType", content["__type"])
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    return _QuietServer(("127.0.0.1", 0), Handler)


def _route(  # noqa: PLR0913, PLR0917 - what a request consists of
    routes: list[Route],
    grafana: ManagedGrafana,
    workspace: Workspace,
    method: str,
    target: str,
    body: bytes,
) -> Answer:
    url = urlsplit(target)
    for known, pattern, answer in routes:
        if known == method and (match := pattern.fullmatch(url.path)):
            request = Request(
                grafana=grafana,
                workspace=workspace,
                path=tuple(unquote(part) for part in match.groups()),
                query=parse_qs(url.query),
                body=json.loads(body) if body else {},
            )
            return answer(request)
    raise AnsweredError(NOT_FOUND, {"message": f"The rehearsal has no {method} {url.path}"})


# --- the AWS API ----------------------------------------------------------------------------------


def _aws_error(status: int, kind: str, message: str) -> AnsweredError:
    return AnsweredError(status, {"__type": kind, "message": message})


def _addressed(grafana: ManagedGrafana, handler: BaseHTTPRequestHandler) -> tuple[Workspace, str]:
    """Find the workspace that an AWS call names in its path."""
    if not handler.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
        raise _aws_error(403, "AccessDeniedException", "Missing Authentication Token")
    match = re.match(r"/workspaces/([^/?]+)(.*)", handler.path)
    name = match[1] if match else ""
    if match is None or name not in grafana.workspaces:
        message = f"Workspace {name} does not exist."
        raise _aws_error(NOT_FOUND, "ResourceNotFoundException", message)
    return grafana.workspaces[name], match[2]


def _account(request: Request) -> str:
    account = request.path[0]
    if account not in request.workspace.accounts:
        message = f"Service account {account} does not exist."
        raise _aws_error(NOT_FOUND, "ResourceNotFoundException", message)
    return account


def _list_accounts(request: Request) -> Answer:
    """Answer one account a page: a caller that forgets the next page is found out."""
    accounts = sorted(request.workspace.accounts.items())
    first = int(request.query.get("nextToken", ["0"])[0])
    page: Body = {
        "serviceAccounts": [
            {"id": name, "isDisabled": "false", **account}
            for name, account in accounts[first : first + 1]
        ]
    }
    if first + 1 < len(accounts):
        page["nextToken"] = str(first + 1)
    return 200, page


def _create_account(request: Request) -> Answer:
    name = request.body["name"]
    if name in {account["name"] for account in request.workspace.accounts.values()}:
        raise _aws_error(409, "ConflictException", f"Service account {name} exists already.")
    account = {"name": name, "grafanaRole": request.body["grafanaRole"]}
    created = request.grafana.next_id()
    request.workspace.accounts[created] = account
    return 200, {"id": created, **account}


def _delete_account(request: Request) -> Answer:
    account = _account(request)
    del request.workspace.accounts[account]
    tokens = request.workspace.tokens
    for name in [name for name, token in tokens.items() if token.account == account]:
        del tokens[name]
    return 200, {"serviceAccountId": account}


def _create_token(request: Request) -> Answer:
    account, name = _account(request), request.body["name"]
    if name in {token.name for token in request.workspace.tokens.values()}:
        raise _aws_error(409, "ConflictException", f"Token {name} exists already.")
    token = Token(
        name=name,
        key=f"glsa_{secrets.token_hex(16)}",
        account=account,
        expires_at=time.time() + int(request.body["secondsToLive"]),
    )
    created = request.grafana.next_id()
    request.workspace.tokens[created] = token
    shown = {"id": created, "name": name, "key": token.key}
    return 200, {"serviceAccountId": account, "serviceAccountToken": shown}


def _delete_token(request: Request) -> Answer:
    _account(request)
    if request.workspace.tokens.pop(request.path[1], None) is None:
        message = f"Token {request.path[1]} does not exist."
        raise _aws_error(NOT_FOUND, "ResourceNotFoundException", message)
    return 200, {"tokenId": request.path[1]}


# --- a workspace's own API ------------------------------------------------------------------------


def _admitted(grafana: ManagedGrafana, handler: BaseHTTPRequestHandler) -> tuple[Workspace, str]:
    """Find the workspace that the host names, and look at the token."""
    name = handler.headers.get("Host", "").partition(".")[0]
    if name not in grafana.workspaces:
        raise AnsweredError(NOT_FOUND, {"message": "Workspace not found"})
    workspace = grafana.workspaces[name]
    role = workspace.role(handler.headers.get("Authorization", "").removeprefix("Bearer "))
    if role is None:
        workspace.refused += 1
        raise AnsweredError(401, {"message": "Invalid API key"})
    if role != "ADMIN":
        raise AnsweredError(403, {"message": "You'll need additional permissions"})
    return workspace, handler.path


def _missing(what: str) -> AnsweredError:
    return AnsweredError(NOT_FOUND, {"message": f"{what} not found"})


def _get_datasource(request: Request) -> Answer:
    if (found := request.workspace.datasources.get(request.path[0])) is None:
        raise _missing("Data source")
    return 200, found


def _create_datasource(request: Request) -> Answer:
    known, body = request.workspace.datasources, request.body
    if body["uid"] in known or body["name"] in {other["name"] for other in known.values()}:
        message = "data source with the same name already exists"
        raise AnsweredError(409, {"message": message})
    known[body["uid"]] = body
    return 200, {"message": "Datasource added"}


def _update_datasource(request: Request) -> Answer:
    if request.path[0] not in request.workspace.datasources:
        raise _missing("Data source")
    request.workspace.datasources[request.path[0]] = request.body
    return 200, {"message": "Datasource updated"}


def _delete_datasource(request: Request) -> Answer:
    if request.workspace.datasources.pop(request.path[0], None) is None:
        raise _missing("Data source")
    return 200, {"message": "Data source deleted"}


def _create_folder(request: Request) -> Answer:
    known, body = request.workspace.folders, request.body
    if body["uid"] in known:
        raise AnsweredError(412, {"message": "a folder with the same UID already exists"})
    if body["title"] in {other["title"] for other in known.values()}:
        raise AnsweredError(409, {"message": "a folder with the same name already exists"})
    known[body["uid"]] = {"uid": body["uid"], "title": body["title"]}
    return 200, known[body["uid"]]


def _update_folder(request: Request) -> Answer:
    if (folder := request.workspace.folders.get(request.path[0])) is None:
        raise _missing("folder")
    if not request.body.get("overwrite"):
        raise AnsweredError(412, {"message": "the folder has been changed by someone else"})
    folder["title"] = request.body["title"]
    return 200, folder


def _delete_folder(request: Request) -> Answer:
    if request.workspace.folders.pop(request.path[0], None) is None:
        raise _missing("folder")
    dashboards = request.workspace.dashboards
    for uid in [uid for uid, board in dashboards.items() if board["folderUid"] == request.path[0]]:
        del dashboards[uid]
    return 200, {"message": "Folder deleted"}


def _write_dashboard(request: Request) -> Answer:
    dashboard, folder = request.body["dashboard"], request.body["folderUid"]
    if folder not in request.workspace.folders:
        raise AnsweredError(400, {"message": "folder not found"})
    if not dashboard.get("title"):
        raise AnsweredError(400, {"message": "Dashboard title cannot be empty"})
    known = request.workspace.dashboards
    if dashboard["uid"] in known and not request.body.get("overwrite"):
        message = "A dashboard with the same uid already exists"
        raise AnsweredError(412, {"status": "version-mismatch", "message": message})
    known[dashboard["uid"]] = {**dashboard, "folderUid": folder}
    return 200, {"uid": dashboard["uid"], "status": "success"}


def _delete_dashboard(request: Request) -> Answer:
    if request.workspace.dashboards.pop(request.path[0], None) is None:
        raise _missing("Dashboard")
    return 200, {"message": "Dashboard deleted"}


def _search(request: Request) -> Answer:
    folders = request.query.get("folderUIDs", [])
    limit = int(request.query.get("limit", ["1000"])[0])
    if request.query.get("type") != ["dash-db"]:
        raise AnsweredError(400, {"message": "The rehearsal searches for dash-db only"})
    found = [
        {"uid": uid, "title": board["title"], "folderUid": board["folderUid"], "type": "dash-db"}
        for uid, board in sorted(request.workspace.dashboards.items())
        if not folders or board["folderUid"] in folders
    ]
    return 200, found[:limit]


def _table(*rows: tuple[str, str, Callable[[Request], Answer]]) -> list[Route]:
    return [
        (method, re.compile(re.sub(r"\{\}", "([^/]+)", path)), answer)
        for method, path, answer in rows
    ]


_AWS_ROUTES = _table(
    ("GET", "/serviceaccounts", _list_accounts),
    ("POST", "/serviceaccounts", _create_account),
    ("DELETE", "/serviceaccounts/{}", _delete_account),
    ("POST", "/serviceaccounts/{}/tokens", _create_token),
    ("DELETE", "/serviceaccounts/{}/tokens/{}", _delete_token),
)
_OWN_ROUTES = _table(
    ("GET", "/api/datasources/uid/{}", _get_datasource),
    ("POST", "/api/datasources", _create_datasource),
    ("PUT", "/api/datasources/uid/{}", _update_datasource),
    ("DELETE", "/api/datasources/uid/{}", _delete_datasource),
    ("POST", "/api/folders", _create_folder),
    ("PUT", "/api/folders/{}", _update_folder),
    ("DELETE", "/api/folders/{}", _delete_folder),
    ("POST", "/api/dashboards/db", _write_dashboard),
    ("DELETE", "/api/dashboards/uid/{}", _delete_dashboard),
    ("GET", "/api/search", _search),
)
