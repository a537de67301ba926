"""The claim: a second replica answers from what the first one computed."""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kascade.programs.verify.client import get_json, get_text
from kascade.programs.verify.metrics import parse
from tests.e2e.replicas import (
    HIT_TOKENS,
    PROMPT_TOKENS,
    ask,
    asked_prometheus,
    compute_and_store,
    hits_of,
    local_hits,
    prompt,
)
from tools.local.system import LocalSystem
from tools.servers import listening

RATIO = 0.35
"""Time to the first token from L2 over that of computing, at 6000 tokens: at most this."""

ROUNDS = 3

SAMPLED = re.compile("lmcache_mp_(l0_block|l1_chunk|real_reuse_gap)")
"""Histograms of LMCache's life-cycle subscribers: they follow one object in a hundred
(``--metrics-sample-rate``), so a short run may have none."""

RECORDED = Path(__file__).parents[1] / "data" / "metrics"

Measure = Callable[[str, str], None]


def test_another_replica_answers_from_l2(system: LocalSystem, measured: Measure) -> None:
    one, other = system.target.replicas
    for replica in (one, other):
        ask(system, replica.engine_url, prompt(f"warm {replica.name}", 600))
    cold, shared, again = [], [], []
    for number in range(ROUNDS):
        text = prompt(f"cascade {number}")
        first = compute_and_store(system, one, text, settle=True)
        second, hits = hits_of(system, other, text)
        held = local_hits(other)
        third, more = hits_of(system, other, text)
        assert hits == HIT_TOKENS, "every whole chunk comes from L2"
        assert more == 0
        assert local_hits(other) - held >= HIT_TOKENS, "the third answer comes from L0"
        assert first.token_ids == second.token_ids == third.token_ids
        assert len(first.token_ids) == 8
        cold.append(first.ttft_seconds)
        shared.append(second.ttft_seconds)
        again.append(third.ttft_seconds)
    ratio = statistics.median(shared) / statistics.median(cold)
    for what, values in (("computed", cold), ("from L2, aesgcm", shared), ("from L0", again)):
        measured(f"first token, {PROMPT_TOKENS} tokens, {what}", in_seconds(values))
    measured("from L2 over computed", f"{ratio:.2f}")
    assert ratio <= RATIO


def in_seconds(values: list[float]) -> str:
    return f"{', '.join(f'{value:.2f}' for value in values)} s"


def test_the_other_direction_works_too(system: LocalSystem) -> None:
    one, other = system.target.replicas
    text = prompt("the other direction")
    computed = compute_and_store(system, other, text)
    answer, hits = hits_of(system, one, text)
    assert hits == HIT_TOKENS
    assert answer.token_ids == computed.token_ids


def test_a_common_beginning_is_enough(system: LocalSystem) -> None:
    """Two questions about one document share its chunks, and no more."""
    one, other = system.target.replicas
    document = prompt("a document", 2048)
    compute_and_store(system, one, document + prompt("a question", 300))
    answer, hits = hits_of(system, other, document + prompt("another question", 300))
    assert hits == len(document)
    assert len(answer.token_ids) == 8


def test_both_replicas_write_into_one_directory(system: LocalSystem) -> None:
    directory = system.cache_directory
    assert directory is not None
    own = {path.name for path in directory.iterdir() if path.is_dir()}
    assert own == {f".tmp-{replica.name}" for replica in system.target.replicas}
    sizes = {path.stat().st_size for path in directory.glob("*.data")}
    engine = system.deployment.plan.engines[0]
    chunk = int(engine.figures.kv_per_token.value) * engine.lmcache.chunk_size
    # aesgcm adds its nonce and tag.
    assert sizes == {chunk + 29}


def test_prometheus_finds_every_pod(system: LocalSystem) -> None:
    """By the scrape configuration that the managed collector gets."""
    wanted = {("router", "tiny-router-0"), ("janitor", "tiny-janitor-0")}
    wanted |= {(job, r.name) for job in ("vllm", "lmcache") for r in system.target.replicas}

    def up() -> set[tuple[str, str]]:
        return {
            (sample["metric"]["job"], sample["metric"]["pod"])
            for sample in asked_prometheus(system, 'up{cluster="laptop",model="tiny"} == 1')
        }

    system.wait_for(lambda: up() == wanted, f"Prometheus has {wanted}", seconds=20)


def test_the_recorded_pages_are_those_of_today(
    system: LocalSystem, pytestconfig: pytest.Config
) -> None:
    """Dashboards are tested against recorded pages, which must not outlive their programs."""
    replica = system.target.replicas[0]
    router = system.target.router_url
    assert router is not None
    # What nobody has asked has no series yet.
    for url in (replica.engine_url, router):
        ask(system, url, prompt(f"a page of {url}", 600))
    pages = {
        "vllm-0.32.0.txt": get_text(f"{replica.engine_url}/metrics"),
        "lmcache-0.5.6-writer.txt": get_text(f"{replica.lmcache_url}/metrics"),
        "router-0.1.17.txt": get_text(system.target.router_metrics_url or ""),
    }
    if pytestconfig.getoption("--record-metrics"):
        for name, page in pages.items():
            if not (RECORDED / name).exists():
                (RECORDED / name).write_text(page)
    for name, page in pages.items():
        recorded = {sample.name for sample in parse((RECORDED / name).read_text()).samples}
        now = {sample.name for sample in parse(page).samples}
        gone = {one for one in recorded - now if not SAMPLED.match(one)}
        assert gone == set(), name


def test_nothing_listens_beyond_this_machine(system: LocalSystem) -> None:
    groups = {one.pid for pod in system.pods.values() for one in pod.containers.values()}
    found = {
        address
        for process in psutil.process_iter()
        if belongs(process, groups)
        for address in listening(process.pid)
    }
    assert len(found) >= 8
    assert [address for address in found if not address.startswith("127.")] == []


def belongs(process: psutil.Process, groups: set[int]) -> bool:
    try:
        return os.getpgid(process.pid) in groups
    except ProcessLookupError:
        return False


def test_the_caches_agree_about_themselves(system: LocalSystem) -> None:
    one, other = (get_json(f"{r.lmcache_url}/status") for r in system.target.replicas)
    for field in ("chunk_size", "hash_algorithm"):
        assert one[field] == other[field]
