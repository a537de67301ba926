"""The middleware that closes paths and ends silence, as any ASGI server would drive it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from kascade.programs.engine.limits import SILENCE_SECONDS, Limits, LimitsError, closed

Message = dict[str, Any]
SECONDS = 0.2


class Engine:
    """The app behind: streams an event after each pause, and notes when it is dropped."""

    def __init__(self, pauses: Sequence[float], kind: bytes = b"text/event-stream; charset=utf-8"):
        self.pauses, self.kind = pauses, kind
        self.asked: list[str] = []
        self.dropped = False

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        headers = [(b"Content-Type", self.kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            for pause in self.pauses:
                await asyncio.sleep(pause)
                await send(
                    {"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True}
                )
        except asyncio.CancelledError:
            self.dropped = True
            raise
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


def ask(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    *,
    path: str = "/v1/completions",
    client_seconds: float = 0.0,
) -> list[Message]:
    """Send one request to an engine behind the middleware."""
    monkeypatch.setenv(SILENCE_SECONDS, str(SECONDS))
    sent: list[Message] = []

    async def send(message: Any) -> None:
        await asyncio.sleep(client_seconds)
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "POST", "path": path}
    asyncio.run(Limits(engine)(scope, receive, send))
    return sent


def text(sent: list[Message]) -> str:
    return b"".join(message.get("body", b"") for message in sent).decode()


@pytest.mark.parametrize("pauses", [[1.0], [0.0, 0.05, 1.0]], ids=["first token", "next token"])
def test_a_silent_stream_ends_with_an_error(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(pauses)
    sent = ask(engine, monkeypatch)
    *events, last = text(sent).strip().split("\n\n")
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["code"] == 504
    assert f"{SECONDS:g} s" in error["message"]
    assert events == ["data: {}"] * (len(pauses) - 1)
    assert sent[-1]["more_body"] is False
    assert engine.dropped, "vLLM must not go on"


def test_tokens_may_flow_for_longer_than_silence_may_last(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = ask(Engine([SECONDS / 4] * 12), monkeypatch)
    assert text(sent).endswith("data: [DONE]\n\n")
    assert "error" not in text(sent)


def test_a_slow_client_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = ask(Engine([0.0, 0.0]), monkeypatch, client_seconds=SECONDS * 1.5)
    assert text(sent).endswith("data: [DONE]\n\n")


def test_what_does_not_stream_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = ask(Engine([SECONDS * 2], kind=b"application/json"), monkeypatch)
    assert text(sent).endswith("data: [DONE]\n\n")


def test_a_request_that_the_server_ends_stays_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENCE_SECONDS, "5")
    engine, sent = Engine([60.0]), []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def begin() -> None:
        scope = {"type": "http", "method": "POST", "path": "/v1/completions"}
        task = asyncio.create_task(Limits(engine)(scope, receive, send))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(begin())
    assert len(sent) == 1
    assert engine.dropped


@pytest.mark.parametrize(
    "path",
    [
        "/inference/v1/generate",
        "/inference/v1/abort_requests",
        "/v1/completions/derender",
        "/v1/chat/completions/derender/",
        "//inference/v1/generate",
    ],
)
def test_closed_paths_reach_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine([])
    sent = ask(engine, monkeypatch, path=path)
    assert sent[0]["status"] == 403
    assert json.loads(text(sent))["error"]["code"] == 403
    assert engine.asked == []


def test_others_are_open() -> None:
    paths = ("/", "/health", "/v1/chat/completions/render", "/v1/models/derender-7b")
    assert not any(map(closed, paths))


@pytest.mark.parametrize("value", [None, "", "soon", "0", "-1", "inf", "nan"])
def test_without_a_limit_vllm_does_not_start(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SILENCE_SECONDS, raising=False)
    if value is not None:
        monkeypatch.setenv(SILENCE_SECONDS, value)
    with pytest.raises(LimitsError, match=SILENCE_SECONDS):
        Limits(Engine([]))
