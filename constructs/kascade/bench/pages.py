"""Reads metrics pages: the counters that say how many prompt tokens each tier served."""

from __future__ import annotations

from dataclasses import dataclass

from kascade.programs.verify.metrics import parse


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
    """Read both pages of one replica; a counter that has not counted yet is not on its page."""
    vllm, lmcache = parse(vllm_page), parse(lmcache_page)
    return Counters(
        prompt=int(vllm.total("vllm:prompt_tokens_total")),
        generated=int(vllm.total("vllm:generation_tokens_total")),
        l0_hits=int(vllm.total("vllm:prefix_cache_hits_total")),
        external_hits=int(vllm.total("vllm:external_prefix_cache_hits_total")),
        l2_lookup_hits=int(lmcache.total("lmcache_mp_lookup_hit_l2_tokens_total")),
        preemptions=int(vllm.total("vllm:num_preemptions_total")),
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
    page, prefix = parse(lmcache_page), "lmcache_mp_l2_store"
    return Stores(
        submitted=int(page.total(f"{prefix}_submitted_objects_chunks_total")),
        completed=int(page.total(f"{prefix}_completed_objects_chunks_total")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class L0Size:
    """vLLM's own cache, as it tells on its page."""

    tokens: int
    block_size: int


def l0_size(vllm_page: str) -> L0Size | None:
    """Read it, or None where the page does not say."""
    page, name = parse(vllm_page), "vllm:cache_config_info"
    blocks, size = page.label(name, "num_gpu_blocks"), page.label(name, "block_size")
    if blocks is None or size is None or not (blocks.isdecimal() and size.isdecimal()):
        return None
    return L0Size(tokens=int(blocks) * int(size), block_size=int(size))
