"""What the load generator does not do: ask a system what it is, prime caches, read pages."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, Final

from kascade.programs.verify.client import TENANT_HEADER

_NOT_FOUND: Final = 404
_SHORT_SECONDS: Final = 10.0
_PIECE_BYTES: Final = 65_536
_WORDS_BYTES: Final = 300
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Above any page or answer; more is another kind of server."""

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Replicas have addresses of their own, which a proxy for the internet does not reach."""


class UnreachableError(Exception):
    """A part of the system did not answer, or not as it should; the message says which."""


def fetch(
    url: str,
    body: Mapping[str, Any] | None = None,
    *,
    timeout_seconds: float = _SHORT_SECONDS,
    tenant: str | None = None,
) -> str:
    """GET a page, or POST JSON when there is a body, as a tenant's where one is given.

    Raises:
        UnreachableError: No answer with a status below 400, whole and in time.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if tenant is not None:
        headers[TENANT_HEADER] = tenant
    end = time.monotonic() + timeout_seconds
    try:
        request = urllib.request.Request(url, data, headers)  # noqa: S310  (schemes are checked)
        with _DIRECT.open(request, timeout=timeout_seconds) as answer:
            return _read(answer, end).decode()
    except urllib.error.HTTPError as error:
        words = _words(error, end)
        msg = f"{url} answered {error.code}{': ' + words if words else ''}"
        raise UnreachableError(msg) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        msg = f"{url} did not answer: {reason}"
        if isinstance(reason, TimeoutError):
            msg = f"{url} did not answer within {timeout_seconds:g} s"
        raise UnreachableError(msg) from None


def _read(answer: HTTPResponse, end: float) -> bytes:
    """Read to the end; a socket's own timeout begins anew with every byte."""
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_BYTES:
            msg = f"it sent more than {_MAX_BYTES // 1024**2} MiB"
            raise ValueError(msg)
        if time.monotonic() > end:
            raise TimeoutError
    whole = b"".join(pieces)
    if answer.length:
        raise IncompleteRead(whole, answer.length)
    return whole


def _words(error: urllib.error.HTTPError, end: float) -> str:
    """Return the beginning of what a server says about an error, as far as it comes."""
    words = b""
    with suppress(OSError, HTTPException, ValueError):
        while len(words) < _WORDS_BYTES and time.monotonic() < end:
            piece = error.read1(_WORDS_BYTES - len(words))
            if not piece:
                break
            words += piece
    return words.decode(errors="replace").strip()


def fetch_json(url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Fetch a JSON object; see ``fetch``."""
    text = fetch(url, body)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        msg = f"{url} answered something other than a JSON object"
        raise UnreachableError(msg)
    return value


def is_offered(url: str) -> bool:
    """POST an empty body; say whether the address exists and did as asked."""
    try:
        fetch(url, {}, timeout_seconds=60)
    except UnreachableError:
        return False
    return True


def complete(
    url: str, payload: Mapping[str, Any], *, timeout_seconds: float, tenant: str | None
) -> None:
    """Send one completion that nobody measures.

    Raises:
        UnreachableError: It was not answered.
    """
    body = {**payload, "stream": False}
    body.pop("stream_options", None)
    fetch(f"{url}/v1/completions", body, timeout_seconds=timeout_seconds, tenant=tenant)


def complete_all(
    url: str,
    payloads: Sequence[Mapping[str, Any]],
    *,
    at_once: int,
    timeout_seconds: float,
    tenant: str | None,
) -> None:
    """Send many completions that nobody measures, some at a time."""
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        calls = [
            pool.submit(complete, url, p, timeout_seconds=timeout_seconds, tenant=tenant)
            for p in payloads
        ]
        try:
            for call in calls:
                call.result()
        finally:
            for call in calls:
                call.cancel()


def until(deadline_seconds: float, *, every_seconds: float = 0.25) -> Iterator[None]:
    """Wait and yield until the time is up; the loop's body leaves when it has seen enough."""
    end = time.monotonic() + deadline_seconds
    while time.monotonic() < end:
        time.sleep(every_seconds)
        yield
