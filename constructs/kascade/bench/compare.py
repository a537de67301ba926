"""Writes a comparison of two runs: lines for a terminal, a picture and a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from kascade.bench.page import html, picture, table
from kascade.bench.pictures import NAMES
from kascade.bench.pictures_compare import draw_comparison
from kascade.bench.verdicts import LEAST, UNSURE, Comparison, Row


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison in lines for a terminal."""
    yield f"{comparison.names[0]} against {comparison.names[1]}"
    for note in comparison.notes:
        yield f"  note: {note}"
    for row in comparison.rows:
        yield (
            f"  {NAMES[row.phase]:5}"
            + "  ".join(
                cell.ljust(width)
                for cell, width in zip(_cells(row)[1:], (26, 12, 12, 26, 20), strict=True)
            ).rstrip()
        )


def _cells(row: Row) -> list[str]:
    scale, unit = (1000, "ms") if row.unit == "s" else (1, row.unit)

    def value(number: float | None) -> str:
        if number is None:
            return "none"
        size = scale * number
        return f"{size:,.0f} {unit}" if abs(size) >= 1000 else f"{size:.4g} {unit}"  # noqa: PLR2004

    change = "" if row.change is None else f"{row.change:+.0%}"
    if row.low is not None and row.high is not None:
        change += f" ({row.low:+.0%} to {row.high:+.0%})"
    verdict = f"{row.verdict}: {row.why}" if row.why else row.verdict
    return [NAMES[row.phase], row.measure, value(row.first), value(row.second), change, verdict]


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write the picture and a page."""
    parts = [f"<h1>{escape(comparison.names[0])} against {escape(comparison.names[1])}</h1>"]
    parts += [f'<p class="note">{escape(note)}</p>' for note in comparison.notes]
    if draw_comparison(comparison, folder / "compare.png"):
        parts.append(picture("compare.png", (folder / "compare.png").read_bytes()))
    head = ["phase", "measure", "first", "second", "change (95 % interval)", "verdict"]
    parts.append(table(head, [_cells(row) for row in comparison.rows]))
    words = (
        "A latency is called better or worse where the interval, from drawing the requests again, "
        f"leaves out zero and the change is {LEAST:.0%} or more. A figure of which each run has "
        f"one needs {UNSURE:.0%}. Neither knows how much runs of one day differ from those of "
        "another: repeat what matters."
    )
    parts.append(f'<p class="note">{words}</p>')
    text = html("Two runs compared", parts)
    (folder / "compare.html").write_text(text, encoding="utf-8")
