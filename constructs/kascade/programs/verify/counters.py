"""Counters of engines and caches, and waiting until they have ended moving."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from .client import UnreachableError, get_text
from .metrics import Page, parse
from .reading import (
    LOAD_COMPLETED,
    LOAD_SUBMITTED,
    LOOKED_UP,
    PREFETCH_JOBS,
    PROMPT_TOKENS,
    STORE_COMPLETED,
    STORE_SUBMITTED,
    Fetched,
    Stored,
    delta,
)
from .target import Replica

SETTLE_SECONDS: Final = 10.0
"""For vLLM's counters after an answer, and for what a warm-up stores."""

_POLL_SECONDS: Final = 0.25
_STEADY_SECONDS: Final = 1.0
"""Counters that did not move for this long have ended moving: LMCache stores a prompt at once."""

_REPORT_SECONDS: Final = 5.0


def await_stored(
    replica: Replica,
    before: Page | None,
    chunks: int,
    *,
    seconds: float,
    say: Callable[[str], None],
) -> Stored | None:
    """Wait until an LMCache server has stored what it was given, or the time is over.

    Args:
        replica: The replica.
        before: Its counters before the request, or None to count from its start.
        chunks: Fewest chunks that must have been handed to L2.
        seconds: Deadline.
        say: Tells a waiting person how far it is.

    Returns:
        What the counters say at the end; None where the server gives no answer.
    """
    deadline = time.monotonic() + seconds
    moved = time.monotonic()
    last: Stored | None = None
    told = moved
    while True:
        page = cache_page(replica)
        if page is None:
            return None
        start = before or Page(())
        stored = Stored(delta(start, page, STORE_SUBMITTED), delta(start, page, STORE_COMPLETED))
        now = time.monotonic()
        if stored != last:
            last, moved = stored, now
        done = stored.submitted >= chunks and stored.completed >= stored.submitted
        if (done and now - moved >= _STEADY_SECONDS) or now >= deadline:
            return stored
        if now - told >= _REPORT_SECONDS:
            told = now
            say(
                f"{replica.name} has stored {stored.completed} of "
                f"{max(chunks, stored.submitted)} chunks, {deadline - now:.0f} s left"
            )
        time.sleep(_POLL_SECONDS)


def engine_page(replica: Replica) -> Page:
    """Read vLLM's counters."""
    return parse(get_text(f"{replica.engine_url}/metrics"))


def settled_pages(
    replicas: Sequence[Replica], before: Mapping[str, Page], tokens: int
) -> dict[str, Page]:
    """Read vLLM's counters once those of one replica include a request of so many tokens.

    Args:
        replicas: Whom to read.
        before: Their counters before the request, by name.
        tokens: Prompt tokens of the request.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        pages = {replica.name: engine_page(replica) for replica in replicas}
        moved = (delta(before[name], page, PROMPT_TOKENS) for name, page in pages.items())
        if max(moved) >= tokens or time.monotonic() > deadline:
            return pages
        time.sleep(_POLL_SECONDS)


def cache_page(replica: Replica) -> Page | None:
    """Read LMCache's counters, or None where the server gives no answer."""
    try:
        return parse(get_text(f"{replica.lmcache_url}/metrics"))
    except UnreachableError:
        return None


def fetched(before: Page | None, after: Page | None) -> Fetched | None:
    """Say what an LMCache server did in L2 meanwhile; None where it gave no answer."""
    if before is None or after is None:
        return None
    return Fetched(
        looked_up=delta(before, after, LOOKED_UP),
        begun=delta(before, after, LOAD_SUBMITTED),
        loaded=delta(before, after, LOAD_COMPLETED),
        jobs=round(after.total(PREFETCH_JOBS)),
    )
