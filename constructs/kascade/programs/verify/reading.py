"""What was measured while one replica computed a prompt and another one was asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .client import Answer
from .facts import Facts
from .metrics import Page
from .prompt import whole_chunks

STORE_SUBMITTED: Final = "lmcache_mp_l2_store_submitted_objects_chunks_total"
STORE_COMPLETED: Final = "lmcache_mp_l2_store_completed_objects_chunks_total"
LOOKED_UP: Final = "lmcache_mp_l2_prefetch_lookup_objects_chunks_total"
LOAD_SUBMITTED: Final = "lmcache_mp_l2_prefetch_load_submitted_objects_chunks_total"
LOAD_COMPLETED: Final = "lmcache_mp_l2_prefetch_load_completed_chunks_total"
PREFETCH_JOBS: Final = "lmcache_mp_active_prefetch_jobs"

PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
EXTERNAL_HITS: Final = "vllm:external_prefix_cache_hits_total"
LOCAL_HITS: Final = "vllm:prefix_cache_hits_total"


def delta(before: Page, after: Page, name: str) -> int:
    """Say by how much a counter rose; a server that was restarted meanwhile begins at 0 again."""
    first, last = before.total(name), after.total(name)
    return round(last - first if last >= first else last)


@dataclass(frozen=True, slots=True)
class Stored:
    """Chunks that the writer's LMCache server handed to L2, and those that arrived there."""

    submitted: int
    completed: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """Chunks that the reader's LMCache server looked for in L2, began to load, and loaded.

    ``jobs`` are prefetches still running when the counters were read.
    """

    looked_up: int
    begun: int
    loaded: int
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What one replica, or this program, sees in the directory of L2.

    Attributes:
        where: The directory, and who looked.
        tmp_dirs: Names of the servers' directories for unfinished files.
        chunks: Names of the finished files, or short forms of them.
    """

    where: str
    tmp_dirs: frozenset[str]
    chunks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """The directory as the reader sees it, before the writer stored and after."""

    before: Listing
    after: Listing

    @property
    def new_chunks(self) -> int:
        """Files that came while the writer stored, whatever an eviction took away meanwhile."""
        return len(self.after.chunks - self.before.chunks)


Look = Callable[[Facts], Listing | str]
"""Lists the directory as a replica sees it, or says in a sentence why it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One prompt, computed by the writer and then asked of the reader.

    Attributes:
        chunk_size: As planned.
        stored: None where the writer's LMCache server gave no answer.
        fetched: None where the reader's LMCache server gave no answer.
        seen: None where nobody can list the directory.
        wrote: The writer's answer.
        read: The reader's answer, or None when it gave none, for ``failure``.
        external_hits: Prompt tokens that the reader took from its connector.
        local_hits: Prompt tokens that were in the reader's GPU memory already.
        writer_hits: Prompt tokens that the writer did not compute but had cached anywhere.
        reader_tokens: Prompt tokens of all requests that the reader took meanwhile.
        writer_tokens: Likewise for the writer.
    """

    writer: Facts
    reader: Facts
    chunk_size: int
    stored: Stored | None
    fetched: Fetched | None
    seen: Seen | None
    wrote: Answer
    read: Answer | None
    failure: str = ""
    external_hits: int = 0
    local_hits: int = 0
    writer_hits: int = 0
    reader_tokens: int = 0
    writer_tokens: int = 0

    @property
    def chunks(self) -> int:
        """Whole chunks of the prompt."""
        return whole_chunks(self.wrote.prompt_tokens, self.chunk_size)

    @property
    def wanted_tokens(self) -> int:
        """Tokens of those chunks."""
        return self.chunks * self.chunk_size

    @property
    def hit(self) -> bool:
        """Whether the reader took every whole chunk from its connector."""
        return self.read is not None and self.external_hits >= self.wanted_tokens

    @property
    def seen_before(self) -> bool:
        """Whether the prompt was in a cache already, so that nothing can be said.

        With requests of others among them, the counters do not tell whose hits they are.
        """
        hits = [] if self.disturbed else [self.local_hits]
        if self.writer_tokens <= self.wrote.prompt_tokens:
            hits.append(self.writer_hits)
        return max(hits, default=0) >= self.chunk_size

    @property
    def same_tokens(self) -> bool:
        """Whether both answers consist of the same tokens."""
        return self.read is not None and self.read.token_ids == self.wrote.token_ids

    @property
    def disturbed(self) -> bool:
        """Whether the reader took requests of others, which moved the counters too."""
        return self.read is not None and self.reader_tokens > self.read.prompt_tokens
