"""Writes a result for people and programs: JSON, CSV, pictures, one page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kascade.bench.document import CSV_NAME, JSON_NAME, csv_text, json_text
from kascade.bench.measures import Spread
from kascade.bench.page import page_text
from kascade.bench.pictures import NAMES, draw_load, draw_tiers
from kascade.bench.result import LOAD, Phase, Result


def write_report(result: Result, folder: Path) -> None:
    """Write every file of a run into a folder."""
    (folder / JSON_NAME).write_text(json_text(result), encoding="utf-8")
    (folder / CSV_NAME).write_text(csv_text(result), encoding="utf-8")
    pictures = []
    for name, draw in (("tiers.png", draw_tiers), ("load.png", draw_load)):
        if draw(result, folder / name):
            pictures.append((name, (folder / name).read_bytes()))
    (folder / "report.html").write_text(page_text(result, pictures), encoding="utf-8")


def summary_lines(result: Result) -> Iterator[str]:
    """Yield the run in lines for a terminal."""
    yield f"measured on {result.measured_on}"
    for phase in result.phases:
        yield _line(phase)
        if phase.summary.failed:
            reason = next(s.error for s in phase.samples if s.error)
            yield f"      {phase.summary.failed} failed, the first: {reason}"
    for name, reason in sorted(result.skipped.items()):
        yield f"{NAMES[name]:4}  left out: {reason}"
    if result.cost is not None and result.cost.engine_usd_per_hour is None:
        yield f"cost  unknown: {result.cost.price}"
    elif result.cost is not None and result.cost.usd_per_million_tokens is not None:
        cost = result.cost
        yield (
            f"cost  {cost.usd_per_million_tokens:.4g} USD a million tokens in and out, at "
            f"{cost.engine_usd_per_hour:.4g} USD/h"
        )
        if cost.caveat:
            yield f"      {cost.caveat}"


def _line(phase: Phase) -> str:
    name, summary, tokens = NAMES[phase.name], phase.summary, phase.served
    if phase.flaw and phase.name != LOAD:
        # Its times would be taken for those of the tier.
        return f"{name:4}  not isolated: {phase.flaw}"
    parts = [f"{name:4}  TTFT {spread_text(summary.ttft)}"]
    if phase.name == LOAD:
        parts.append(f"ITL {spread_text(summary.itl)}")
        parts.append(f"{summary.requests_per_second:.2f} requests/s")
        parts.append(f"goodput {summary.goodput:.2f}/s")
    shares = " ".join(f"{part.upper()} {tokens.share(part):.0%}" for part in ("l0", "l1", "l2"))
    return ", ".join(
        [*parts, f"served by {shares}" if tokens.total else f"by which tier: {phase.flaw}"]
    )


def spread_text(spread: Spread) -> str:
    """Write p50/p90/p99 in milliseconds.

    >>> spread_text(Spread.of([0.1]))
    '100/100/100 ms'
    """
    if spread.p50 is None or spread.p90 is None or spread.p99 is None:
        return "none"
    return "/".join(f"{1000 * value:.0f}" for value in (spread.p50, spread.p90, spread.p99)) + " ms"
