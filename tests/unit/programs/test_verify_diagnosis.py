"""From observations to causes: one planted difference at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kascade.programs.verify.client import Answer
from kascade.programs.verify.diagnosis import diagnose
from kascade.programs.verify.facts import CacheFacts, EngineFacts, Facts, read_cache
from kascade.programs.verify.reading import Fetched, Listing, Reading, Seen, Stored
from tests.e2e.planted import PLANTED

CACHE = CacheFacts(
    version="0.5.6",
    instance="pod-a",
    healthy=True,
    engines=1,
    expected=1,
    chunk_size=256,
    hash_algorithm="blake3",
    hash_seed="0",
    adapter="FSNativeL2Adapter",
    base_path="/cache/model",
    tmp_dir=".tmp-pod-a",
    serde="aesgcm/256",
    key_path="/keys/key",
    world_size=1,
)
ENGINE = EngineFacts(version="0.32.0", root="org/model", max_model_len=8192, cache_dtype="auto")
A = Facts(name="pod-a", engine=ENGINE, cache=CACHE)
B = Facts(name="pod-b", engine=ENGINE, cache=replace(CACHE, instance="pod-b"))
ANSWER = Answer(token_ids=(1, 2, 3), prompt_tokens=3000, ttft_seconds=2.0)

GOOD = Reading(
    writer=A,
    reader=B,
    chunk_size=256,
    stored=Stored(11, 11),
    fetched=Fetched(11, 11, 11),
    seen=None,
    wrote=ANSWER,
    read=replace(ANSWER, ttft_seconds=0.3),
    external_hits=2816,
    reader_tokens=3000,
)
MISSED = replace(GOOD, fetched=Fetched(11, 0, 0), external_hits=0)


def cache(**changes: Any) -> Facts:
    assert B.cache is not None
    return replace(B, cache=replace(B.cache, **changes))


def engine(**changes: Any) -> Facts:
    return replace(B, engine=replace(ENGINE, **changes))


def test_nothing_is_wrong_with_a_hit() -> None:
    assert diagnose(GOOD) == ()


def test_a_server_that_knows_one_of_two_gpus_is_named() -> None:
    """LMCache forgets each by itself."""
    half = cache(engines=1, expected=2)
    (cause,) = diagnose(replace(MISSED, reader=half))
    assert cause.kind == "lmcache-degraded"
    assert "1 of 2 GPUs is registered with the LMCache server of pod-b" in cause.what
    assert "delete the pod" in cause.change
    assert diagnose(replace(MISSED, reader=cache(expected=0)))[0].kind != "lmcache-degraded"


SETTINGS = {
    "lmcache-unreachable": replace(B, cache=None, problem="http://b does not answer: rejected"),
    "lmcache-degraded": cache(engines=0),
    "version": cache(version="0.5.7"),
    "model-path": engine(root="/weights/model"),
    "parallelism": cache(world_size=2),
    "kv-dtype": engine(cache_dtype="fp8"),
    "chunk-size": cache(chunk_size=512),
    "hash-algorithm": cache(hash_algorithm="sha256_cbor"),
    "no-l2": cache(adapter=""),
    "base-path": cache(base_path="/cache/other"),
    "serde": cache(serde="none"),
}


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("turned", [False, True], ids=["reader", "writer"])
def test_a_setting_that_differs_is_the_cause_on_either_side(kind: str, turned: bool) -> None:
    reading = replace(MISSED, reader=SETTINGS[kind])
    if turned:
        reading = replace(reading, writer=SETTINGS[kind], reader=A)
    (cause,) = diagnose(reading)
    assert cause.kind == kind
    assert cause.writer != cause.reader
    assert cause.change


def test_an_unhealthy_server_is_degraded() -> None:
    (cause,) = diagnose(replace(MISSED, reader=cache(healthy=False)))
    assert cause.kind == "lmcache-degraded"
    assert "unhealthy" in cause.what


def test_the_version_of_vllm_counts_as_well() -> None:
    (cause,) = diagnose(replace(MISSED, reader=engine(version="0.33.0")))
    assert (cause.kind, cause.writer, cause.reader) == ("version", "0.32.0", "0.33.0")


@pytest.mark.parametrize("seeds", [("0", "7"), ("", ""), ("random", "random")])
def test_a_seed_matters_to_pythons_own_hash(seeds: tuple[str, str]) -> None:
    assert A.cache is not None
    first = replace(A.cache, hash_algorithm="builtin", hash_seed=seeds[0])
    second = cache(hash_algorithm="builtin", hash_seed=seeds[1])
    reading = replace(MISSED, writer=replace(A, cache=first), reader=second)
    assert [cause.kind for cause in diagnose(reading)] == ["hash-seed"]


def test_a_seed_does_not_matter_to_blake3() -> None:
    assert diagnose(replace(MISSED, reader=cache(hash_seed="7")))[0].kind == "mount-differs"


def test_a_chunk_size_that_is_not_the_planned_one() -> None:
    assert A.cache is not None
    both = replace(A, cache=replace(A.cache, chunk_size=512))
    reading = replace(MISSED, writer=both, reader=cache(chunk_size=512))
    (cause,) = diagnose(reading)
    assert cause.kind == "chunk-size"
    assert "planned 256" in cause.what


COUNTERS = {
    "seen-before": replace(GOOD, writer_hits=2816),
    "nothing-stored": replace(MISSED, stored=Stored(0, 0)),
    "store-failed": replace(MISSED, stored=Stored(11, 4)),
    "not-asked": replace(MISSED, fetched=Fetched(0, 0, 0)),
    "mount-differs": MISSED,
    "key-differs": replace(MISSED, fetched=Fetched(11, 11, 0)),
    "hung-read": replace(
        MISSED, read=None, failure="no answer within 120 s", fetched=Fetched(11, 11, 0, jobs=1)
    ),
    "no-answer": replace(MISSED, read=None, failure="rejected"),
    "partly": replace(MISSED, external_hits=512, fetched=Fetched(11, 2, 2)),
    "other-tokens": replace(GOOD, read=replace(ANSWER, token_ids=(9, 9, 9))),
    "unknown": replace(MISSED, fetched=Fetched(11, 11, 11)),
}


@pytest.mark.parametrize("kind", COUNTERS)
def test_with_equal_settings_the_counters_tell(kind: str) -> None:
    (cause,) = diagnose(COUNTERS[kind])
    assert cause.kind == kind


def test_hits_of_others_are_not_taken_for_an_earlier_run() -> None:
    assert diagnose(replace(GOOD, writer_hits=2816, writer_tokens=9000)) == ()
    assert diagnose(replace(GOOD, local_hits=2816, reader_tokens=9000)) == ()
    assert diagnose(replace(GOOD, local_hits=2816))[0].kind == "seen-before"


def test_without_a_seal_files_are_damaged_rather_than_sealed_with_another_key() -> None:
    assert A.cache is not None
    plain = replace(A, cache=replace(A.cache, serde="none", key_path=""))
    reading = replace(COUNTERS["key-differs"], writer=plain, reader=cache(serde="none"))
    assert diagnose(reading)[0].kind == "not-readable"


def test_a_listing_is_quoted_where_there_is_one() -> None:
    listing = Listing("/cache in pod-b", frozenset({".tmp-pod-b"}), frozenset())
    (cause,) = diagnose(replace(MISSED, seen=Seen(listing, listing)))
    assert "/cache in pod-b gained 0 files" in cause.reader
    assert ".tmp-pod-b" in cause.reader


def test_several_differences_are_all_named() -> None:
    reading = replace(MISSED, reader=cache(chunk_size=512, base_path="/other"))
    assert [cause.kind for cause in diagnose(reading)] == ["chunk-size", "base-path"]


def test_what_the_real_server_says_is_read() -> None:
    # Excerpts of the pages of LMCache 0.5.6 with one engine.
    status = {
        "is_healthy": True,
        "chunk_size": 256,
        "hash_algorithm": "blake3",
        "storage_manager": {"l2_adapters": [{"type": "FSNativeL2Adapter", "is_healthy": True}]},
        "cache_context_meta": {},
        "non_cuda_context_meta": {"7": {"model_name": "/m", "world_size": 1, "block_size": 128}},
        "kascade_cache": {"registered_workers": 1, "expected_workers": 2},
    }
    encrypted = (
        "SerdeConfig(type='aesgcm', kwargs={'master_key_path': '/k/key', 'aes_bits': 256, "
        "'max_workers': 2})"
    )
    config = {
        "mp": {"instance_id": "pod-a"},
        "storage_manager": {
            "l2_adapter_config": {
                "adapters": [
                    {
                        "base_path": "/cache",
                        "relative_tmp_dir": ".tmp-pod-a",
                        "serde_config": encrypted,
                    }
                ]
            }
        },
    }
    found = read_cache(status, config, version="0.5.6-g3e11e108", environment={})
    assert found == CacheFacts(
        version="0.5.6-g3e11e108",
        instance="pod-a",
        healthy=True,
        engines=1,
        expected=2,
        chunk_size=256,
        hash_algorithm="blake3",
        hash_seed="",
        adapter="FSNativeL2Adapter",
        base_path="/cache",
        tmp_dir=".tmp-pod-a",
        serde="aesgcm/256",
        key_path="/k/key",
        world_size=1,
    )


def test_what_is_planted_in_real_engines_is_among_the_known_causes() -> None:
    named = {kind for fault in PLANTED.values() for kind in (*fault.found, *fault.given)}
    assert named <= {*SETTINGS, *COUNTERS}
