"""Chunks and the shared tier."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.catalog.hyperpod import MIN_TIERED_PERCENTAGE
from kascade.config.blocks import (
    CurvineConfig,
    DirectoryConfig,
)
from kascade.errors import Problem
from kascade.rules.context import Context

MIN_WATER_GAP = 0.01
"""Between the janitor's marks; with less it would delete a file or two at a time."""


def managed_without_ram(context: Context) -> Iterator[Problem]:
    """Say where HyperPod's tier has no RAM."""
    config = context.config
    if config.cache.l2.kind == "managed" and config.hyperpod.tiered_storage_percentage is None:
        yield Problem(
            path=("hyperpod", "tiered_storage_percentage"),
            code="managed-l2-percentage",
            message="cache.l2 is managed, which is kept in the RAM that this field lends; give "
            f"{MIN_TIERED_PERCENTAGE} to 100, or choose another kind of L2",
            also_reads=(("cache", "l2"),),
        )


def chunks(context: Context) -> Iterator[Problem]:
    """Say where a chunk is no multiple of a block."""
    config = context.config
    cache = config.cache
    if cache.chunk_size % cache.block_size:
        yield Problem(
            path=("cache", "chunk_size"),
            code="chunk-of-blocks",
            message=f"got {cache.chunk_size}; it must be a multiple of the block size "
            f"({cache.block_size}), or vLLM refuses to start",
            also_reads=(("cache", "block_size"),),
        )


def water_marks(context: Context) -> Iterator[Problem]:
    """Say where the janitor's marks are too near each other."""
    config = context.config
    cache = config.cache
    janitor = cache.l2.janitor if isinstance(cache.l2, CurvineConfig | DirectoryConfig) else None
    if janitor is not None and janitor.high_water - janitor.low_water < MIN_WATER_GAP - 1e-9:
        lower = round(janitor.high_water - 0.1, 3)
        # Neither may be below a tenth.
        change = f"low_water to {lower}" if lower >= 0.1 else "high_water to 0.9"  # noqa: PLR2004
        yield Problem(
            path=("cache", "l2", "janitor", "low_water"),
            code="water-marks",
            message=f"got {janitor.low_water}, which is not {MIN_WATER_GAP} or more below "
            f"high_water ({janitor.high_water}): the janitor deletes from the one down to the "
            f"other. Set cache.l2.janitor.{change}",
            also_reads=(("cache", "l2", "janitor", "high_water"),),
        )


def masters(context: Context) -> Iterator[Problem]:
    """Say where masters have too few nodes."""
    config = context.config
    cache = config.cache
    system = config.kubernetes.system_group
    if cache.l2.kind == "curvine" and cache.l2.masters > system.count:
        most = cache.l2.masters
        higher = f" and set kubernetes.system_group.max_count to {most}"
        higher = higher if most > system.max_count else ""
        yield Problem(
            path=("cache", "l2", "masters"),
            code="masters-on-system-nodes",
            message=f"got {cache.l2.masters}, each on a system node of its own, but there are "
            f"{system.count}. Set kubernetes.system_group.count to {cache.l2.masters}{higher}",
            also_reads=(("kubernetes", "system_group", "count"),),
        )
