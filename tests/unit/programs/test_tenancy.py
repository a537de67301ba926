"""The middleware that sets salts, as any ASGI server would drive it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kascade.programs.tenancy import SettingsError, TenantSalt
from kascade.programs.tenancy.settings import HEADER, LARGEST_BODY, TENANTS, TenancySettings

Message = dict[str, Any]

SALTED = {TENANTS: "alice,bob", HEADER: "X-Kascade-Tenant", LARGEST_BODY: "1000"}
ALONE = {TENANTS: "carol", LARGEST_BODY: "1000"}


class Engine:
    """The app behind: notes what it is given, and streams an answer."""

    def __init__(self) -> None:
        self.scopes: list[Message] = []
        self.bodies: list[bytes] = []
        self.next_message: Message | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        self.next_message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"one", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Connection:
    """What a server gives for one request, and what it got back."""

    def __init__(self, engine: Engine, environment: dict[str, str]) -> None:
        self.engine = engine
        self.sent: list[Message] = []
        with pytest.MonkeyPatch.context() as patch:
            for name in (TENANTS, HEADER, LARGEST_BODY):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            self.middleware = TenantSalt(engine)

    def ask(
        self,
        *pieces: bytes,
        path: str = "/v1/completions",
        method: str = "POST",
        headers: tuple[tuple[bytes, bytes], ...] = ((b"x-kascade-tenant", b"alice"),),
        kind: str = "http",
    ) -> int:
        """Send one request in pieces; return the status of the answer."""
        self.sent.clear()
        waiting = [
            {"type": "http.request", "body": piece, "more_body": place < len(pieces) - 1}
            for place, piece in enumerate(pieces or (b"",))
        ]
        size = str(sum(map(len, pieces))).encode()
        scope = {
            "type": kind,
            "method": method,
            "path": path,
            "headers": [*headers, (b"content-length", size), (b"accept", b"*/*")],
        }

        async def receive() -> Message:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self.sent.append(dict(message))

        asyncio.run(self.middleware(scope, receive, send))
        return int(self.sent[0].get("status", 0)) if self.sent else 0

    def error(self) -> Message:
        """Return the error of the last answer."""
        found: Message = json.loads(self.sent[1]["body"])["error"]
        return found


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def salted(engine: Engine) -> Connection:
    return Connection(engine, SALTED)


@pytest.fixture
def alone(engine: Engine) -> Connection:
    return Connection(engine, ALONE)


def body(**fields: object) -> bytes:
    return json.dumps({"prompt": "héllo", **fields}).encode()


def test_the_servers_salt_replaces_the_clients(salted: Connection, engine: Engine) -> None:
    assert salted.ask(body(cache_salt="bob", n=1)) == 200
    assert json.loads(engine.bodies[0]) == {"prompt": "héllo", "cache_salt": "alice", "n": 1}


def test_the_length_is_that_of_the_new_body(salted: Connection, engine: Engine) -> None:
    headers = ((b"x-kascade-tenant", b"alice"), (b"Transfer-Encoding", b"chunked"))
    salted.ask(body(), headers=headers)
    given = [(name.lower(), value) for name, value in engine.scopes[0]["headers"]]
    lengths = [value for name, value in given if name == b"content-length"]
    assert lengths == [str(len(engine.bodies[0])).encode()]
    assert b"transfer-encoding" not in [name for name, _ in given]
    assert (b"accept", b"*/*") in given


def test_a_body_in_pieces_is_one(salted: Connection, engine: Engine) -> None:
    whole = body()
    assert salted.ask(whole[:5], b"", whole[5:]) == 200
    assert json.loads(engine.bodies[0])["cache_salt"] == "alice"


def test_of_a_key_that_stands_twice_ours_is_left(salted: Connection, engine: Engine) -> None:
    salted.ask(b'{"cache_salt": "bob", "prompt": "a", "cache_salt": "eve"}')
    assert engine.bodies[0].count(b"cache_salt") == 1
    assert json.loads(engine.bodies[0])["cache_salt"] == "alice"


def test_a_key_in_other_letters_stays_what_it_was(salted: Connection, engine: Engine) -> None:
    salted.ask(b'{"cache\\u005fsalt": "bob", "Cache_Salt": "eve"}')
    assert json.loads(engine.bodies[0]) == {"cache_salt": "alice", "Cache_Salt": "eve"}


def test_odd_text_survives(salted: Connection, engine: Engine) -> None:
    salted.ask(b'{"prompt": "\\ud800 \\u0000 \xc3\xa9"}')
    assert json.loads(engine.bodies[0])["prompt"] == "\ud800 \0 é"


def test_the_answer_passes_piece_by_piece(salted: Connection) -> None:
    salted.ask(body())
    assert [m.get("body") for m in salted.sent[1:]] == [b"one", b"two", b""]


def test_the_app_hears_that_the_client_is_gone(salted: Connection, engine: Engine) -> None:
    salted.ask(body())
    assert engine.next_message == {"type": "http.disconnect"}


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"x-kascade-tenant", b""),),
        ((b"x-kascade-tenant", b"zoe"),),
        ((b"x-kascade-tenant", b"Alice"),),
        ((b"x-kascade-tenant", b"alice,bob"),),
        ((b"x-kascade-tenant", b"alice"), (b"X-Kascade-Tenant", b"bob")),
        ((b"x_kascade_tenant", b"alice"),),
        ((b"x-kascade-tenant", b"\xff"),),
    ],
)
def test_without_a_known_tenant_nothing_passes(
    salted: Connection, engine: Engine, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    assert salted.ask(body(), headers=headers) == 403
    assert salted.error()["type"] == "PermissionDeniedError"
    assert engine.scopes == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/invocations"),
        ("POST", "/v1/completions/"),
        ("POST", "//v1/completions"),
        ("POST", "/v1/embeddings"),
        ("POST", "/inference/v1/generate"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/load_lora_adapter"),
        ("OPTIONS", "/v1/completions"),
        ("PUT", "/health"),
    ],
)
def test_what_is_not_listed_is_closed(
    salted: Connection, engine: Engine, method: str, path: str
) -> None:
    assert salted.ask(body(), method=method, path=path) == 403
    assert engine.scopes == []


@pytest.mark.parametrize("path", ["/v1/completions/render", "/tokenize"])
def test_turning_text_into_tokens_needs_no_tenant(
    salted: Connection, engine: Engine, path: str
) -> None:
    assert salted.ask(body(), path=path, headers=()) == 200
    assert engine.bodies == [body()]


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'"a"', b"\xff\xfe\x00", b"[" * 100_000])
def test_other_bodies_are_refused(engine: Engine, text: bytes) -> None:
    connection = Connection(engine, {**SALTED, LARGEST_BODY: "1000000"})
    assert connection.ask(text) == 400
    assert engine.scopes == []


def test_a_deep_body_is_answered_either_way(engine: Engine) -> None:
    """What the parser takes, the writer may still reject."""
    connection = Connection(engine, {**SALTED, LARGEST_BODY: "1000000"})
    for depth in (10, 400, 900, 2_000, 20_000):
        text = b'{"a":' * depth + b"1" + b"}" * depth
        assert connection.ask(text) in {200, 400}


def test_a_long_body_is_refused_before_it_is_whole(salted: Connection, engine: Engine) -> None:
    assert salted.ask(b"x" * 999, b"x", b"x", b"never read") == 413
    assert engine.scopes == []


def test_one_tenant_needs_no_header(alone: Connection, engine: Engine) -> None:
    for headers in ((), ((b"x-kascade-tenant", b"alice"),)):
        assert alone.ask(body(cache_salt="bob"), headers=headers) == 200
    assert {json.loads(one)["cache_salt"] for one in engine.bodies} == {"carol"}


def test_start_and_end_of_the_server_pass(salted: Connection, engine: Engine) -> None:
    salted.ask(kind="lifespan")
    assert [scope["type"] for scope in engine.scopes] == ["lifespan"]


def test_no_websocket_is_opened(salted: Connection, engine: Engine) -> None:
    salted.ask(kind="websocket", path="/v1/realtime")
    assert salted.sent == [{"type": "websocket.close", "code": 1008}]
    assert engine.scopes == []


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "names no tenant"),
        ({TENANTS: ",", LARGEST_BODY: "1"}, "names no tenant"),
        ({TENANTS: "a,b", LARGEST_BODY: "1"}, "KASCADE_TENANT_HEADER has to say"),
        ({TENANTS: "a@b", LARGEST_BODY: "1"}, "takes for no salt"),
        ({TENANTS: "x" * 129, LARGEST_BODY: "1"}, "takes for no salt"),
        ({TENANTS: "a"}, "has to be a number of bytes"),
        ({TENANTS: "a", LARGEST_BODY: "0"}, "has to be a number of bytes"),
        ({TENANTS: "a", LARGEST_BODY: "1e3"}, "has to be a number of bytes"),
    ],
)
def test_it_does_not_start_without_sense(environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        TenancySettings.read(environment)
