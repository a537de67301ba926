"""The pictures of a run, as PNG: equal results give equal bytes with one release of matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kascade.bench.measures import percentile
from kascade.bench.result import LOAD, Phase, Result
from kascade.bench.tiers import Served

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS: Final = {"computed": "#8c8c8c", "l0": "#0072b2", "l1": "#e69f00", "l2": "#009e73"}
LABELS: Final = {
    "computed": "computed",
    "l0": "L0, engine memory",
    "l1": "L1, host RAM",
    "l2": "L2, shared pool",
}
NAMES: Final = {"cold": "cold", "l0": "L0", "l1": "L1", "l2": "L2", LOAD: "load"}
SIZE_INCHES: Final = (9.6, 4.2)
_DPI: Final = 125
"""1200 pixels wide, which stays sharp in the 900 of a README."""

_MS: Final = 1000
_SPREAD: Final = 0.28
_LEAST_ROWS: Final = 4
"""Room for so many bars, so that two are no thicker than four."""


def draw_tiers(result: Result, path: Path) -> bool:
    """Draw the tier phases; say whether there was anything to draw."""
    phases = [phase for phase in result.phases if phase.name != LOAD and phase.samples]
    if not phases:
        return False
    figure = new_figure(
        "Time to first token by where the prefix came from",
        f"Measured on {result.measured_on}. {_prompts(phases)}, one at a time.",
    )
    times, shares = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_times(times, phases)
    draw_shares(shares, {NAMES[phase.name]: phase.served for phase in phases})
    save(figure, path)
    return True


def draw_load(result: Result, path: Path) -> bool:
    """Draw the load phase; say whether there was one."""
    load = next((p for p in result.phases if p.name == LOAD and p.summary.ttft.count), None)
    if load is None:
        return False
    rate = load.summary.requests / load.summary.duration_seconds
    figure = new_figure(
        f"Workload {result.workload['name']}: latency under load, and which tier answered",
        f"Measured on {result.measured_on}. {load.summary.requests} requests, {rate:.2g} a second, "
        f"to {load.where}; {load.summary.failed} failed.",
    )
    curves, shares = figure.subplots(1, 2, width_ratios=(3, 2))
    answered = [sample for sample in load.samples if sample.error is None]
    _curve(curves, [s.ttft_seconds or 0.0 for s in answered], "first token", "#0072b2")
    _curve(curves, [s.e2e_seconds or 0.0 for s in answered], "whole answer", "#d55e00")
    limit = result.objective.ttft_seconds
    if limit is not None:
        curves.axvline(limit, color="#555555", linestyle=":", linewidth=1.2)
        curves.annotate(
            f"objective {limit:g} s",
            (limit, 50),
            xytext=(-3, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="center",
            fontsize=8,
            color="#555555",
        )
    curves.set_xlabel("seconds from sending")
    curves.set_ylabel("requests that were answered by then (%)")
    curves.set_xlim(left=0)
    curves.set_ylim(0, 101)
    curves.grid(color="#e5e5e5")
    curves.legend(frameon=False, fontsize=8, loc="lower right")
    draw_shares(shares, load.by_replica)
    save(figure, path)
    return True


def new_figure(title: str, subtitle: str) -> Figure:
    """Return an empty figure that tells what was measured and on what."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  (slow, an extra)
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    engine = ConstrainedLayoutEngine(rect=(0, 0, 1, 0.93))
    figure = Figure(figsize=SIZE_INCHES, layout=engine)
    FigureCanvasAgg(figure)
    small = "\n".join(textwrap.wrap(subtitle, 148))
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    figure.text(0.01, 0.925, small, fontsize=8.5, color="#444444", va="top")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure without the date and release that would change its bytes."""
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})


def _prompts(phases: Sequence[Phase]) -> str:
    lengths = [s.input_tokens for phase in phases for s in phase.samples if s.input_tokens]
    count = len(phases[0].samples)
    if not lengths:
        return f"{count} prompts"
    low, high = min(lengths), max(lengths)
    tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{count} prompts of {tokens} tokens"


def _draw_times(axes: Axes, phases: Sequence[Phase]) -> None:
    top = 0.0
    for place, phase in enumerate(phases):
        values = [_MS * s.ttft_seconds for s in phase.samples if s.ttft_seconds is not None]
        if not values:
            continue
        colour = COLOURS["computed" if phase.name == "cold" else phase.name]
        flawed = phase.flaw is not None
        middle = percentile(values, 50) or 0.0
        axes.bar(
            place,
            middle,
            width=0.62,
            color="white" if flawed else colour,
            edgecolor=colour,
            hatch="///" if flawed else None,
            alpha=0.85,
        )
        step = 2 * _SPREAD / max(1, len(values) - 1)
        across = [place - _SPREAD + number * step for number in range(len(values))]
        axes.plot(across, values, "o", color="#222222", markersize=3, alpha=0.7)
        label = "not isolated" if flawed else f"{_whole(middle)} ms"
        highest = max(values)
        axes.annotate(
            label,
            (place, max(middle, highest)),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            fontweight="bold",
        )
        top = max(top, highest)
    axes.set_xticks(range(len(phases)), [f"{NAMES[p.name]}\n{p.where}" for p in phases])
    axes.set_ylabel("time to first token (ms): median, and each request")
    axes.set_ylim(0, top * 1.15 or 1)
    axes.grid(axis="y", color="#e5e5e5")
    plain(axes)


def draw_shares(axes: Axes, rows: Mapping[str, Served]) -> None:
    """Draw one bar for each row: its prompt tokens by the tier they came from."""
    names = list(rows)
    for part, colour in COLOURS.items():
        lefts = [
            sum(100 * row.share(p) for p in list(COLOURS)[: list(COLOURS).index(part)])
            for row in rows.values()
        ]
        widths = [100 * row.share(part) for row in rows.values()]
        axes.barh(names, widths, left=lefts, color=colour, label=LABELS[part], height=0.55)
        for place, (left, width) in enumerate(zip(lefts, widths, strict=True)):
            if width >= 9:  # noqa: PLR2004  (narrower has no room for the number)
                axes.text(
                    left + width / 2,
                    place,
                    f"{width:.0f}",
                    ha="center",
                    va="center",
                    color="white",
                    fontsize=8,
                )
    axes.set_ylim(max(len(names), _LEAST_ROWS) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("prompt tokens by the tier that served them (%)")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0))
    plain(axes)


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"  # noqa: PLR2004  (two digits)


def _curve(axes: Axes, values: Iterable[float], label: str, colour: str) -> None:
    ordered = sorted(values)
    heights = [100 * (place + 1) / len(ordered) for place in range(len(ordered))]
    middle, tail = percentile(ordered, 50), percentile(ordered, 99)
    axes.step(
        ordered,
        heights,
        where="post",
        color=colour,
        linewidth=1.8,
        label=f"{label}: p50 {middle:.3g} s, p99 {tail:.3g} s",
    )
    plain(axes)


def plain(axes: Axes) -> None:
    """Take away the lines that carry nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5)
