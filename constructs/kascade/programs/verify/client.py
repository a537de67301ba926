"""HTTP with a deadline on every call, and no proxy: replicas answer on addresses of their own."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

QUICK_SECONDS: Final = 15.0
"""For a page that a healthy server writes at once."""

_LONGEST_REASON: Final = 300
_MOMENT: Final = 0.05
_OK: Final = 200


class UnreachableError(Exception):
    """A server gave no usable answer; the text says which one and what it did instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One completed request.

    Attributes:
        token_ids: What the model generated.
        prompt_tokens: Length of the prompt as the engine counted it.
        ttft_seconds: From sending the request to the first generated token.
    """

    token_ids: tuple[int, ...]
    prompt_tokens: int
    ttft_seconds: float


def get_text(url: str, *, seconds: float = QUICK_SECONDS) -> str:
    """Fetch a page.

    Args:
        url: With its path.
        seconds: Deadline of the whole call.

    Raises:
        UnreachableError: There was no answer in time, or none with status 200.
    """
    with _exchange("GET", url, None, seconds) as (response, _):
        return response.read().decode(errors="replace")


def get_json(url: str, *, seconds: float = QUICK_SECONDS) -> Any:
    """Fetch a JSON page; see ``get_text``."""
    text = get_text(url, seconds=seconds)
    try:
        return json.loads(text)
    except ValueError:
        msg = f"{url} answered with something that is no JSON: {text[:80]!r}"
        raise UnreachableError(msg) from None


def complete(base: str, *, model: str, prompt: str, tokens: int, seconds: float) -> Answer:
    """Let an engine or a router complete a prompt, streaming so that the first token can be timed.

    Args:
        base: URL of the API, without a path.
        model: What a request calls the model.
        prompt: The text.
        tokens: How many to generate; the end of a sentence does not stop it.
        seconds: Deadline of the whole request.

    Raises:
        UnreachableError: No complete answer came in time.
    """
    url = f"{base.rstrip('/')}/v1/completions"
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        # Random weights and special tokens make equal texts out of different tokens.
        "return_token_ids": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = time.monotonic()
    first: float | None = None
    ids: list[int] = []
    counted = 0
    with _exchange("POST", url, body, seconds) as (response, wire):
        for event in _events(url, response, wire, started + seconds):
            for choice in event.get("choices") or []:
                if choice.get("token_ids"):
                    first = first or time.monotonic()
                    ids += choice["token_ids"]
            counted = (event.get("usage") or {}).get("prompt_tokens", counted)
    if first is None or not counted:
        msg = (
            f"{url} ended its answer without "
            f"{'a token id' if first is None else 'the number of prompt tokens'}; vLLM gives both "
            "when asked for return_token_ids and include_usage"
        )
        raise UnreachableError(msg)
    return Answer(token_ids=tuple(ids), prompt_tokens=counted, ttft_seconds=first - started)


def _events(
    url: str, response: HTTPResponse, wire: socket.socket, deadline: float
) -> Iterator[dict[str, Any]]:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        wire.settimeout(max(left, _MOMENT))
        line = response.readline()
        if not line:
            return
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        event = json.loads(data)
        if "error" in event:
            msg = f"{url} broke off: {str(event['error'])[:_LONGEST_REASON]}"
            raise UnreachableError(msg)
        yield event


@contextmanager
def _exchange(
    method: str, url: str, body: dict[str, Any] | None, seconds: float
) -> Iterator[tuple[HTTPResponse, socket.socket]]:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{url} is no address of a server; it has to look like http://host:port"
        raise UnreachableError(msg)
    connection = kind(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.connect()
        # The response takes the connection's own reference away; this one stays.
        wire = connection.sock
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        query = f"?{parts.query}" if parts.query else ""
        connection.request(method, (parts.path or "/") + query, data, headers)
        response = connection.getresponse()
        if response.status != _OK:
            said = response.read(_LONGEST_REASON).decode(errors="replace").strip()
            msg = f"{url} answered {response.status}: {said}"
            raise UnreachableError(msg)
        yield response, wire
    except TimeoutError:
        msg = f"{url} did not answer within {seconds:g} s"
        raise UnreachableError(msg) from None
    except (OSError, HTTPException, ValueError) as error:
        msg = f"{url} does not answer: {error or type(error).__name__}"
        raise UnreachableError(msg) from None
    finally:
        connection.close()
