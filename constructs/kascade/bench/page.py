"""One HTML page with everything in it: no script, no style sheet or picture from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from kascade.bench.measures import Spread
from kascade.bench.pictures import NAMES
from kascade.bench.result import LOAD, Phase, Result

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;margin:.5rem 0;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.25rem .7rem;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}td.text{text-align:left}
img{max-width:100%;height:auto;border:1px solid #eee}
.note{color:#555}.bad{color:#a40000;font-weight:600}.good{color:#00693e;font-weight:600}
"""


def page_text(result: Result, pictures: Sequence[tuple[str, bytes]]) -> str:
    """Return the page.

    Args:
        result: The run.
        pictures: File names and PNG bytes, in the order they are shown.
    """
    name = escape(str(result.workload["name"]))
    parts = [f"<h1>{escape(str(result.target['engine']))}: {name}</h1>"]
    parts.append(
        f"<p>Measured on <b>{escape(result.measured_on)}</b>, {escape(result.started)}.</p>"
    )
    parts += _verdict(result)
    parts += [picture(*pair) for pair in pictures]
    parts += ["<h2>Latency</h2>", _latencies(result.phases)]
    parts += ["<h2>Where prompt tokens came from</h2>", _served(result.phases)]
    parts.append(
        '<p class="note">Tokens, from the counters of vLLM and LMCache. Where L0 had part of what '
        "L2 was read for, L2 is an upper and L1 a lower bound.</p>"
    )
    parts += ["<h2>Throughput</h2>", _throughput(result)]
    parts += _cost(result)
    parts += ["<h2>How it was measured</h2>", _facts(result)]
    return html(f"{name} on {escape(result.measured_on)}", parts)


def html(title: str, parts: Iterable[str]) -> str:
    """Return a whole page around its parts; the title is escaped already."""
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def picture(name: str, data: bytes) -> str:
    """Return a picture that carries its own bytes."""
    text = base64.b64encode(data).decode()
    return f'<p><img alt="{escape(name)}" src="data:image/png;base64,{text}"></p>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are escaped here."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table><tr>{top}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _verdict(result: Result) -> list[str]:
    if result.sound and not result.skipped:
        return ['<p class="good">Every request was answered, and every tier phase by its tier.</p>']
    lines = []
    for phase in result.phases:
        name = NAMES[phase.name]
        if phase.summary.failed:
            reason = next(sample.error for sample in phase.samples if sample.error)
            lines.append(
                f"{name}: {phase.summary.failed} of {phase.summary.requests} requests failed, the "
                f"first with: {reason}"
            )
        if phase.flaw:
            lines.append(f"{name} did not measure what it is named after: {phase.flaw}")
    lines += [f"{NAMES[name]} was left out: {why}" for name, why in sorted(result.skipped.items())]
    return [f'<p class="bad">{escape(line)}</p>' for line in lines]


def _latencies(phases: Iterable[Phase]) -> str:
    def cells(phase: Phase, spread: Spread) -> list[str]:
        # A phase that is not what it is named after would lend its times to a tier.
        hidden = phase.flaw is not None and phase.name != LOAD
        return [
            "" if value is None or hidden else f"{1000 * value:,.0f}"
            for value in (spread.p50, spread.p90, spread.p99)
        ]

    head = ["phase", "requests", "failed"]
    head += [f"{what} p{p} ms" for what in ("TTFT", "ITL", "end") for p in (50, 90, 99)]
    rows = [
        [
            NAMES[phase.name] + (" (not isolated)" if phase.flaw else ""),
            str(phase.summary.requests),
            str(phase.summary.failed),
            *cells(phase, phase.summary.ttft),
            *cells(phase, phase.summary.itl),
            *cells(phase, phase.summary.e2e),
        ]
        for phase in phases
    ]
    return table(head, rows)


def _served(phases: Iterable[Phase]) -> str:
    rows = []
    for phase in phases:
        lines = [(NAMES[phase.name], phase.served)]
        lines += [(f"- {name}", part) for name, part in phase.by_replica.items() if part.total]
        for name, part in lines:
            values = (part.total, part.computed, part.l0, part.l1, part.l2)
            rows.append([name, *(f"{value:,}" for value in values)])
    return table(["phase", "prompt tokens", "computed", "L0", "L1", "L2"], rows)


def _throughput(result: Result) -> str:
    head = [
        "phase",
        "seconds",
        "requests/s",
        "input tokens/s",
        "output tokens/s",
        "good",
        "goodput/s",
    ]
    rows = [
        [
            NAMES[phase.name],
            f"{phase.summary.duration_seconds:,.1f}",
            f"{phase.summary.requests_per_second:,.2f}",
            f"{phase.summary.input_tokens_per_second:,.0f}",
            f"{phase.summary.output_tokens_per_second:,.1f}",
            f"{phase.summary.good} of {phase.summary.requests}",
            f"{phase.summary.goodput:,.2f}",
        ]
        for phase in result.phases
    ]
    goal = result.objective
    limits = [
        f"{name} at most {value:g} s"
        for name, value in (("TTFT", goal.ttft_seconds), ("mean ITL", goal.itl_seconds))
        if value is not None
    ]
    words = " and ".join(limits) or "any answer, since no objective was given"
    return table(head, rows) + f'<p class="note">Good: {escape(words)}.</p>'


def _cost(result: Result) -> list[str]:
    cost = result.cost
    if cost is None:
        return []
    none = "unknown" if cost.engine_usd_per_hour is None else "none flowed"
    rows = [
        [label, missing if value is None else f"{value:,.4g}"]
        for label, value, missing in (
            ("USD a million tokens, input and output", cost.usd_per_million_tokens, none),
            ("USD a million output tokens", cost.usd_per_million_output_tokens, none),
            ("USD/h, the measured replicas", cost.engine_usd_per_hour, "unknown"),
            ("USD/h, the whole deployment as planned", cost.deployment_usd_per_hour, "unknown"),
        )
    ]
    parts = ["<h2>Cost</h2>", table(["what", "value"], rows)]
    parts.append(f'<p class="note">Price: {escape(cost.price)}.</p>')
    if cost.caveat:
        parts.append(f'<p class="bad">Take care: {escape(cost.caveat)}.</p>')
    return parts


def _facts(result: Result) -> str:
    facts: list[tuple[str, object]] = [
        ("configuration", f"{result.config['file']}, SHA-256 {result.config['sha256']}"),
        ("model", result.target["model"]),
        ("replicas", ", ".join(str(name) for name in _list(result.target["replicas"]))),
        ("versions", ", ".join(f"{k} {v}" for k, v in sorted(result.versions.items()))),
    ]
    facts += [(f"phase {NAMES[phase.name]}", phase.how) for phase in result.phases]
    facts += [
        (f"workload: {key.replace('_', ' ')}", value)
        for key, value in sorted(result.workload.items())
        if key != "notes" and value not in (None, {})
    ]
    facts += [("note", note) for note in _list(result.workload["notes"])]
    return table(["fact", "value"], [[name, str(value)] for name, value in facts]).replace(
        "<td>", '<td class="text">'
    )


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
