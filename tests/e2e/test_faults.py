"""Every fault ends as docs/reliability.md says: a recompute or an error, never a wrong answer."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

import pytest

from kascade.programs.verify.target import Replica
from tests.e2e.disk import chunk_files, cut, read_only, shared_directory, small_disk, spoil
from tests.e2e.replicas import (
    HIT_TOKENS,
    ask,
    attempt,
    compute_and_store,
    container,
    counter,
    external_hits,
    hits_of,
    in_background,
    prompt,
    stored_chunks,
    wait_for_hits,
    wait_for_restart,
    was_down,
)
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

SUBMITTED = "lmcache_mp_l2_store_submitted_objects_chunks_total"


def not_stored(replica: Replica) -> float:
    """Chunks that an LMCache server was to write to L2 and has not."""
    return counter(replica.lmcache_url, SUBMITTED) - stored_chunks(replica)


# --- Files ----------------------------------------------------------------------------------------


def test_two_replicas_store_the_same_prompts_at_once(system: LocalSystem) -> None:
    texts = [prompt(f"race {number}", 2600) for number in range(3)]
    before = {replica.name: stored_chunks(replica) for replica in system.target.replicas}
    pool, pending = in_background(
        [
            partial(attempt, system, replica.engine_url, text)
            for text in texts
            for replica in system.target.replicas
        ]
    )
    with pool:
        outcomes = [one.result() for one in pending]
    assert [outcome.error for outcome in outcomes] == [""] * 6
    answers = [outcome.answer.token_ids for outcome in outcomes if outcome.answer]
    assert answers[0::2] == answers[1::2]
    system.wait_for(
        lambda: not any(map(not_stored, system.target.replicas)),
        "both have stored what they were given",
        seconds=20,
    )
    stored = sum(stored_chunks(r) - before[r.name] for r in system.target.replicas)
    assert stored >= len(texts) * 10
    assert len({path.stat().st_size for path in chunk_files(system)}) == 1
    assert list(shared_directory(system).glob(".tmp-*/*")) == []


def test_a_cut_file_is_recomputed(system: LocalSystem, measured: Measure) -> None:
    one, other = system.target.replicas
    known = chunk_files(system)
    text = prompt("cut")
    computed = compute_and_store(system, one, text)
    cut({sorted(chunk_files(system) - known)[0]})
    answer, hits = hits_of(system, other, text)
    assert answer.token_ids == computed.token_ids
    assert hits < HIT_TOKENS
    measured("one file of 23 cut", f"{hits:.0f} of {HIT_TOKENS} tokens from L2, right answer")


def test_spoilt_files_are_recomputed(system: LocalSystem, measured: Measure) -> None:
    one, other = system.target.replicas
    known = chunk_files(system)
    text = prompt("spoilt")
    computed = compute_and_store(system, one, text)
    spoil(chunk_files(system) - known)
    answer, hits = hits_of(system, other, text)
    assert answer.token_ids == computed.token_ids
    assert hits == 0
    measured("files of the same size spoilt", f"{hits:.0f} tokens from L2, right answer")


def test_files_that_vanish_are_recomputed(system: LocalSystem) -> None:
    one, other = system.target.replicas
    known = chunk_files(system)
    text = prompt("vanished")
    computed = compute_and_store(system, one, text)
    for path in chunk_files(system) - known:
        path.unlink()
    answer, hits = hits_of(system, other, text)
    assert answer.token_ids == computed.token_ids
    assert hits == 0


def test_a_full_disk_costs_hits_and_nothing_else(system: LocalSystem, measured: Measure) -> None:
    one, other = system.target.replicas
    text = prompt("full")
    with small_disk(system, mebibytes=8) as directory:
        lost = not_stored(one)
        computed = ask(system, one.engine_url, text)
        system.wait_for(lambda: not_stored(one) > lost, "stores fail", seconds=30)
        stored = len(list(directory.glob("*.data")))
        answer, hits = hits_of(system, other, text)
        assert answer.token_ids == computed.token_ids
        assert hits <= stored * system.target.chunk_size < HIT_TOKENS
    measured("L2 full", f"{stored} of 23 chunks stored, {hits:.0f} tokens from L2, right answer")
    seconds = wait_for_hits(system, other, "after the full disk")
    measured("L2 full, hits again after it has room", f"{seconds:.1f} s")


def test_a_read_only_disk_costs_new_hits_and_nothing_else(
    system: LocalSystem, measured: Measure
) -> None:
    one, other = system.target.replicas
    old, new = prompt("before read-only"), prompt("read-only")
    known = compute_and_store(system, one, old)
    with read_only(system):
        lost = not_stored(one)
        computed = ask(system, one.engine_url, new)
        system.wait_for(lambda: not_stored(one) > lost, "stores fail", seconds=30)
        answer, hits = hits_of(system, other, new)
        assert answer.token_ids == computed.token_ids
        assert hits == 0
        again, old_hits = hits_of(system, other, old)
        assert again.token_ids == known.token_ids
        assert old_hits == HIT_TOKENS
    measured("L2 read-only", f"old prompt {old_hits:.0f} tokens from L2, new one 0, right answers")
    wait_for_hits(system, other, "after read-only")


# --- Processes ------------------------------------------------------------------------------------


def test_a_killed_cache_server_costs_hits_until_it_is_back(
    system: LocalSystem, measured: Measure
) -> None:
    one, other = system.target.replicas
    text = prompt("killed server")
    computed = compute_and_store(system, one, text)
    server = container(system, other, "lmcache")
    restarts, before = server.restarts, external_hits(other)
    server.signal_all(signal.SIGKILL)
    outcome = attempt(system, other.engine_url, text)
    assert outcome.answer is not None, outcome.error
    assert outcome.answer.token_ids == computed.token_ids
    assert external_hits(other) == before
    assert container(system, other, "vllm").restarts == 0
    wait_for_restart(system, server, restarts)
    seconds = wait_for_hits(system, other, "after the killed server")
    was_down(system, "lmcache", other)
    measured("cache server killed, answer without it", f"{outcome.seconds:.1f} s")
    measured("cache server back, hits again after", f"{seconds:.1f} s")


@pytest.fixture(autouse=True)
def no_other_restart(system: LocalSystem) -> None:
    """Begin each test with every container up."""
    for pod in system.pods.values():
        assert all(one.started for one in pod.containers.values())
