"""Engines that are played, behind the real router with its rendered arguments.

Starting a real engine takes most of a minute, so that hundreds of deaths need these. One dies as a
killed process does: nobody listens any more, and every connection is cut.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from tools.servers import Server, free_ports

LONGEST_SECONDS: Final = 300
DEADLINE_SECONDS: Final = 30.0
ROUTER: Final = Path(sys.executable).parent / "vllm-router"

SCALE_OUT: Final = "/v1/chat/completions/render", "/v1/completions/render"


@dataclass(kw_only=True)
class StandIn:
    """One engine.

    Attributes:
        renders: False for an engine without ``--enable-scale-out``.
        pause_seconds: Between two tokens.
        tokens: Of one answer.
        seen: Paths that were asked, one entry for each request.
    """

    name: str
    port: int
    renders: bool = True
    pause_seconds: float = 0.0
    tokens: int = 1
    seen: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def live(self) -> None:
        self._server = web.Server(self._handle)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._server, "127.0.0.1", self.port)

    def die(self) -> None:
        self._listener.close()
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request.path)
        body = await request.read()
        status, answer = self._told(request.path, body)
        if answer is not None:
            return web.json_response(answer, status=status)
        if json.loads(body).get("stream"):
            return await self._stream(request)
        await asyncio.sleep(self.pause_seconds * self.tokens)
        message = {"role": "assistant", "content": self.name}
        return web.json_response({"choices": [{"index": 0, "message": message}]})

    def _told(self, path: str, body: bytes) -> tuple[int, Any]:
        """Status and content of what is no answer of the model; None for one that is."""
        if path in SCALE_OUT:
            if not self.renders:
                return 403, {"error": {"code": 403}}
            rendered = {"token_ids": list(body)}
            return 200, rendered if "chat" in path else [rendered]
        if b"poison" in body:
            return 500, {"error": {"code": 500}}
        pages = {
            "/health": {},
            "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model"}]},
        }
        return 200, pages.get(path)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        event = json.dumps({"choices": [{"index": 0, "delta": {"content": self.name}}]})
        with suppress(ConnectionError):
            for _ in range(self.tokens):
                await answer.write(f"data: {event}\n\n".encode())
                await asyncio.sleep(self.pause_seconds)
            await answer.write(b"data: [DONE]\n\n")
        return answer


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one request ended.

    Attributes:
        status: 0 where the connection gave none.
        home: Who answered, or empty.
        events: Tokens that arrived.
        done: Whether the end of the answer arrived.
        error: What the client's library says of a body that was cut.
    """

    status: int
    home: str = ""
    events: int = 0
    done: bool = False
    error: str = ""
    seconds: float = 0.0

    @property
    def lost(self) -> bool:
        """Whether it failed before its first byte."""
        return self.status != 200 or not self.home


async def ask(
    session: aiohttp.ClientSession, url: str, text: str, *, stream: bool = False
) -> Outcome:
    """Ask in a conversation of its own."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream}
    headers = {"x-session-id": text[:24]}
    begun, lines, status, error = time.monotonic(), [], 0, ""
    try:
        async with session.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
            status = answer.status
            while line := await answer.content.readline():
                lines.append(line.decode())
    except (aiohttp.ClientError, TimeoutError) as failure:
        error = type(failure).__name__
    found = [_home(line.removeprefix("data: ")) for line in lines]
    homes = [home for home in found if home]
    return Outcome(
        status=status,
        home=homes[0] if homes else "",
        events=len(homes),
        done=not error and ("data: [DONE]\n" in lines or (bool(homes) and not stream)),
        error=error,
        seconds=time.monotonic() - begun,
    )


def _home(line: str) -> str:
    try:
        (choice,) = json.loads(line)["choices"]
    except (ValueError, KeyError, TypeError):
        return ""
    name: str = (choice.get("message") or choice["delta"])["content"]
    return name


def local(args: Sequence[str], *, workers: Sequence[str], port: int, metrics: int) -> list[str]:
    """Change a router's rendered arguments where engines have fixed addresses on one machine."""
    kept, selecting = [], False
    for word in args:
        selecting = word == "--selector" or (selecting and not word.startswith("--"))
        if not selecting and not word.startswith(
            ("--service-discovery", "--host=", "--port=", "--prometheus-")
        ):
            kept.append(word)
    return [
        *kept,
        "--host=127.0.0.1",
        f"--port={port}",
        "--prometheus-host=127.0.0.1",
        f"--prometheus-port={metrics}",
        "--worker-urls",
        *workers,
    ]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two engines and their router."""

    engines: tuple[StandIn, StandIn]
    router: Server
    url: str
    metrics_url: str
    session: aiohttp.ClientSession

    async def ask(self, text: str, *, stream: bool = False) -> Outcome:
        """Ask the router."""
        return await ask(self.session, self.url, text, stream=stream)

    def engine(self, name: str) -> StandIn:
        """The engine of that name."""
        (found,) = (one for one in self.engines if one.name == name)
        return found

    async def ready(self, engines: int = 2) -> None:
        """Wait until the router takes so many for healthy."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                async with self.session.get(f"{self.url}/readiness") as answer:
                    if (await answer.json())["healthy_workers"] == engines:
                        return
            except (aiohttp.ClientError, ValueError, KeyError):
                pass
            await asyncio.sleep(0.1)
        msg = f"the router is not ready:\n{self.router.tail()}"
        raise AssertionError(msg)


@asynccontextmanager
async def pairs(
    args: Sequence[str], *, count: int, folder: Path, **engine: Any
) -> AsyncIterator[list[Pair]]:
    """Run so many routers, each in front of two engines of its own.

    Args:
        args: The router's, as rendered.
        count: How many.
        folder: Where logs go.
        **engine: Fields of the engines.
    """
    ports = iter(free_ports(4 * count))
    timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
    made: list[Pair] = []
    # A connection that is kept open would be a request's second chance.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        try:
            for number in range(count):
                both = tuple(StandIn(name=name, port=next(ports), **engine) for name in "ab")
                for one in both:
                    await one.live()
                port, metrics = next(ports), next(ports)
                words = local(args, workers=[one.url for one in both], port=port, metrics=metrics)
                router = Server(
                    f"router-{number}", [ROUTER, *words], folder=folder, seconds=LONGEST_SECONDS
                )
                made.append(
                    Pair(
                        engines=(both[0], both[1]),
                        router=router,
                        url=f"http://127.0.0.1:{port}",
                        metrics_url=f"http://127.0.0.1:{metrics}/metrics",
                        session=session,
                    )
                )
            await asyncio.gather(*(pair.ready() for pair in made))
            yield made
        finally:
            for pair in made:
                pair.router.stop()
                for one in pair.engines:
                    one.die()
