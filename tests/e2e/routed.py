"""Prompts in the forms that clients send, through the router, and where they were computed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from kascade.programs.verify.client import get_text
from kascade.programs.verify.metrics import parse
from kascade.programs.verify.target import Replica
from tests.e2e.replicas import DEADLINE_SECONDS, counter
from tools.local.system import LocalSystem

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_COMPUTED = "vllm:generation_tokens_total"

Form = Callable[[str], tuple[str, dict[str, Any]]]


def chat(text: str) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}


def string(text: str) -> tuple[str, dict[str, Any]]:
    return "/v1/completions", {"prompt": text}


def token_ids(text: str) -> tuple[str, dict[str, Any]]:
    return "/v1/completions", {"prompt": [ord(letter) for letter in text]}


FORMS: dict[str, Form] = {"chat": chat, "string": string, "token ids": token_ids}


def post(system: LocalSystem, url: str, form: Form, text: str) -> None:
    """Ask for an answer that has to come, without streaming.

    Raises:
        OSError: It does not.
    """
    path, body = form(text)
    fields = {"model": system.target.model, "max_tokens": 4, "ignore_eos": True, **body}
    request = urllib.request.Request(  # noqa: S310 - http
        f"{url}{path}", json.dumps(fields).encode(), {"Content-Type": "application/json"}
    )
    try:
        with _DIRECT.open(request, timeout=DEADLINE_SECONDS) as answer:
            json.load(answer)
    except urllib.error.HTTPError as error:
        msg = f"{error.code}: {error.read()[:300]!r}"
        raise OSError(msg) from None


def home_of(system: LocalSystem, form: Form, text: str) -> Replica:
    """Ask through the router; return the replica that answered."""
    replicas = system.target.replicas
    before = {one.name: counter(one.engine_url, _COMPUTED) for one in replicas}
    found: list[Replica] = []

    def moved() -> bool:
        found[:] = [r for r in replicas if counter(r.engine_url, _COMPUTED) > before[r.name]]
        return bool(found)

    post(system, system.target.router_url or "", form, text)
    system.wait_for(moved, "an engine has answered", seconds=10)
    (home,) = found
    return home


def decisions(system: LocalSystem, outcome: str) -> float:
    """How often the router decided so."""
    page = parse(get_text(system.target.router_metrics_url or ""))
    return page.total("vllm_router_prefix_routing_decisions_total", outcome=outcome)
