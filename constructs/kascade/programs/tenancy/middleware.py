"""The middleware itself, in plain ASGI."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from .paths import OPEN, SALTED
from .settings import TenancySettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SALT: Final = "cache_salt"
_POLICY_VIOLATION: Final = 1008
"""WebSocket's code for "not allowed here"."""

_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})


class RefusedError(Exception):
    """The request is answered here: with a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class TenantSalt:
    """Rejects who has no tenant, and writes the tenant's salt over whatever the client sent.

    vLLM adds `--middleware` last, so it stands before all of vLLM's own, and nothing behind it sees
    a body without the right salt. Only the layer that counts requests stands before it, which reads
    no body.
    """

    def __init__(self, app: App) -> None:
        """Read the settings.

        Args:
            app: What comes behind.

        Raises:
            SettingsError: The environment does not say whom to serve, so vLLM does not start.
        """
        self._app = app
        self._settings = TenancySettings.read(os.environ)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            # A WebSocket is rejected by closing it before it is accepted.
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        elif (scope["method"], scope["path"]) in OPEN:
            await self._app(scope, receive, send)
        else:
            try:
                body = await self._salted(scope, receive)
            except RefusedError as refused:
                await _refuse(send, refused)
                return
            await self._app(_with_length(scope, len(body)), _Replayed(body, receive), send)

    async def _salted(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body with its tenant's salt.

        Raises:
            RefusedError: There is no such body.
        """
        if (scope["method"], scope["path"]) not in SALTED:
            msg = "this path is closed, because the model keeps its tenants apart"
            raise RefusedError(403, msg)
        tenant = self._tenant(scope["headers"])
        read = await self._read(receive)
        try:
            body = json.loads(read)
            if isinstance(body, dict):
                # Written anew as a whole: of a key that is duplicated another parser might take the
                # first.
                return json.dumps({**body, SALT: tenant}, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            pass
        msg = "the body has to be a JSON object"
        raise RefusedError(400, msg)

    def _tenant(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        header = self._settings.header
        if header is None:
            return self._settings.only_tenant
        named = [value for name, value in headers if name.lower() == header]
        tenant = named[0].decode("latin-1") if len(named) == 1 else ""
        if tenant not in self._settings.tenants:
            msg = "no known tenant; ask through the tenant gateway of one"
            raise RefusedError(403, msg)
        return tenant

    async def _read(self, receive: Receive) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                msg = "the client went away"
                raise RefusedError(400, msg)
            piece = message.get("body", b"")
            size += len(piece)
            if size > self._settings.largest_body_bytes:
                msg = f"the body is longer than {self._settings.largest_body_bytes} bytes"
                raise RefusedError(413, msg)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)


class _Replayed:
    """Gives one finished body, and then whatever the connection says, such as that it is gone."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _with_length(scope: Scope, length: int) -> Scope:
    """Return the scope with the headers of a finished body of that length."""
    kept = [(name, value) for name, value in scope["headers"] if name.lower() not in _LENGTHS]
    return {**scope, "headers": [*kept, (b"content-length", str(length).encode())]}


async def _refuse(send: Send, refused: RefusedError) -> None:
    """Answer as vLLM writes its own errors."""
    kinds = {403: "PermissionDeniedError", 413: "RequestTooLargeError"}
    error = {
        "message": refused.message,
        "type": kinds.get(refused.status, "BadRequestError"),
        "param": None,
        "code": refused.status,
    }
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
