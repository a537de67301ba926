"""HTTP with a deadline on every call, and no proxy: replicas answer on addresses of their own."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import Any, Final
from urllib.parse import urlsplit

TENANT_HEADER: Final = "x-kascade-tenant"
"""Names the tenant of a request where an engine keeps tenants apart; otherwise nobody reads it."""

QUICK_SECONDS: Final = 15.0
"""For a page that a healthy server writes at once."""

_LONGEST_REASON: Final = 300
_LARGEST_PAGE: Final = 64 << 20
_LONGEST_LINE: Final = 1 << 20
_BLOCK: Final = 65536
_OK: Final = 200


class UnreachableError(Exception):
    """A server gave no usable answer; the text says which one and what it did instead.

    Attributes:
        status: Of its answer, where there was one.
    """

    status: int | None = None


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
    with _exchange("GET", url, None, seconds) as response:
        blocks = []
        size = 0
        while block := response.read1(_BLOCK):
            blocks.append(block)
            size += len(block)
            if size > _LARGEST_PAGE:
                msg = f"{url} answered more than {_LARGEST_PAGE >> 20} MiB; it is no page of ours"
                raise UnreachableError(msg)
        if response.length:
            raise IncompleteRead(b"", response.length)
        return b"".join(blocks).decode(errors="replace")


def get_json(url: str, *, seconds: float = QUICK_SECONDS) -> Any:
    """Fetch a JSON page; see ``get_text``."""
    text = get_text(url, seconds=seconds)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        msg = f"{url} answered with something that is no JSON: {text[:80]!r}"
        raise UnreachableError(msg) from None


def get_object(url: str, *, seconds: float = QUICK_SECONDS) -> dict[str, Any]:
    """Fetch a JSON page that has to be an object; see ``get_text``."""
    found = get_json(url, seconds=seconds)
    if not isinstance(found, dict):
        msg = f"{url} answered something other than a JSON object: {str(found)[:80]!r}"
        raise UnreachableError(msg)
    return found


def split_server(url: str) -> tuple[str, str, int]:
    """Take the URL of a server apart into its scheme, host and port.

    >>> split_server("http://[::1]/metrics")
    ('http', '::1', 80)

    Raises:
        ValueError: It is none; the message says why.
    """
    if any(letter <= " " or letter == "\x7f" for letter in url):
        msg = "it holds a space or a control character"
        raise ValueError(msg)
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = "it has to look like http://host:port"
        raise ValueError(msg)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        msg = "its port has to be a whole number from 1 to 65535"
        raise ValueError(msg)
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


def complete(  # noqa: PLR0913 - keyword-only
    base: str,
    *,
    model: str,
    prompt: str,
    tokens: int,
    seconds: float,
    tenant: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Answer:
    """Let an engine or a router complete a prompt, streaming so that the first token can be timed.

    Args:
        base: URL of the API, without a path.
        model: What a request calls the model.
        prompt: The text.
        tokens: How many to generate; the end of a sentence does not stop it.
        seconds: Deadline of the whole request.
        tenant: Whose request it is, where the engine keeps tenants apart.
        fields: Further fields of the body.

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
        **(fields or {}),
    }
    started = time.monotonic()
    first: float | None = None
    ids: list[int] = []
    counted = 0
    with _exchange("POST", url, body, seconds, tenant) as response:
        for event in _events(url, response):
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


def chat(base: str, *, model: str, text: str, seconds: float, tenant: str | None = None) -> None:
    """Let an engine or a router answer one turn of a chat, with one token.

    Args:
        base: URL of the API, without a path.
        model: What a request calls the model.
        text: Of the turn.
        seconds: Deadline of the whole request.
        tenant: Whose request it is, where the engine keeps tenants apart.

    Raises:
        UnreachableError: No answer came in time.
    """
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 1}
    with _exchange(
        "POST", f"{base.rstrip('/')}/v1/chat/completions", body, seconds, tenant
    ) as response:
        response.read()


def _events(url: str, response: HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            msg = f"{url} answered a line of more than {_LONGEST_LINE >> 20} MiB; it is no vLLM"
            raise UnreachableError(msg)
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            said = data.decode(errors="replace")[:80]
            msg = f"{url} answered something other than a JSON object: {said!r}"
            raise UnreachableError(msg)
        if "error" in event:
            msg = f"{url} broke off: {str(event['error'])[:_LONGEST_REASON]}"
            raise UnreachableError(msg)
        if not _well_formed(event):
            msg = f"{url} answered an event of another form than vLLM's: {str(event)[:80]!r}"
            raise UnreachableError(msg)
        yield event


def _well_formed(event: dict[str, Any]) -> bool:
    choices, usage = event.get("choices") or [], event.get("usage") or {}
    return (
        isinstance(choices, list)
        and all(
            isinstance(choice, dict) and isinstance(choice.get("token_ids") or [], list)
            for choice in choices
        )
        and isinstance(usage, dict)
        and isinstance(usage.get("prompt_tokens", 0), int)
    )


class _Timed(io.RawIOBase):
    """What a server sends; every read has only the time that is left to the whole call."""

    def __init__(self, wire: socket.socket, deadline: float) -> None:
        self._wire = wire
        self._deadline = deadline
        # It keeps the socket open when the connection lets go of it.
        self._stream = wire.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._wire.settimeout(_left(self._deadline))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Response(HTTPResponse):
    """A response whose status line, headers and body all come within one deadline."""

    def __init__(self, sock: socket.socket, *args: Any, deadline: float, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, deadline), _BLOCK)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@contextmanager
def _exchange(
    method: str, url: str, body: dict[str, Any] | None, seconds: float, tenant: str | None = None
) -> Iterator[HTTPResponse]:
    deadline = time.monotonic() + seconds
    try:
        scheme, host, port = split_server(url)
        kind = HTTPSConnection if scheme == "https" else HTTPConnection
        connection = kind(host, port, timeout=seconds)
    except (ValueError, HTTPException) as error:
        msg = f"{url!r} is no address of a server: {error}"
        raise UnreachableError(msg) from None
    try:
        connection.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]
        connection.connect()
        connection.sock.settimeout(_left(deadline))
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        if tenant is not None:
            headers[TENANT_HEADER] = tenant
        parts = urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        connection.request(method, (parts.path or "/") + query, data, headers)
        response = connection.getresponse()
        if response.status != _OK:
            said = response.read(_LONGEST_REASON).decode(errors="replace").strip()
            failure = UnreachableError(f"{url} answered {response.status}: {said}")
            failure.status = response.status
            raise failure
        yield response
    except TimeoutError:
        msg = f"{url} did not answer within {seconds:g} s"
        raise UnreachableError(msg) from None
    except (OSError, HTTPException, ValueError) as error:
        msg = f"{url} does not answer: {error or type(error).__name__}"
        raise UnreachableError(msg) from None
    finally:
        connection.close()
