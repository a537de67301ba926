"""Whether the tiers of one engine help each other, and what a hit in another zone costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kascade.errors import ConfigPath, Problem, Remedy
from kascade.plan import HOME_ZONES, EngineFigures, EnginePlan, Figure
from kascade.sizing.draft import Draft, Group
from kascade.sizing.inputs import EngineInput
from kascade.sizing.remedies import setting, settings
from kascade.units import GB, GIB

SLOW_L1_GIB: Final = 900
"""From here on an L1 was reported to evict so slowly that stores wait for it (LMCache#418, with
800 GB); where between the two it begins is an assumption."""

CROSS_ZONE_USD_PER_GB: Final = 2 * 0.01
"""AWS bills traffic between zones of a region 0.01 USD/GB to the sender and to the receiver. The
list price of us-east-1, from memory: assumed."""

HIT_TOKENS: Final = 2048
HITS: Final = 1000
"""Of these many hits of that length the cost is given."""

_CAPACITY: Final[ConfigPath] = ("cache", "l1", "capacity_gib")


def warn_of_tiers(given: EngineInput, figures: EngineFigures, *, longest: int, l1_gib: int) -> None:
    """Note tiers that are too small to help the one above, or too large to work well."""
    l0, l1, l2 = (int(f.value) for f in (figures.l0_tokens, figures.l1_tokens, figures.l2_tokens))
    stored, name = int(figures.stored_per_token.value), given.model.name
    if l1 < longest:
        _warn(
            given,
            _CAPACITY,
            f"L1 of {name} holds {l1:,} tokens, fewer than its longest request of {longest:,}: of "
            "such a prompt the end drives out the beginning, and the next request finds none of it",
            (_l1_of(longest, stored), given.set("max_model_len", l1)),
            "l1-longest-request",
        )
    if l1 + l2 < l0:
        with_l2 = f" and L2 {l2:,}" if l2 else ""
        _warn(
            given,
            _CAPACITY,
            f"L1 of {name} holds {l1:,} tokens{with_l2} a replica, together less than the "
            f"{l0:,} of L0: what the GPU lets go of is mostly gone below it, too",
            (_l1_of(l0 - l2, stored),),
            "tiers-below-l0",
        )
    if l1_gib >= SLOW_L1_GIB:
        _warn(
            given,
            _CAPACITY,
            f"L1 of {name} is {l1_gib:,} GiB; LMCache evicts slowly from one of 800 GB and more "
            "(LMCache#418), so stores may wait once it is full",
            (setting(_CAPACITY, SLOW_L1_GIB - 100),),
            "l1-slow",
        )


def _l1_of(tokens: int, stored: int) -> Remedy:
    return setting(_CAPACITY, -(-tokens * stored // GIB) + 1)


def _warn(
    given: EngineInput,
    path: ConfigPath,
    message: str,
    remedies: Sequence[Remedy],
    code: str,
) -> None:
    families = tuple((remedy,) for remedy in remedies)
    # One code an engine: what cures one of them need not cure the other.
    found = Problem(
        path=path, message=message, remedies=families, code=f"{code}-{given.model.name}"
    )
    given.warnings.append(found)


def zones_of_l2(draft: Draft, groups: Mapping[str, Group]) -> tuple[str, ...]:
    """Return the zones that a pool's nodes stand in; none for another kind of L2."""
    if draft.config.cache.l2.kind not in {"curvine", "managed"}:
        return ()
    found: set[str] = set()
    for group in groups.values():
        if group.config.count:
            zone = group.config.zone
            found.update(draft.config.zones[:HOME_ZONES] if zone is None else (zone,))
    return tuple(sorted(found))


def cross_zone_hits(
    zones: Sequence[str], *, stored: int, prefill: float, usd: float | None
) -> Figure | None:
    """Say what hits cost whose blocks lie in another zone; None where all lie in one.

    Args:
        zones: Where the pool's nodes stand.
        stored: Bytes of a token.
        prefill: Tokens that a replica computes in a second.
        usd: What a replica costs in an hour, or None.
    """
    if len(zones) < 2:  # noqa: PLR2004
        return None
    cost = HITS * HIT_TOKENS * stored / GB * CROSS_ZONE_USD_PER_GB
    saved = "unknown" if usd is None else f"{saved_usd(prefill, usd):,.2f} USD"
    return Figure(
        value=round(cost, 2),
        unit=f"USD/{HITS:,} hits",
        reason=f"{HIT_TOKENS:,} tokens each, {stored:,} bytes a token, moved from another zone at "
        f"0.01 USD/GB each way (AWS's list price, assumed); to compute them takes {saved} of GPU "
        f"time. The pool stands in {', '.join(zones)}: 1 - 1/{len(zones)} of what is read crosses",
    )


def saved_usd(prefill: float, usd: float) -> float:
    """USD of GPU time that computing the same tokens takes."""
    return HITS * HIT_TOKENS / prefill * usd / 3600


def advise_on_zones(
    draft: Draft, groups: Mapping[str, Group], engines: Sequence[EnginePlan]
) -> None:
    """Warn once where a hit in another zone costs more than it saves."""
    dear = []
    for engine in engines:
        figures = engine.figures
        cost, usd = figures.cross_zone_hits, figures.usd_per_hour.value
        if cost is not None and usd is not None:
            saved = saved_usd(figures.prefill_rate.value, usd)
            if cost.value > saved:
                dear.append((cost.value / saved, cost.value, saved, engine.name))
    # Those of an existing cluster are where they are.
    if not dear or draft.config.hyperpod.existing is not None:
        return
    times, cost_usd, saved, name = max(dear)
    zones = zones_of_l2(draft, groups)
    loose: list[ConfigPath] = [
        ("instance_groups", group.index, "zone")
        for group in groups.values()
        if group.config.zone is None and group.config.count
    ]
    draft.warnings.append(
        Problem(
            path=("instance_groups",),
            message=f"L2's nodes stand in {' and '.join(zones)}: {HITS:,} hits of {HIT_TOKENS:,} "
            f"tokens of {name} that cross them cost {cost_usd:,.2f} USD at 0.01 USD/GB each way, "
            f"{times:,.1f} times the {saved:,.2f} USD of GPU time they save. All in one zone cost "
            "nothing, and go with it; a group that is deployed keeps its zone (docs/groups.md)",
            remedies=(tuple(settings(dict.fromkeys(loose, zone)) for zone in zones),)
            if loose
            else (),
            code="l2-across-zones",
        )
    )
