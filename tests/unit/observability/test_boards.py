"""The boards, and the lint that judges them."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kascade.errors import KascadeError
from kascade.observability import metrics as m
from kascade.observability.boards import BOARDS, boards, dashboards
from kascade.observability.layout import COLUMNS, Board, Row, chart, number, render
from kascade.observability.promql import rate
from kascade.plan import ObservabilityPlan
from tests.unit.observability.board_lint import expressions, findings, metric_names

UID = "kascade-kv-cache-tiers"


@pytest.fixture
def board(plan: ObservabilityPlan) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(boards(plan)[UID])
    return parsed


def test_no_board_has_a_finding(plan: ObservabilityPlan) -> None:
    for text in boards(plan).values():
        assert findings(json.loads(text)) == []


def test_a_grafana_of_ones_own_starts_with_its_own_data_source(plan: ObservabilityPlan) -> None:
    assert dashboards(datasource_uid=plan.datasource_uid) == boards(plan)
    for text in dashboards().values():
        assert findings(json.loads(text)) == []
        (source,) = (v for v in json.loads(text)["templating"]["list"] if v["type"] == "datasource")
        assert source["current"]["value"] == "default"


@pytest.mark.parametrize("uid", ["", "my source", "x" * 41, None])
def test_a_data_source_that_grafana_cannot_have_is_one_sentence(uid: Any) -> None:
    with pytest.raises(KascadeError, match=r"^datasource_uid is [^\n]*$"):
        dashboards(datasource_uid=uid)


def test_uids_are_those_of_the_boards_and_short_enough(plan: ObservabilityPlan) -> None:
    for uid, text in boards(plan).items():
        assert json.loads(text)["uid"] == uid
        assert len(uid) <= 40  # Grafana's limit


def test_the_text_is_the_same_each_time(plan: ObservabilityPlan) -> None:
    assert boards(plan) == boards(plan)
    text = boards(plan)[UID]
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_the_text_fits_a_config_map(plan: ObservabilityPlan) -> None:
    assert sum(len(text.encode()) for text in boards(plan).values()) < 1_000_000


def test_rows_are_in_reading_order(board: dict[str, Any]) -> None:
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Tiers", "Latency", "L1: host memory", "L2: Curvine", "Router", "Engine"]


def test_the_inventory_holds_nothing_that_no_panel_shows(board: dict[str, Any]) -> None:
    shown = {name for _, text in expressions(board) for name in metric_names(text)}
    for metric in m.INVENTORY:
        assert shown & set(m.exposed_names(metric)), metric.name


def test_variables_start_at_the_plans_data_source_and_everything(board: dict[str, Any]) -> None:
    current = {v["name"]: v["current"]["value"] for v in board["templating"]["list"]}
    assert current == {"datasource": "kascade-demo-amp", "cluster": ["$__all"], "model": ["$__all"]}


def test_a_model_chooses_only_what_belongs_to_a_model(board: dict[str, Any]) -> None:
    for title, text in expressions(board):
        curvine = any(name.startswith("curvine_") for name in metric_names(text))
        assert ("$model" in text) is not curvine, title
        assert "$cluster" in text, title


def test_tiers_stack_up_to_all_prompt_tokens(board: dict[str, Any]) -> None:
    panel = next(p for p in board["panels"] if p["title"] == "Prompt tokens by tier")
    assert [target["legendFormat"] for target in panel["targets"]] == [
        "L0 GPU",
        "L1 host",
        "L2 Curvine",
        "recomputed",
    ]
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"


def test_panels_wrap_when_a_line_is_full() -> None:
    row = Row("Row", tuple(chart(f"{n}", {"a": "up"}, unit="short", why="x") for n in range(4)))
    made = replace(BOARDS[0], rows=(row, Row("Next", ())))
    places = [p["gridPos"] for p in json.loads(render(made, datasource_uid="x"))["panels"]]
    assert [(p["x"], p["y"]) for p in places] == [(0, 0), (0, 1), (8, 1), (16, 1), (0, 9), (0, 17)]


def test_a_gauge_has_no_rate() -> None:
    with pytest.raises(ValueError, match="num_requests_running is a gauge"):
        rate(m.REQUESTS_RUNNING)


def _change(panel: int, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda board: board["panels"][panel].update(values)


def _query(expression: str) -> Callable[[dict[str, Any]], None]:
    return lambda board: board["panels"][1]["targets"][0].update(expr=expression)


SELECTOR = '{cluster=~"$cluster"}'


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (lambda board: board.update(uid=""), "no uid"),
        (lambda board: board["templating"].update(list=[]), "no data source variable"),
        (_change(1, id=3), "id 3 stands 2 times"),
        (_change(1, title=""), "no title"),
        (_change(1, description=""), "no description"),
        (_change(1, fieldConfig={"defaults": {}}), "no unit"),
        (_change(1, targets=[]), "no query"),
        (_change(1, gridPos={"x": 20, "y": 500, "w": 5, "h": 4}), f"beyond column {COLUMNS}"),
        (_change(2, gridPos={"x": 0, "y": 1, "w": 4, "h": 4}), "overlaps Prompt tokens reused"),
        (_change(1, datasource={"uid": "fixed"}), "not the variable"),
        (_query(f"sum(rate(vllm:prompt_tokens_total{SELECTOR}[5m]))"), "a fixed window"),
        (_query("sum(vllm:kv_cache_usage_perc{a=$b})"), "no PromQL"),
        (_query('sum(vllm:kv_cache_usage_perc{a="$b"})'), "unknown variable $b"),
        (_query("sum(made_up)"), "unknown metric made_up"),
        (_query("sum(vllm:prompt_tokens_total)"), "a counter without rate()"),
        (_query("sum(rate(vllm:kv_cache_usage_perc[$__rate_interval]))"), "the rate of a gauge"),
        (
            _query(
                "histogram_quantile(0.5, "
                "sum(rate(vllm:time_to_first_token_seconds_bucket[$__rate_interval])))"
            ),
            "a quantile without by (le)",
        ),
    ],
)
def test_the_lint_sees(
    board: dict[str, Any], damage: Callable[[dict[str, Any]], None], finding: str
) -> None:
    damaged = copy.deepcopy(board)
    damage(damaged)
    assert any(finding in found for found in findings(damaged)), findings(damaged)


def test_the_lint_sees_a_reference_that_stands_twice(board: dict[str, Any]) -> None:
    panel = next(p for p in board["panels"] if len(p.get("targets", [])) > 1)
    panel["targets"][1]["refId"] = "A"
    assert findings(board) == [f"{panel['title']}: a reference is duplicated"]


def test_numbers_carry_their_thresholds() -> None:
    made = Board(
        uid="x",
        title="x",
        description="x",
        tags=(),
        variables=(),
        rows=(Row("r", (number("n", "up", unit="short", why="w", good_from=1, bad_from=2),)),),
    )
    panel = json.loads(render(made, datasource_uid="x"))["panels"][1]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in steps] == [
        (None, "text"),
        (1, "green"),
        (2, "red"),
    ]
