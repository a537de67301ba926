"""Middleware for vLLM: closes what ``--enable-scale-out`` opens, ends silence."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SILENCE_SECONDS: Final = "KASCADE_SILENCE_SECONDS"

_CLOSED: Final = "this path is closed: nobody but an engine's own router has a use for it"


class LimitsError(ValueError):
    """The environment does not say how long a stream may be silent; vLLM must not start then."""


def closed(path: str) -> bool:
    """Say whether a path is one that ``--enable-scale-out`` opens and nothing of ours asks.

    The router hands any path on to an engine, for whoever may send it a prompt.

    >>> closed("/inference/v1/abort_requests"), closed("/v1/completions/derender/")
    (True, True)
    >>> closed("/v1/completions/render"), closed("/v1/completions")
    (False, False)
    """
    parts = [part for part in path.split("/") if part]
    return bool(parts) and (parts[0] == "inference" or parts[-1] == "derender")


class Limits:
    """Answers 403 to closed paths, and ends a stream whose next token does not come.

    The router has one limit for a whole answer, however many tokens flow. So that one is as long as
    the longest answer, and this bounds the wait for the first token and for each next one. An
    answer that does not stream is silent until its end, and has the router's limit alone.
    """

    def __init__(self, app: App) -> None:
        """Read the settings.

        Args:
            app: What comes behind.

        Raises:
            LimitsError: The environment does not say how long a stream may be silent.
        """
        self._app = app
        text = os.environ.get(SILENCE_SECONDS, "")
        try:
            self._seconds = float(text)
        except ValueError:
            self._seconds = 0.0
        if not 0 < self._seconds < float("inf"):
            msg = f"{SILENCE_SECONDS} is {text!r} and has to be a number of seconds"
            raise LimitsError(msg)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif closed(scope["path"]):
            await _refuse(send)
        else:
            await _Watched(send, self._seconds).run(self._app, scope, receive)


class _Watched:
    """One answer: passes it on, and looks at the clock while it streams."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send, self._seconds = send, seconds
        self._loop = asyncio.get_running_loop()
        self._last = 0.0
        self._sending = False
        self._silent = False
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.current_task()

    async def run(self, app: App, scope: Scope, receive: Receive) -> None:
        try:
            await app(scope, receive, self._pass_on)
        except asyncio.CancelledError:
            if not self._silent or self._task is None:
                raise
            # It was this timer, and not the server, that ended the request; vLLM has dropped it.
            self._task.uncancel()
            await self._say()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _pass_on(self, message: Message) -> None:
        self._sending = True
        try:
            await self._send(message)
        finally:
            self._sending = False
            self._last = self._loop.time()
        if message["type"] == "http.response.start" and _streams(message):
            self._look()
        elif not message.get("more_body", False) and self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Cancel the request if it is silent, else look again when it can be so at the earliest."""
        # While a slow client takes what there is, nothing is late.
        left = self._seconds - (0 if self._sending else self._loop.time() - self._last)
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._task is not None:
            self._silent = True
            self._task.cancel()

    async def _say(self) -> None:
        """End the stream with an error that clients of OpenAI's API raise; no [DONE] follows."""
        msg = f"no token came for {self._seconds:g} s, so the request was given up"
        error = {"message": msg, "type": "TimeoutError", "param": None, "code": 504}
        event = f"data: {json.dumps({'error': error})}\n\n".encode()
        await self._send({"type": "http.response.body", "body": event, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _streams(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


async def _refuse(send: Send) -> None:
    """Answer as vLLM writes its own errors."""
    error = {"message": _CLOSED, "type": "PermissionDeniedError", "param": None, "code": 403}
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
