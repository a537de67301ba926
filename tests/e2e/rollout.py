"""Clients that go on asking while something happens, and remember what was lost."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.e2e.replicas import DEADLINE_SECONDS, prompt
from tools.local.system import LocalSystem

PAUSE_SECONDS = 1.0
"""Between an answer and the next request: an engine that starts here needs the cores as well."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(slots=True)
class Tally:
    """What became of the requests of some clients."""

    answered: int = 0
    lost: list[str] = field(default_factory=list)


def answer_of(system: LocalSystem, text: str, *, tokens: int, stream: bool) -> int:
    """Ask through the router for a fixed number of tokens; return how many came.

    A stream without its last event counts as lost.
    """
    body = {
        "model": system.target.model,
        "prompt": text,
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": stream,
        **({"stream_options": {"include_usage": True}} if stream else {}),
    }
    request = urllib.request.Request(  # noqa: S310 - http to loopback
        f"{system.target.router_url}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with _DIRECT.open(request, timeout=DEADLINE_SECONDS) as answer:
        if not stream:
            return int(json.load(answer)["usage"]["completion_tokens"])
        events = [line[6:].strip() for line in answer if line.startswith(b"data: ")]
    assert events[-1] == b"[DONE]", f"the stream ends with {events[-1]!r}"
    return int(json.loads(events[-2])["usage"]["completion_tokens"])


@contextmanager
def clients(system: LocalSystem, *, count: int, tokens: int) -> Iterator[Tally]:
    """Let clients ask one request after another while the block lasts, every other by a stream."""
    tally, over, lock = Tally(), threading.Event(), threading.Lock()

    def ask_on(number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            text = prompt(f"client {number} turn {turn}", 300)
            try:
                came = answer_of(system, text, tokens=tokens, stream=turn % 2 == 0)
                problem = "" if came == tokens else f"{came} of {tokens} tokens"
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            with lock:
                tally.answered += not problem
                if problem:
                    tally.lost.append(f"client {number}, request {turn}: {problem}")
            over.wait(PAUSE_SECONDS)

    threads = [threading.Thread(target=ask_on, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        over.set()
        for thread in threads:
            thread.join()
