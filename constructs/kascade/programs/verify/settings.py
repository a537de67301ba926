"""Causes that stand in the replicas' own words: servers that take no part, settings that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .causes import Cause, both, differing, of
from .reading import Reading

UNSEEDED: Final = frozenset({"builtin"})
"""Hash algorithms whose values depend on PYTHONHASHSEED; that of blake3 and sha256 do not."""

Rule = Callable[[Reading], Iterator[Cause]]


def _no_answer(reading: Reading) -> Iterator[Cause]:
    for facts in (reading.writer, reading.reader):
        if facts.cache is None:
            yield both(
                reading,
                kind="lmcache-unreachable",
                what=f"the LMCache server of {facts.name} gives no answer",
                show=lambda seen: seen.problem or "answers",
                change="look at the log of its container lmcache; vLLM computes everything itself "
                "until it is back, and registers again within 20 s",
            )


def _no_engine(reading: Reading) -> Iterator[Cause]:
    for facts in (reading.writer, reading.reader):
        cache = facts.cache
        if cache is None or (cache.healthy and cache.engines >= max(cache.expected, 1)):
            continue
        known = "no vLLM" if not cache.engines else f"{cache.engines} of {cache.expected} GPUs"
        what = (
            f"{known} is registered with the LMCache server of {facts.name}"
            if cache.healthy
            else f"the LMCache server of {facts.name} calls itself unhealthy"
        )
        yield both(
            reading,
            kind="lmcache-degraded",
            what=what,
            show=lambda seen: of(seen, lambda c: f"healthy: {c.healthy}, engines: {c.engines}"),
            change="look for `Reaped` in the server's log: an engine that it has forgotten is "
            "never taken back, so delete the pod. Else compare lmcache.mp.host and "
            "lmcache.mp.port of vLLM's --kv-transfer-config with --host and --port of the server, "
            "and read both logs for a failed registration",
        )


def _versions(reading: Reading) -> Iterator[Cause]:
    shown = {
        "vLLM": lambda facts: facts.engine.version,
        "LMCache": lambda facts: of(facts, lambda cache: cache.version),
    }
    for program, show in shown.items():
        yield from differing(
            reading,
            show,
            kind="version",
            what=f"the replicas run different versions of {program}",
            change="give all replicas one image, and wait until the roll-out has ended",
        )


def _model(reading: Reading) -> Iterator[Cause]:
    yield from differing(
        reading,
        lambda facts: facts.engine.root,
        kind="model-path",
        what="the replicas were given different models, or one model by different paths",
        change="start every replica with the same text after `vllm serve`; it is part of each key",
    )


def _layout(reading: Reading) -> Iterator[Cause]:
    yield from differing(
        reading,
        lambda facts: of(facts, lambda cache: f"{cache.world_size} ranks"),
        kind="parallelism",
        what="the replicas spread the model over different numbers of GPUs",
        change="start every replica with the same --tensor-parallel-size",
    )
    yield from differing(
        reading,
        lambda facts: facts.engine.cache_dtype,
        kind="kv-dtype",
        what="the replicas keep their KV cache in different types",
        change="start every replica with the same --kv-cache-dtype; it is not part of a key, so "
        "the directory holds both kinds now: give it a new base path",
    )


def _chunks(reading: Reading) -> Iterator[Cause]:
    unequal = list(
        differing(
            reading,
            lambda facts: of(facts, lambda cache: f"{cache.chunk_size} tokens"),
            kind="chunk-size",
            what="the replicas cut prompts into chunks of different sizes",
            change="start every LMCache server with the same --chunk-size",
        )
    )
    yield from unequal
    cache = reading.reader.cache
    if not unequal and cache is not None and cache.chunk_size != reading.chunk_size:
        yield both(
            reading,
            kind="chunk-size",
            what=f"the servers cut prompts into chunks of another size than the planned "
            f"{reading.chunk_size} tokens",
            show=lambda facts: of(facts, lambda found: f"{found.chunk_size} tokens"),
            change="deploy the plan again, or verify with the configuration that is deployed",
        )


def _hashes(reading: Reading) -> Iterator[Cause]:
    unequal = list(
        differing(
            reading,
            lambda facts: of(facts, lambda cache: cache.hash_algorithm),
            kind="hash-algorithm",
            what="the LMCache servers name chunks by different hash algorithms",
            change="start every LMCache server with the same --hash-algorithm (blake3), and name "
            "the same in lmcache.mp.hash_algorithm of vLLM",
        )
    )
    yield from unequal
    caches = [facts.cache for facts in (reading.writer, reading.reader) if facts.cache]
    seeds = {cache.hash_seed for cache in caches}
    if (
        not unequal
        and any(cache.hash_algorithm in UNSEEDED for cache in caches)
        and (len(seeds) > 1 or seeds & {"", "random"})
    ):
        yield both(
            reading,
            kind="hash-seed",
            what="chunk names come from Python's own hash, and its seed is not one and the same",
            show=lambda facts: of(facts, lambda c: f"PYTHONHASHSEED={c.hash_seed or '(unset)'}"),
            change="set PYTHONHASHSEED=0 in every container, or use --hash-algorithm=blake3",
        )


def _directories(reading: Reading) -> Iterator[Cause]:
    for facts in (reading.writer, reading.reader):
        if facts.cache is not None and not facts.cache.adapter:
            yield both(
                reading,
                kind="no-l2",
                what=f"the LMCache server of {facts.name} has no L2 adapter",
                show=lambda seen: of(seen, lambda cache: cache.adapter or "none"),
                change="start it with the same --l2-adapter as its neighbours",
            )
            return
    yield from differing(
        reading,
        lambda facts: of(facts, lambda cache: cache.base_path),
        kind="base-path",
        what="the replicas keep their files under different paths",
        change="give every --l2-adapter the same base_path",
    )


def _encryption(reading: Reading) -> Iterator[Cause]:
    yield from differing(
        reading,
        lambda facts: of(facts, lambda cache: cache.serde),
        kind="serde",
        what="the replicas seal their blocks differently",
        change="give every --l2-adapter the same serde, and a new base path, because the "
        "directory holds both kinds of files now",
    )


SERVERS: Final[tuple[Rule, ...]] = (_no_answer, _no_engine)
SETTINGS: Final[tuple[Rule, ...]] = (
    _versions,
    _model,
    _layout,
    _chunks,
    _hashes,
    _directories,
    _encryption,
)
