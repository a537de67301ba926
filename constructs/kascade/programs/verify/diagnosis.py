"""Why a replica did not answer from what the other one computed: observations in, causes out.

Differences between settings come first, because they explain everything else. Only where all
settings agree do the counters speak: not stored, not asked for, not found, found but not readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .causes import Cause, arrived, found, key
from .facts import NO_SERDE
from .reading import Reading
from .settings import SERVERS, SETTINGS, Rule


def diagnose(reading: Reading) -> tuple[Cause, ...]:
    """Name the likely causes of a missing hit or of another answer.

    Args:
        reading: All that was observed.

    Returns:
        Nothing when the reader took every whole chunk from the cache and gave the same answer.
    """
    if reading.hit and reading.same_tokens and not reading.seen_before:
        return ()
    for rules in (SERVERS, SETTINGS):
        causes = tuple(cause for rule in rules for cause in rule(reading))
        if causes:
            return causes
    # Each of these explains those after it: what was not stored cannot be found.
    for rule in _COUNTERS:
        for cause in rule(reading):
            return (cause,)
    return (_unknown(reading),)


def _seen_before(reading: Reading) -> Iterator[Cause]:
    if reading.seen_before:
        yield Cause(
            kind="seen-before",
            what="the prompt was cached before this run sent it, so nothing is proved",
            writer=f"{reading.writer_hits} tokens cached",
            reader=f"{reading.local_hits} tokens in GPU memory",
            change="use another --seed, or none",
        )


def _hangs(reading: Reading) -> Iterator[Cause]:
    if reading.read is None:
        jobs = reading.fetched.jobs if reading.fetched else 0
        yield Cause(
            kind="hung-read" if jobs else "no-answer",
            what="the reader's request began a read of L2 that does not end"
            if jobs
            else "the reader did not answer the request",
            writer=f"answered after {reading.wrote.ttft_seconds:.2f} s",
            reader=f"{reading.failure}; prefetches that still run: {jobs}",
            change="look at the mount of L2 in the reader's pod: a read that hangs has no deadline "
            "in LMCache, so the mount must have one"
            if jobs
            else "look at the reader's log; /health may well say 200",
        )


def _not_stored(reading: Reading) -> Iterator[Cause]:
    stored = reading.stored
    if stored is None or reading.hit or stored.completed >= reading.chunks:
        return
    moved = f"{stored.completed} of {stored.submitted} chunks handed to L2 arrived"
    nothing = stored.submitted == 0
    yield Cause(
        kind="nothing-stored" if nothing else "store-failed",
        what="the writer's LMCache server stored nothing"
        if nothing
        else "the writer's LMCache server could not write all of its chunks",
        writer=f"{moved}, of a prompt of {reading.chunks} chunks",
        reader=found(reading),
        change="see whether vLLM's kv_role lets it store and whether the writer's LMCache log "
        "names the prompt"
        if nothing
        else "see whether L2 is full or mounted read-only in the writer's pod: LMCache logs the "
        "error and counts no failure",
    )


def _not_asked(reading: Reading) -> Iterator[Cause]:
    fetched = reading.fetched
    if fetched is not None and not reading.hit and not fetched.looked_up:
        yield Cause(
            kind="not-asked",
            what="the reader's vLLM never asked its LMCache server for the prompt",
            writer=arrived(reading),
            reader="0 chunks looked up in L2",
            change="see whether vLLM runs with LMCacheMPConnector, kv_role kv_both and the port of "
            "this server, and whether its log speaks of a degraded mode",
        )


def _not_readable(reading: Reading) -> Iterator[Cause]:
    fetched = reading.fetched
    if fetched is None or reading.hit or fetched.loaded >= fetched.begun:
        return
    encrypted = reading.reader.cache is not None and reading.reader.cache.serde != NO_SERDE
    yield Cause(
        kind="key-differs" if encrypted else "not-readable",
        what="the reader found the files but could not open them: its key is another one, or the "
        "files are damaged"
        if encrypted
        else "the reader found the files but could not load them: they are short or damaged",
        writer=key(reading.writer, arrived(reading)),
        reader=key(reading.reader, f"{fetched.loaded} of {fetched.begun} chunks loaded"),
        change="mount the same key Secret in every pod and restart those that started with "
        "another one; the file is used byte by byte, a newline at its end included"
        if encrypted
        else "delete the directory's files; without a serde LMCache checks nothing but the length",
    )


def _not_found(reading: Reading) -> Iterator[Cause]:
    fetched = reading.fetched
    if fetched is None or reading.hit or not fetched.looked_up or fetched.begun:
        return
    paths = [
        facts.cache.base_path if facts.cache else "?" for facts in (reading.writer, reading.reader)
    ]
    looked = found(reading)
    if reading.seen is not None:
        after = reading.seen.after
        names = ", ".join(sorted(after.tmp_dirs)) or "no server's directory"
        looked += (
            f"; {after.where} gained {reading.seen.new_chunks} files while the writer stored, and "
            f"has {names}"
        )
    yield Cause(
        kind="mount-differs",
        what="all settings agree and the writer stored everything, but the reader finds nothing: "
        "one path, two directories",
        writer=f"{arrived(reading)}, in {paths[0]}",
        reader=f"{looked}, in {paths[1]}" if reading.seen is None else looked,
        change="compare the mounts behind the path: a pod without the shared volume writes to its "
        "own disk without a word, as LMCache makes a path that is not there",
    )


def _other_tokens(reading: Reading) -> Iterator[Cause]:
    if reading.read is not None and reading.hit and not reading.same_tokens:
        yield Cause(
            kind="other-tokens",
            what="the reader took every chunk from the cache and still answers differently",
            writer=f"token ids {list(reading.wrote.token_ids)}",
            reader=f"token ids {list(reading.read.token_ids)}",
            change="compare revision, --dtype, --quantization and --seed of the replicas, none of "
            "which is part of a key; if they agree, the files are damaged: delete them, and turn "
            "encryption on, which notices it",
        )


def _partly(reading: Reading) -> Iterator[Cause]:
    if reading.read is not None and not reading.hit and reading.external_hits:
        yield Cause(
            kind="partly",
            what="the reader took a part of the prompt from the cache only",
            writer=arrived(reading),
            reader=f"{reading.external_hits} of {reading.wanted_tokens} tokens; {found(reading)}",
            change="see whether L2 or the reader's L1 evicts: they may be too small for the prompt",
        )


_COUNTERS: Final[tuple[Rule, ...]] = (
    _seen_before,
    _hangs,
    _not_stored,
    _not_asked,
    _not_readable,
    _not_found,
    _other_tokens,
    _partly,
)


def _unknown(reading: Reading) -> Cause:
    return Cause(
        kind="unknown",
        what="none of the known causes fits",
        writer=arrived(reading),
        reader=f"{reading.external_hits} of {reading.wanted_tokens} tokens hit; {found(reading)}",
        change="read the logs of both LMCache servers for the minute of this run",
    )
