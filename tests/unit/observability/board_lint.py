"""What can be wrong with a dashboard without anyone noticing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser

from kascade.observability.metrics import INVENTORY, Kind, exposed_names

COLUMNS = 24
KINDS: Mapping[str, Kind] = {
    name: metric.kind for metric in INVENTORY for name in exposed_names(metric)
}


def findings(board: Mapping[str, Any]) -> list[str]:
    """One sentence for each fault of a board."""
    variables = board.get("templating", {}).get("list", [])
    names = {variable["name"] for variable in variables}
    panels = board.get("panels", [])
    found = []
    if not board.get("uid"):
        found.append("the board has no uid")
    if not any(variable["type"] == "datasource" for variable in variables):
        found.append("the board has no data source variable")
    for identifier, count in Counter(panel.get("id") for panel in panels).items():
        if identifier is None or count > 1:
            found.append(f"id {identifier} stands {count} times")
    found += _places(panels)
    for panel in panels:
        if panel["type"] != "row":
            found += [f"{panel.get('title')}: {fault}" for fault in _panel(panel, names)]
    return found


def expressions(board: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Panel title and PromQL of every query."""
    for panel in board.get("panels", []):
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def metric_names(expression: str) -> set[str]:
    """Series names in an expression with variables."""
    return {name for name, _ in _walk(_parse(expression), within=())}


def _places(panels: list[dict[str, Any]]) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > COLUMNS:
            yield f"{panel['title']}: goes beyond column {COLUMNS}"
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        for other in sorted({taken[cell] for cell in cells & taken.keys()}):
            yield f"{panel['title']}: overlaps {other}"
        taken |= dict.fromkeys(cells, panel["title"])


def _panel(panel: Mapping[str, Any], variables: set[str]) -> Iterator[str]:
    if not panel.get("title"):
        yield "no title"
    if not panel.get("description"):
        yield "no description"
    if not panel.get("fieldConfig", {}).get("defaults", {}).get("unit"):
        yield "no unit"
    targets = panel.get("targets", [])
    if not targets:
        yield "no query"
    if len({target["refId"] for target in targets}) < len(targets):
        yield "a reference is duplicated"
    for holder in (panel, *targets):
        if holder.get("datasource", {}).get("uid") != "${datasource}":
            yield "a data source that is not the variable"
    for target in targets:
        yield from _query(target["expr"], variables)


def _query(expression: str, variables: set[str]) -> Iterator[str]:
    for name in re.findall(r"\$\{?(\w+)", expression):
        if name not in variables | {"__rate_interval"}:
            yield f"unknown variable ${name}"
    if re.search(r"\[\s*[0-9]", expression):
        yield "a fixed window instead of $__rate_interval"
    try:
        tree = _parse(expression)
    except ValueError as error:
        yield f"no PromQL: {error}"
        return
    for name, functions in _walk(tree, within=()):
        kind = KINDS.get(name)
        if kind is None:
            yield f"unknown metric {name}"
        elif kind is Kind.GAUGE and "rate" in functions:
            yield f"the rate of a gauge: {name}"
        elif kind is not Kind.GAUGE and "rate" not in functions:
            yield f"a counter without rate(): {name}"
    if "histogram_quantile" in expression and not re.search(r"by \([^)]*\ble\b", expression):
        yield "a quantile without by (le)"


def _parse(expression: str) -> Any:
    filled = expression.replace("$__rate_interval", "2m")
    return promql_parser.parse(re.sub(r"\$\{?\w+\}?", "x", filled))


def _walk(node: Any, *, within: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each series selector with the functions around it."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name or "", within
        return
    if isinstance(node, promql_parser.Call):
        within = (*within, node.func.name)
        for argument in node.args:
            yield from _walk(argument, within=within)
        return
    for part in ("expr", "lhs", "rhs", "vector_selector", "param"):
        child = getattr(node, part, None)
        if child is not None and not isinstance(child, (str, int, float)):
            yield from _walk(child, within=within)
