"""What a quiet night and a rebuilt cluster leave of the cache: idle engines, blocks of no key."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from kascade.kube.cache_keys import KEY_BITS, KEY_FILE
from kascade.observability.cache_rules import cache_group
from kascade.programs.verify.client import get_json
from kascade.programs.verify.target import Replica
from tests.e2e.disk import chunk_files, spoil
from tests.e2e.replicas import (
    as_rendered,
    ask,
    asked_prometheus,
    compute_and_store,
    container,
    counter,
    hits_of,
    prompt,
    stored_chunks,
    wait_for_hits,
    wait_for_restart,
)
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

CHUNKS = 20
TOKENS = CHUNKS * 256 + 10
REAP = "--worker-reap-timeout-seconds"
GRACE = "--worker-registration-grace-seconds"
SHORT = "30"
"""The least that LMCache takes, in the place of two minutes and of an hour."""


def test_an_idle_engine_stores_and_what_cannot_be_opened_is_replaced(
    system: LocalSystem, measured: Measure
) -> None:
    """One night: all restarts with another key, nobody asks for a while, then everybody does.

    The first replica has LMCache's own rule with a shorter grace, to show that the fault is there.
    """
    one, other = system.target.replicas
    old, spoilt = prompt("of an old key", TOKENS), prompt("spoilt for good", TOKENS)
    computed = {old: compute_and_store(system, one, old)}
    known = chunk_files(system)
    computed[spoilt] = compute_and_store(system, one, spoilt)
    spoil(chunk_files(system) - known)
    _new_key(system)
    with _restarted(system, {one: {REAP: SHORT, GRACE: SHORT}, other: {REAP: SHORT}}):
        system.wait_for(lambda: _registered(one) == 0, "the idle one is forgotten", seconds=90)
        # One more where the engine before it was killed between its registration and a heartbeat.
        assert _registered(other) >= 1
        system.wait_for(lambda: _alerted(system) == {one.name}, "the alert names it", seconds=30)

        stored = {replica: stored_chunks(replica) for replica in (one, other)}
        files = chunk_files(system)
        # A prompt of one step: on a CPU each step of a forgotten engine waits for two answers that
        # do not come.
        ask(system, one.engine_url, prompt("after a night, forgotten", 600))
        compute_and_store(system, other, prompt("after a night", TOKENS))
        gained = {replica: stored_chunks(replica) - stored[replica] for replica in (one, other)}
        assert gained == {one: 0, other: CHUNKS}
        assert len(chunk_files(system) - files) == CHUNKS
        measured(
            f"idle past the grace, of {CHUNKS} chunks stored",
            f"{gained[other]:.0f}; by LMCache's own rule {gained[one]:.0f}",
        )

        for text, before in computed.items():
            stored[other] = stored_chunks(other)
            answer, hits = hits_of(system, other, text)
            assert (hits, answer.token_ids) == (0, before.token_ids)
            system.wait_for(
                lambda: stored_chunks(other) - stored[other] >= CHUNKS,
                "what it computed is stored",
                seconds=30,
            )
        assert counter(other.lmcache_url, "kascade_cache_unopened_blocks_total") == 2 * CHUNKS
    # The first replica's server has just been started again, as rendered; none of them is in its
    # memory, nor in that of its engine, which has not seen them since its own start.
    wait_for_hits(system, one, "after the night")
    for text, before in computed.items():
        answer, hits = hits_of(system, one, text)
        assert hits == CHUNKS * system.target.chunk_size, "the third request hits"
        assert answer.token_ids == before.token_ids
    measured(
        "spoilt blocks and blocks of another key, second and third request",
        f"0 and {hits:.0f} of {TOKENS} tokens from L2, right answers",
    )


def _new_key(system: LocalSystem) -> None:
    """What a cluster that is made again has beside a file system that stayed."""
    (file,) = (system.folder / "secrets").glob(f"*/{KEY_FILE}")
    file.unlink()
    file.write_bytes(secrets.token_bytes(KEY_BITS // 8))


@contextmanager
def _restarted(system: LocalSystem, flags: Mapping[Replica, Mapping[str, str]]) -> Iterator[None]:
    """Start servers and engines again, the servers with other flags; and those once more after."""
    _restart_servers(system, flags)
    engines = [container(system, replica, "vllm") for replica in flags]
    restarts = [engine.restarts for engine in engines]
    for engine in engines:
        engine.replace(engine.container)
    for engine, before in zip(engines, restarts, strict=True):
        wait_for_restart(system, engine, before)
    try:
        yield
    finally:
        _restart_servers(system, {replica: {} for replica in flags})


def _restart_servers(system: LocalSystem, flags: Mapping[Replica, Mapping[str, str]]) -> None:
    servers = [container(system, replica, "lmcache") for replica in flags]
    restarts = [server.restarts for server in servers]
    for server, (replica, changed) in zip(servers, flags.items(), strict=True):
        rendered = as_rendered(system, replica, "lmcache")
        words = [
            f"{flag}={changed[flag]}" if (flag := word.partition("=")[0]) in changed else word
            for word in rendered.argv
        ]
        server.replace(replace(rendered, argv=tuple(words)))
    for server, before in zip(servers, restarts, strict=True):
        wait_for_restart(system, server, before)


def _registered(replica: Replica) -> int:
    status = get_json(f"{replica.lmcache_url}/status")
    assert status["kascade_cache"]["expected_workers"] == 1
    return int(status["kascade_cache"]["registered_workers"])


def _alerted(system: LocalSystem) -> set[str]:
    """Pods that the alert's expression names, without its minutes of patience."""
    rule = cache_group(cluster_name=system.deployment.plan.name)["rules"][0]
    return {sample["metric"]["pod"] for sample in asked_prometheus(system, rule["expr"])}
