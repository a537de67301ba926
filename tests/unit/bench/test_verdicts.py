"""Two runs side by side."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from kascade.bench.compare import comparison_lines, write_comparison
from kascade.bench.document import json_text
from kascade.bench.result import Result
from kascade.bench.verdicts import Comparison, compare
from tests.unit.bench.builders import result


def document(run: Result) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(json_text(run))
    return parsed


def compared(first: Result, second: Result) -> Comparison:
    return compare(document(first), document(second), names=("a", "b"))


def verdicts(comparison: Comparison) -> dict[tuple[str, str], str]:
    return {(row.phase, row.measure): row.verdict for row in comparison.rows}


def test_a_run_does_not_differ_from_itself() -> None:
    found = compared(result(), result())
    assert set(verdicts(found).values()) == {"no clear difference"}
    assert found.notes == ()


def test_half_the_latency_is_better_and_twice_is_worse() -> None:
    better = verdicts(compared(result(), result(factor=0.5)))
    assert better["load", "TTFT p50"] == better["cold", "TTFT p50"] == "better"
    assert better["load", "cost of a million tokens"] == "better"
    assert better["l2", "TTFT p50"] == "no clear difference"
    worse = verdicts(compared(result(), result(factor=2.0)))
    assert worse["load", "TTFT p50"] == worse["load", "cost of a million tokens"] == "worse"
    assert worse["load", "goodput"] == "worse"
    assert worse["load", "prompt tokens computed"] == "no clear difference"


def test_a_change_within_the_noise_is_none() -> None:
    assert verdicts(compared(result(), result(factor=1.02)))["load", "TTFT p50"] == (
        "no clear difference"
    )


def test_another_workload_gets_no_verdict() -> None:
    other = replace(result(factor=2.0), workload={**result().workload, "digest": "d2"})
    found = compared(result(), other)
    assert set(verdicts(found).values()) == {"no verdict"}
    assert "the workloads differ in lengths or moments, so no verdict is given" in found.notes


def test_a_flawed_phase_gets_no_verdict_and_other_differences_are_named() -> None:
    run = result(factor=2.0)
    flawed = replace(run.phases[0], flaw="L2 served 98%")
    versions = {**run.versions, "vllm": "0.33.0"}
    found = compared(
        result(),
        replace(run, phases=(flawed, *run.phases[2:]), versions=versions, measured_on="else"),
    )
    assert verdicts(found)["cold", "TTFT p50"] == "no verdict"
    assert "L2 is in the first run only" in found.notes
    assert "vllm: 0.32.0 against 0.33.0" in found.notes
    assert any(note.startswith("hardware: 2 cores") for note in found.notes)


def test_the_comparison_is_printed_and_drawn_with_the_same_bytes(tmp_path: Path) -> None:
    found = compared(result(), result(factor=0.5))
    text = "\n".join(comparison_lines(found))
    assert "TTFT p50" in text
    assert "-50%" in text
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_comparison(found, tmp_path / name)
    for file in ("compare.png", "compare.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
