"""What aesgcm costs and prevents."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.disk import spoil
from tests.e2e.replicas import (
    HIT_TOKENS,
    PROMPT_TOKENS,
    as_rendered,
    compute_and_store,
    container,
    hits_of,
    prompt,
    wait_for_hits,
    wait_for_restart,
)
from tests.e2e.test_cascade import ROUNDS, in_seconds
from tools.local.pods import Container
from tools.local.substitutions import edit_json
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]


def test_what_encryption_costs_and_prevents(system: LocalSystem, measured: Measure) -> None:
    """The same without aesgcm: a bit quicker, and blind to spoilt files."""
    one, other = system.target.replicas
    plain = system.folder / "volumes" / "plain"
    servers = [container(system, replica, "lmcache") for replica in (one, other)]
    restarts = [server.restarts for server in servers]
    for server, replica in zip(servers, (one, other), strict=True):
        server.replace(without_encryption(as_rendered(system, replica, "lmcache"), plain))
    for server, before in zip(servers, restarts, strict=True):
        wait_for_restart(system, server, before)
    for replica in (one, other):
        wait_for_hits(system, replica, f"plain {replica.name}")
    cold, shared = [], []
    for number in range(ROUNDS):
        text = prompt(f"plain {number}")
        computed = compute_and_store(system, one, text, settle=True)
        answer, hits = hits_of(system, other, text)
        assert hits == HIT_TOKENS
        assert answer.token_ids == computed.token_ids
        cold.append(computed.ttft_seconds)
        shared.append(answer.ttft_seconds)
    measured(f"first token, {PROMPT_TOKENS} tokens, from L2, no serde", in_seconds(shared))
    ratio = statistics.median(shared) / statistics.median(cold)
    measured("from L2, no serde, over computed", f"{ratio:.2f}")

    known = set(plain.glob("*.data"))
    text = prompt("spoilt and plain")
    computed = compute_and_store(system, one, text)
    spoil(set(plain.glob("*.data")) - known)
    answer, hits = hits_of(system, other, text)
    assert hits == HIT_TOKENS, "nothing notices the damage"
    wrong = answer.token_ids != computed.token_ids
    measured("spoilt files, no serde", f"{'a WRONG' if wrong else 'the right'} answer")
    assert wrong, "if this was right, the default could do without aesgcm"


def without_encryption(container: Container, directory: Path) -> Container:
    def edit(adapter: dict[str, Any]) -> None:
        adapter["base_path"] = str(directory)
        del adapter["serde"]

    return edit_json(container, "--l2-adapter=", edit)
