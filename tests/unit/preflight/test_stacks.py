"""What the row `stacks` advises in each state that a stack can be left in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kascade import plan_file
from kascade.planning.loading import load_config
from kascade.preflight.run import preflight
from tests.unit.preflight.ordinary import hyperpod_cluster, ordinary, stack
from tests.unit.preflight.played import PlayedAws

DEFAULT = Path(__file__).parents[3] / "config" / "default.yaml"
PLAN = plan_file(DEFAULT)
ADVICE = {
    "CREATE_FAILED": "delete-stack",
    "ROLLBACK_COMPLETE": "delete-stack",
    "ROLLBACK_FAILED": "delete-stack",
    "DELETE_FAILED": "delete-stack",
    "UPDATE_FAILED": "rollback-stack",
    "UPDATE_ROLLBACK_FAILED": "continue-update-rollback",
    "IMPORT_ROLLBACK_FAILED": "delete-stack",
}
"""The command, as the reference of CloudFormation's API allows it in that state."""


def rows(stacks: list[dict[str, Any]], **answers: Any) -> dict[str, Any]:
    played = PlayedAws(
        ordinary(PLAN)
        | {"cloudformation.DescribeStacks": {"Stacks": stacks}}
        | {name.replace("__", "."): answer for name, answer in answers.items()}
    )
    report = preflight(load_config(DEFAULT), PLAN, played.session())
    assert played.wrong == []
    return {row.check: row for row in report.rows}


@pytest.mark.parametrize("status", ADVICE)
def test_the_advice_is_one_that_cloudformation_takes(status: str) -> None:
    row = rows([stack("kascade", "cluster", status)])["stacks"]
    assert row.state == "fail"
    todo = row.findings[0].todo
    assert f"aws cloudformation {ADVICE[status]} --stack-name kascade-cluster" in todo
    assert todo.count("aws cloudformation") == 1


@pytest.mark.parametrize("described", [True, False])
def test_an_empty_stack_is_in_nobodys_way(described: bool) -> None:
    empty = stack("kascade", "cluster", "REVIEW_IN_PROGRESS")
    if not described:
        del empty["Description"]
    found = rows([empty], sagemaker__DescribeCluster=hyperpod_cluster(PLAN, "kascade"))
    assert found["stacks"].state == "ok"
    said = " ".join(finding.said for finding in found["stacks"].findings)
    assert "kascade-cluster is empty" in said
    # What it would have made is still somebody else's.
    assert found["names"].state == "fail"
