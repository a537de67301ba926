"""A small vocabulary for boards: rows of panels that flow from left to right.

Grafana's own model wants a position, an id and a dozen options for each panel. Here a panel says
what it shows and why; ``render`` adds the rest, the same way each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

COLUMNS = 24
_REFERENCES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DATASOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture.

    Attributes:
        series: Legend to PromQL; ``{{label}}`` in a legend stands for a label's value.
        unit: Grafana's name of the unit.
        why: What a reader learns from the panel.
        single: One large number instead of curves.
        stacked: Curves add up to a whole.
        maximum: Upper end of the axis, for ratios.
        good_from: A single number turns green from here on.
        bad_from: A single number turns red from here on.
    """

    title: str
    series: Mapping[str, str]
    unit: str
    why: str
    single: bool = False
    stacked: bool = False
    maximum: float | None = None
    good_from: float | None = None
    bad_from: float | None = None
    width: int = 8
    height: int = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A titled group of panels."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A drop-down whose values are those of a label."""

    name: str
    label: str
    series: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A whole dashboard."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


def chart(  # noqa: PLR0913 - a panel has that many sides, and only the first four are usual
    title: str,
    series: Mapping[str, str],
    *,
    unit: str,
    why: str,
    stacked: bool = False,
    maximum: float | None = None,
    width: int = 8,
) -> Panel:
    """Curves over time."""
    return Panel(
        title=title,
        series=series,
        unit=unit,
        why=why,
        stacked=stacked,
        maximum=maximum,
        width=width,
    )


def number(  # noqa: PLR0913 - see chart
    title: str,
    expression: str,
    *,
    unit: str,
    why: str,
    good_from: float | None = None,
    bad_from: float | None = None,
    width: int = 4,
) -> Panel:
    """One number with its recent course."""
    return Panel(
        title=title,
        series={title: expression},
        unit=unit,
        why=why,
        single=True,
        good_from=good_from,
        bad_from=bad_from,
        width=width,
        height=4,
    )


def render(board: Board, *, datasource_uid: str) -> str:
    """A board as the JSON text that Grafana imports; equal boards give equal text."""
    result = (
        dashboard_builder.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(list(board.tags))
        .refresh("1m")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(_datasource_variable(datasource_uid))
    )
    for variable in board.variables:
        result = result.with_variable(_label_variable(variable))
    for placed in _place(board.rows):
        if isinstance(placed.content, Row):
            row = dashboard_builder.Row(placed.content.title)
            result = result.with_row(row.id(placed.id).grid_pos(placed.position))
        else:
            result = result.with_panel(_panel(placed.content, placed.id, placed.position))
    return JSONEncoder(sort_keys=True, indent=2).encode(result.build()) + "\n"


@dataclass(frozen=True, slots=True)
class _Placed:
    content: Row | Panel
    id: int
    position: dashboard.GridPos


def _place(rows: tuple[Row, ...]) -> Iterator[_Placed]:
    """Give each row and panel an id and a place: line by line, as tall as its tallest panel."""
    identifier = 0
    y = 0
    for row in rows:
        identifier += 1
        yield _Placed(row, identifier, dashboard.GridPos(x=0, y=y, w=COLUMNS, h=1))
        y += 1
        x = 0
        line = 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, line = 0, y + line, 0
            identifier += 1
            place = dashboard.GridPos(x=x, y=y, w=panel.width, h=panel.height)
            yield _Placed(panel, identifier, place)
            x += panel.width
            line = max(line, panel.height)
        y += line


def _panel(
    panel: Panel, identifier: int, position: dashboard.GridPos
) -> stat.Panel | timeseries.Panel:
    result = _number(panel) if panel.single else _chart(panel)
    result = (
        result.title(panel.title)
        .description(panel.why)
        .unit(panel.unit)
        .datasource(_DATASOURCE)
        .id(identifier)
        .grid_pos(position)
    )
    for reference, (legend, expression) in zip(_REFERENCES, panel.series.items(), strict=False):
        result = result.with_target(
            prometheus.Dataquery()
            .expr(expression)
            .legend_format(legend)
            .ref_id(reference)
            .datasource(_DATASOURCE)
        )
    return cast("stat.Panel | timeseries.Panel", result)


def _chart(panel: Panel) -> Any:
    result = (
        timeseries.Panel()
        .min(0)
        .line_width(1)
        .fill_opacity(60 if panel.stacked else 10)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builder.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common_builder.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if panel.maximum is not None:
        result = result.max(panel.maximum)
    if panel.stacked:
        stacking = common_builder.StackingConfig().mode(common.StackingMode.NORMAL)
        result = result.stacking(stacking)
    return result


def _number(panel: Panel) -> Any:
    return (
        stat.Panel()
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.AREA)
        .thresholds(_thresholds(panel))
    )


def _thresholds(panel: Panel) -> dashboard_builder.ThresholdsConfig:
    steps = [dashboard.Threshold(value=None, color="text")]
    if panel.good_from is not None:
        steps.append(dashboard.Threshold(value=panel.good_from, color="green"))
    if panel.bad_from is not None:
        steps.append(dashboard.Threshold(value=panel.bad_from, color="red"))
    return dashboard_builder.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _datasource_variable(uid: str) -> dashboard_builder.DatasourceVariable:
    return (
        dashboard_builder.DatasourceVariable("datasource")
        .label("Data source")
        .type("prometheus")
        .current(dashboard.VariableOption(selected=True, text=uid, value=uid))
    )


def _label_variable(variable: Variable) -> dashboard_builder.QueryVariable:
    return (
        dashboard_builder.QueryVariable(variable.name)
        .label(variable.label)
        .query(f"label_values({variable.series}, {variable.value})")
        .datasource(_DATASOURCE)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(dashboard.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
