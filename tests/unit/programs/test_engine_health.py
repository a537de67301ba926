"""An engine's middleware and its drain: a core that is silent, requests that run."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kascade.programs.engine import drain
from kascade.programs.engine.health import REQUESTS_PATH, SILENT_SECONDS, CoreHealth

LIMIT = 0.2


class Core:
    """An engine client whose core answers, hangs or is dead."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.dead = False
        self.asked = 0

    async def is_paused(self) -> bool:
        self.asked += 1
        if self.dead:
            msg = "EngineCore encountered an issue"
            raise RuntimeError(msg)
        await self.answers.wait()
        return False


class Server:
    """The middleware before an application that answers 200, and a POST when it is told to."""

    def __init__(self) -> None:
        self.core = Core()
        self.released = asyncio.Event()
        self.health = CoreHealth(self._app)
        self._scope = SimpleNamespace(state=SimpleNamespace(engine_client=self.core))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        if scope["method"] == "POST":
            await self.released.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "app": self._scope}
        await self.health(scope, None, send)  # type: ignore[arg-type]
        return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENT_SECONDS, str(LIMIT))
    monkeypatch.setattr("kascade.programs.engine.health._PAUSE_SECONDS", 0.0)


def test_a_core_that_hangs_fails_the_health_check_until_it_answers() -> None:
    async def play() -> None:
        server = Server()
        assert (await server.ask("/health"))[0] == 200
        await asyncio.sleep(0)
        server.core.answers.clear()
        assert (await server.ask("/health"))[0] == 200, "it may be in a long step"
        await asyncio.sleep(LIMIT / 2)
        assert (await server.ask("/health"))[0] == 200
        await asyncio.sleep(LIMIT)
        status, body = await server.ask("/health")
        assert status == 503
        assert "core has been silent" in body["error"]
        assert (await server.ask("/v1/models"))[0] == 200, "nothing else is held up"
        asked = server.core.asked
        for _ in range(5):
            await server.ask("/health")
        assert server.core.asked == asked, "questions do not pile up"
        server.core.answers.set()
        await asyncio.sleep(0.01)
        assert (await server.ask("/health"))[0] == 200

    asyncio.run(play())


def test_a_dead_core_is_vllms_to_report() -> None:
    async def play() -> None:
        server = Server()
        server.core.dead = True
        for _ in range(3):
            assert (await server.ask("/health"))[0] == 200, "the application's answer"
            await asyncio.sleep(LIMIT)

    asyncio.run(play())


def test_requests_are_counted_until_they_end_or_are_given_up() -> None:
    async def play() -> None:
        server = Server()

        async def running() -> dict[str, object]:
            found: dict[str, object] = (await server.ask(REQUESTS_PATH))[1]
            return found

        tasks = [asyncio.create_task(server.ask("/v1/completions", "POST")) for _ in range(3)]
        await asyncio.sleep(0)
        assert await running() == {"running": 3, "hung": False}
        tasks[0].cancel()
        await asyncio.sleep(0)
        assert await running() == {"running": 2, "hung": False}
        server.released.set()
        await asyncio.gather(*tasks[1:])
        assert await running() == {"running": 0, "hung": False}
        server.core.answers.clear()
        await running()
        await asyncio.sleep(LIMIT * 2)
        assert (await running())["hung"] is True

    asyncio.run(play())


@pytest.mark.parametrize("value", ["", "soon", "0", "-1"])
def test_a_limit_that_is_none_does_not_start(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENT_SECONDS, value)
    with pytest.raises(ValueError, match=r"soon|KASCADE_CORE_SILENT_SECONDS"):
        Server()


# --- Drain ----------------------------------------------------------------------------------------


def answering(*answers: tuple[int, bool] | OSError) -> Callable[[], tuple[int, bool]]:
    left: Iterator[tuple[int, bool] | OSError] = iter(answers)

    def ask() -> tuple[int, bool]:
        answer = next(left)
        if isinstance(answer, OSError):
            raise answer
        return answer

    return ask


GONE = OSError("connection refused")


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([(0, False)], "no request is left"),
        ([(3, False), (1, False), (0, False)], "no request is left"),
        ([(2, False), (2, True)], "the engine's core hangs with 2 requests"),
        ([(2, False), GONE, (1, False), GONE, GONE, GONE], "does not answer: connection refused"),
        ([(1, False), GONE, GONE, (0, False)], "no request is left"),
    ],
)
def test_waiting_ends_when_it_is_of_no_more_use(
    answers: list[tuple[int, bool] | OSError], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "_PAUSE_SECONDS", 0.0)
    said = drain.wait(answering(*answers), notice_seconds=0, longest_seconds=30)
    assert why in said


def test_the_notice_comes_first_and_the_longest_is_the_end() -> None:
    begun = time.monotonic()
    said = drain.wait(lambda: (1, False), notice_seconds=0.3, longest_seconds=0.4)
    assert "requests are left after 0.4 s" in said
    assert 0.4 <= time.monotonic() - begun < 5


@pytest.mark.parametrize("text", ["null", "[]", '{"running": null, "hung": false}', "{", ""])
def test_an_odd_answer_is_no_end_of_the_drain(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the third in a row ends it."""
    monkeypatch.setattr(drain, "_PAUSE_SECONDS", 0.0)
    asked = []

    class Opener:
        def open(self, url: str, timeout: float) -> io.BytesIO:  # noqa: ARG002
            asked.append(url)
            return io.BytesIO(text.encode())

    monkeypatch.setattr(drain, "_DIRECT", Opener())
    said = drain.wait(lambda: drain.asked("http://x"), notice_seconds=0, longest_seconds=30)
    assert said.startswith("the engine does not answer")
    assert len(asked) == 3


def test_a_cut_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "_PAUSE_SECONDS", 0.0)

    def cut() -> tuple[int, bool]:
        raise http.client.IncompleteRead(b"")

    said = drain.wait(cut, notice_seconds=0, longest_seconds=30)
    assert said.startswith("the engine does not answer")
