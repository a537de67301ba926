"""Two runs side by side, with a verdict for each measure that says how sure it is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kascade.bench.measures import percentile
from kascade.bench.pictures import NAMES
from kascade.bench.result import LOAD

LEAST: Final = 0.03
"""A change below this is called none, however sure it is."""

UNSURE: Final = 0.05
"""Below this for a figure of which each run has one, such as a throughput."""

_RESAMPLES: Final = 500
_TAIL: Final = 2.5
"""Percent at either end of the resampled changes: an interval of 95 %."""

BETTER, WORSE, NONE, OPEN = "better", "worse", "no clear difference", "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure in both runs.

    Attributes:
        change: (second - first) / first, or None where that is not defined.
        low: Lower end of the change's 95 % interval, or None for a single figure a run.
        high: Its upper end.
        verdict: ``better``, ``worse``, ``no clear difference`` or ``no verdict``.
        why: A reason where there is no verdict.
    """

    phase: str
    measure: str
    unit: str
    first: float | None
    second: float | None
    change: float | None
    low: float | None
    high: float | None
    verdict: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rows of two runs, and what else differs between them."""

    names: tuple[str, str]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def compare(
    first: Mapping[str, Any], second: Mapping[str, Any], *, names: tuple[str, str]
) -> Comparison:
    """Compare two documents."""
    notes = list(_differences(first, second))
    same = first["workload"]["digest"] == second["workload"]["digest"]
    phases = {phase["name"]: phase for phase in second["phases"]}
    rows: list[Row] = []
    for one in first["phases"]:
        other = phases.get(one["name"])
        if other is None:
            notes.append(f"{NAMES[one['name']]} is in the first run only")
            continue
        why = "" if same else "the runs asked for different things"
        for phase, run in ((one, "first"), (other, "second")):
            if phase["flaw"]:
                why = f"not isolated in the {run} run: {phase['flaw']}"
        rows += _phase_rows(one, other, why)
    known = {phase["name"] for phase in first["phases"]}
    notes += [f"{NAMES[name]} is in the second run only" for name in phases if name not in known]
    if first["cost"] and second["cost"]:
        key = "usd_per_million_tokens"
        why = "" if same else "the runs asked for different things"
        rows.append(
            _single(
                LOAD,
                "cost of a million tokens",
                "USD",
                (first["cost"][key], second["cost"][key]),
                -1,
                why,
            )
        )
    return Comparison(names=names, rows=tuple(rows), notes=tuple(notes))


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    if first["workload"]["digest"] != second["workload"]["digest"]:
        yield "the workloads differ in lengths or moments, so no verdict is given"
    if first["measured_on"] != second["measured_on"]:
        yield f"hardware: {first['measured_on']} against {second['measured_on']}"
    if first["config"]["sha256"] != second["config"]["sha256"]:
        yield f"configuration: {first['config']['file']} and {second['config']['file']} differ"
    for name in sorted({*first["versions"], *second["versions"]}):
        one, other = first["versions"].get(name), second["versions"].get(name)
        if one != other:
            yield f"{name}: {one} against {other}"


def _phase_rows(one: Mapping[str, Any], other: Mapping[str, Any], why: str) -> Iterator[Row]:
    name = one["name"]
    wanted = [("TTFT", "ttft_seconds", percent) for percent in (50, 90)]
    if name == LOAD:
        wanted += [("TTFT", "ttft_seconds", 99), ("ITL", "itl_seconds", 50)]
        wanted += [("end to end", "e2e_seconds", percent) for percent in (50, 90)]
    for label, key, percent in wanted:
        values = [_values(phase, key) for phase in (one, other)]
        yield _latency(name, f"{label} p{percent}", values, percent, why)
    if name != LOAD:
        return
    for label, unit, key in (
        ("requests", "1/s", "requests_per_second"),
        ("output tokens", "1/s", "output_tokens_per_second"),
        ("goodput", "1/s", "goodput"),
    ):
        yield _single(name, label, unit, (one["summary"][key], other["summary"][key]), 1, why)
    yield _single(name, "prompt tokens computed", "%", (_computed(one), _computed(other)), -1, why)
    yield _single(name, "failed requests", "%", (_failed(one), _failed(other)), -1, why)


def _values(phase: Mapping[str, Any], key: str) -> list[float]:
    return [s[key] for s in phase["samples"] if s["error"] is None and s[key] is not None]


def _computed(phase: Mapping[str, Any]) -> float:
    parts = phase["served"]
    total = sum(parts.values())
    return round(100 * parts["computed"] / total, 3) if total else 0.0


def _failed(phase: Mapping[str, Any]) -> float:
    summary = phase["summary"]
    return round(100 * summary["failed"] / summary["requests"], 3) if summary["requests"] else 0.0


def _latency(
    phase: str, measure: str, values: Sequence[Sequence[float]], percent: float, why: str
) -> Row:
    """Judge by how far the percentile moves when the same requests are drawn again."""
    first, second = (percentile(run, percent) for run in values)
    change = low = high = None
    if first and second:
        change = second / first - 1
        draw = random.Random(f"{phase}/{measure}")  # noqa: S311  (the same verdict each time)
        changes = [
            (percentile(draw.choices(values[1], k=len(values[1])), percent) or 0.0)
            / (percentile(draw.choices(values[0], k=len(values[0])), percent) or 1.0)
            - 1
            for _ in range(_RESAMPLES)
        ]
        low, high = percentile(changes, _TAIL), percentile(changes, 100 - _TAIL)
    verdict = OPEN
    if not why and change is not None and low is not None and high is not None:
        clear = (low > 0 or high < 0) and abs(change) >= LEAST
        verdict = NONE if not clear else BETTER if change < 0 else WORSE
    elif not why:
        why = "one of the runs has no such value"
    return Row(
        phase=phase,
        measure=measure,
        unit="s",
        first=first,
        second=second,
        change=change,
        low=low,
        high=high,
        verdict=verdict,
        why=why,
    )


def _single(  # noqa: PLR0913, PLR0917  (one figure with its context)
    phase: str,
    measure: str,
    unit: str,
    pair: tuple[float | None, float | None],
    direction: int,
    why: str,
) -> Row:
    first, second = pair
    change = second / first - 1 if first and second is not None else None
    verdict = OPEN
    if first is None or second is None:
        why = why or "one of the runs has no such value"
    elif not why:
        moved = second - first
        small = abs(change) < UNSURE if change is not None else moved == 0
        verdict = NONE if small else BETTER if moved * direction > 0 else WORSE
    return Row(
        phase=phase,
        measure=measure,
        unit=unit,
        first=first,
        second=second,
        change=change,
        low=None,
        high=None,
        verdict=verdict,
        why=why,
    )
