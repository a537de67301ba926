"""Two tenants of one system: equal salts share through L2, other ones do not.

The middleware that sets the salts has tests of its own, with vLLM's server (tests/contract).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kascade.programs.verify.client import Answer, UnreachableError, complete
from kascade.programs.verify.target import Replica
from tests.e2e.replicas import DEADLINE_SECONDS, external_hits, prompt, stored_chunks
from tools.local.system import LocalSystem

TOKENS = 3000
CHUNKS = TOKENS // 256


def ask(system: LocalSystem, replica: Replica, text: str, salt: str | None) -> tuple[Answer, float]:
    """Ask as a tenant; say how many tokens came from LMCache."""
    before = external_hits(replica)
    answer = complete(
        replica.engine_url,
        model=system.target.model,
        prompt=text,
        tokens=8,
        seconds=DEADLINE_SECONDS,
        fields={} if salt is None else {"cache_salt": salt},
    )
    return answer, external_hits(replica) - before


def test_tenants_share_with_themselves_only(
    system: LocalSystem, measured: Callable[[str, str], None]
) -> None:
    one, other = system.target.replicas
    text = prompt("whose is it", TOKENS)
    before = stored_chunks(one)
    computed, _ = ask(system, one, text, "alice")
    system.wait_for(
        lambda: stored_chunks(one) - before >= CHUNKS, "alice's chunks are stored", seconds=30
    )
    hits = {}
    for salt in ("bob", None, "alice"):
        answer, hits[salt] = ask(system, other, text, salt)
        assert answer.token_ids == computed.token_ids
    measured(
        "tokens from L2 of alice's prompt, as bob, as nobody, as alice",
        ", ".join(f"{n:g}" for n in hits.values()),
    )
    assert hits == {"bob": 0, None: 0, "alice": CHUNKS * 256}


def test_a_salt_stands_in_the_names_of_files(system: LocalSystem) -> None:
    """So it is an id and never a secret."""
    directory = system.cache_directory
    assert directory is not None
    names = [path.name for path in directory.glob("*.data")]
    assert any(name.endswith("@alice.data") for name in names)


def test_a_salt_that_is_a_path_is_refused(system: LocalSystem) -> None:
    for salt in ("../../evil", "a@b", "x" * 129):
        with pytest.raises(UnreachableError) as caught:
            ask(system, system.target.replicas[0], "hello", salt)
        assert caught.value.status == 400, salt
