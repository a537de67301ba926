"""Which tier served how many prompt tokens, and whether a phase measured the tier it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from kascade.bench.pages import Counters

PHASES: Final = ("cold", "l0", "l1", "l2")

_CLEAN: Final = 0.95
"""Part of what a tier could serve at best that it must have served to bear a phase's name."""

_STRAY: Final = 0.05
"""Part of the prompt tokens that may come from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Prompt tokens by where their KV came from; together they are all prompt tokens.

    Attributes:
        computed: The engine computed them.
        l0: Its own memory had them.
        l1: LMCache's host memory had them. A lower bound, as ``l2`` is an upper one: where L0 had
            a part of what L2 was read for, the counters cannot say more.
        l2: The shared pool had them.
    """

    computed: int
    l0: int
    l1: int
    l2: int

    def __add__(self, other: Served) -> Served:
        return Served(
            computed=self.computed + other.computed,
            l0=self.l0 + other.l0,
            l1=self.l1 + other.l1,
            l2=self.l2 + other.l2,
        )

    @property
    def total(self) -> int:
        """All prompt tokens."""
        return self.computed + self.l0 + self.l1 + self.l2

    def share(self, part: str) -> float:
        """Return a part's share of all; 0 when nothing was asked."""
        tokens: int = asdict(self)[part]
        return tokens / self.total if self.total else 0.0


def served(counted: Counters) -> Served:
    """Split the prompt tokens of an interval.

    LMCache's own counters include tokens that L0 served as well, so vLLM's bound them: what came
    through the connector is what L1 and L2 served together, and L2 served no more than that.

    >>> served(Counters(prompt=6000, external_hits=5888, l2_lookup_hits=5888)).l2
    5888
    >>> served(Counters(prompt=6000, l0_hits=5888, l2_lookup_hits=5888))
    Served(computed=112, l0=5888, l1=0, l2=0)
    """
    l2 = min(counted.l2_lookup_hits, counted.external_hits)
    cached = counted.l0_hits + counted.external_hits
    return Served(
        computed=max(counted.prompt - cached, 0),
        l0=counted.l0_hits,
        l1=counted.external_hits - l2,
        l2=l2,
    )


def at_best(prompts: Sequence[int], granule_tokens: int) -> int:
    """Return how many tokens of such prompts a tier can serve that keeps whole granules.

    The last token is always computed, since it yields the first of the answer.

    >>> at_best([6000, 512], 256)
    6144
    """
    return sum((length - 1) // granule_tokens * granule_tokens for length in prompts)


def verdict(
    phase: str, tokens: Served, prompts: Sequence[int], *, chunk_size: int, block_size: int
) -> str | None:
    """Say why a phase did not measure what it is named after, or None where it did.

    Args:
        phase: One of ``PHASES``.
        tokens: What was served during it.
        prompts: Lengths of its prompts, in tokens.
        chunk_size: Granule of L1 and L2, in tokens.
        block_size: Granule of L0, in tokens.
    """
    if not tokens.total:
        return "the engine counted no prompt token"
    if tokens.total != sum(prompts):
        return (
            f"the engine counted {tokens.total:,} prompt tokens, the requests had "
            f"{sum(prompts):,}: something else used it meanwhile, or requests failed"
        )
    strays = {part: tokens.share(part) for part in ("l0", "l1", "l2") if part != phase}
    if any(share > _STRAY for share in strays.values()):
        words = " and ".join(f"{p.upper()} {s:.0%}" for p, s in strays.items() if s > _STRAY)
        return f"other tiers served part of the prompt tokens: {words}"
    return None if phase == "cold" else _too_few(phase, tokens, prompts, chunk_size, block_size)


def _too_few(
    phase: str, tokens: Served, prompts: Sequence[int], chunk_size: int, block_size: int
) -> str | None:
    best = at_best(prompts, block_size if phase == "l0" else chunk_size)
    own: int = asdict(tokens)[phase]
    if not best:
        return f"the prompts are shorter than what {phase.upper()} keeps"
    if own < _CLEAN * best:
        return f"{phase.upper()} served {own:,} prompt tokens of {best:,} that it could have"
    return None
