"""Middleware for vLLM: `/health` fails while the engine's core is silent.

vLLM's own `/health` looks whether the core's process is there. A core that hangs (a deadlock, a
collective operation that never ends, a stopped process) is there, so kubelet and router keep
sending to it (vllm-project/vllm#36451, #39863). This asks the core itself, over the way that
requests take. Its loop answers between two steps, so an answer takes as long as one step at most,
whatever requests wait for.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

SILENT_SECONDS: Final = "KASCADE_CORE_SILENT_SECONDS"
REQUESTS_PATH: Final = "/kascade/requests"
"""How many requests have no whole answer yet; whoever ends the pod waits for none."""

_PAUSE_SECONDS: Final = 1.0
"""Between two questions, however many ask for `/health`."""

_OK: Final = 200
_UNAVAILABLE: Final = 503

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class CoreHealth:
    """ASGI middleware: counts requests, and knows how long the core has been silent."""

    def __init__(self, app: Application) -> None:
        """Wrap an application.

        Raises:
            ValueError: The environment does not say how long the core may be silent.
        """
        self._app = app
        self._limit = float(os.environ.get(SILENT_SECONDS) or "nan")
        if not self._limit > 0:
            msg = f"{SILENT_SECONDS} is {os.environ.get(SILENT_SECONDS)!r}; give it seconds"
            raise ValueError(msg)
        self._running = 0
        self._question: asyncio.Task[object] | None = None
        self._asked_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let vLLM answer."""
        path = scope.get("path", "") if scope["type"] == "http" else ""
        if path == "/health":
            silent = self._silent_seconds(scope)
            if silent > self._limit:
                text = f"the engine's core has been silent for {silent:.0f} s"
                await _answer(send, _UNAVAILABLE, {"error": text})
                return
        if path == REQUESTS_PATH:
            hung = self._silent_seconds(scope) > self._limit
            await _answer(send, _OK, {"running": self._running, "hung": hung})
        elif scope.get("method") == "POST":
            self._running += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._running -= 1
        else:
            await self._app(scope, receive, send)

    def _silent_seconds(self, scope: Scope) -> float:
        """Ask the core unless a question is open; say for how long one has been."""
        client = getattr(scope["app"].state, "engine_client", None)
        if client is None:
            return 0.0
        now = time.monotonic()
        question = self._question
        if question is not None and not question.done():
            return now - self._asked_at
        if question is None or now - self._asked_at >= _PAUSE_SECONDS:
            self._asked_at = now
            self._question = asyncio.ensure_future(_ask(client))
        return 0.0


async def _ask(client: Any) -> None:
    """Wait for any word of the core; a rejection is one, and a dead core is for vLLM to report."""
    try:
        await client.is_paused()
    except Exception:
        return


async def _answer(send: Send, status: int, body: dict[str, object]) -> None:
    text = json.dumps(body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(text)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
