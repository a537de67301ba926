"""The picture of two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kascade.bench.pictures import NAMES, new_figure, plain, save
from kascade.bench.verdicts import BETTER, NONE, OPEN, WORSE, Comparison

_COLOURS: Final = {BETTER: "#009e73", WORSE: "#d55e00", NONE: "#8c8c8c", OPEN: "#c8c8c8"}
_ROW_INCHES: Final = 0.26
_FRAME_INCHES: Final = 1.6
_FAR: Final = 3.0
"""Changes beyond 300 % are drawn at the edge; the table has the number."""


def draw_comparison(comparison: Comparison, path: Path) -> bool:
    """Draw every measure's change with its interval; say whether there was one."""
    rows = [row for row in comparison.rows if row.change is not None]
    if not rows:
        return False
    figure = new_figure(
        "Change from the first run to the second",
        f"First: {comparison.names[0]}. Second: {comparison.names[1]}. Lines are 95 % intervals.",
    )
    figure.set_size_inches(9.6, _FRAME_INCHES + _ROW_INCHES * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        colour = _COLOURS[row.verdict]
        change = min(row.change or 0.0, _FAR)
        if row.low is not None and row.high is not None:
            ends = [100 * min(row.low, _FAR), 100 * min(row.high, _FAR)]
            axes.plot(ends, [place, place], color=colour, linewidth=2)
        axes.plot(100 * change, place, "o", color=colour, markersize=6)
    for verdict, colour in _COLOURS.items():
        axes.plot([], [], "o", color=colour, label=verdict)
    labels = [f"{NAMES[row.phase]}: {row.measure} ({row.unit})" for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.axvline(0, color="#222222", linewidth=0.8)
    axes.set_xlabel("change (%): to the left is less")
    axes.grid(axis="x", color="#e5e5e5")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0))
    plain(axes)
    save(figure, path)
    return True
