"""Reads metrics pages: the counters that say how many prompt tokens each tier served."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(page: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield name, labels and value of every sample of a page in Prometheus' text format.

    >>> list(samples('a_total{b="c"} 2.0'))
    [('a_total', {'b': 'c'}, 2.0)]
    """
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line.strip())
        if match is None:
            continue
        name, labels, value = match.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        yield name, dict(_LABEL.findall(labels or "")), number


def total(page: str, name: str) -> float:
    """Return the sum over all series of a name; 0 when there is none, as before a first event."""
    return sum(value for found, _, value in samples(page) if found == name)


def label(page: str, name: str, wanted: str) -> str | None:
    """Return the value of a label of the first series of that name, or None."""
    for found, labels, _ in samples(page):
        if found == name and wanted in labels:
            return labels[wanted]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Token counters of one replica.

    Attributes:
        prompt: Prompt tokens that were asked for.
        generated: Tokens that were answered.
        l0_hits: vLLM found in its own memory.
        external_hits: vLLM loaded from its connector, which is L1 and L2 together.
        l2_lookup_hits: LMCache found in L2; counts tokens that L0 had as well.
        preemptions: Requests that vLLM had to take back.
    """

    prompt: int = 0
    generated: int = 0
    l0_hits: int = 0
    external_hits: int = 0
    l2_lookup_hits: int = 0
    preemptions: int = 0

    def since(self, before: Counters) -> Counters:
        """Return what was added since.

        Raises:
            ValueError: A counter went down, so the process behind it was replaced.
        """
        values = {
            name: getattr(self, name) - getattr(before, name) for name in self.__dataclass_fields__
        }
        if fallen := sorted(name for name, value in values.items() if value < 0):
            msg = f"counters went down ({', '.join(fallen)}): an engine or cache was restarted"
            raise ValueError(msg)
        return Counters(**values)


def counters(vllm_page: str, lmcache_page: str) -> Counters:
    """Read both pages of one replica."""
    return Counters(
        prompt=int(total(vllm_page, "vllm:prompt_tokens_total")),
        generated=int(total(vllm_page, "vllm:generation_tokens_total")),
        l0_hits=int(total(vllm_page, "vllm:prefix_cache_hits_total")),
        external_hits=int(total(vllm_page, "vllm:external_prefix_cache_hits_total")),
        l2_lookup_hits=int(total(lmcache_page, "lmcache_mp_lookup_hit_l2_tokens_total")),
        preemptions=int(total(vllm_page, "vllm:num_preemptions_total")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """How far the stores into L2 are, in chunks."""

    submitted: int
    completed: int

    @property
    def settled(self) -> bool:
        """True when nothing is on its way."""
        return self.completed >= self.submitted


def stores(lmcache_page: str) -> Stores:
    """Read them from an LMCache page."""
    prefix = "lmcache_mp_l2_store"
    return Stores(
        submitted=int(total(lmcache_page, f"{prefix}_submitted_objects_chunks_total")),
        completed=int(total(lmcache_page, f"{prefix}_completed_objects_chunks_total")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class L0Size:
    """vLLM's own cache, as it tells on its page."""

    tokens: int
    block_size: int


def l0_size(vllm_page: str) -> L0Size | None:
    """Read it, or None where the page does not say."""
    name = "vllm:cache_config_info"
    blocks, size = label(vllm_page, name, "num_gpu_blocks"), label(vllm_page, name, "block_size")
    if blocks is None or size is None or not (blocks.isdecimal() and size.isdecimal()):
        return None
    return L0Size(tokens=int(blocks) * int(size), block_size=int(size))
