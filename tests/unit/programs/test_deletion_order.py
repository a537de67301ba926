"""What deleting by age costs, and what renewing a loaded file gives back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kascade.bench.trace import Row, read_trace
from tools.deletion_order import Shared, hit_rate, table


def rows(count: int) -> list[Row]:
    """Every twentieth request is for one document of ten blocks, all others for one of their own.

    So nothing stays in an engine's L1 until it is asked for again.
    """
    return [
        Row(
            timestamp_ms=1000.0 * number,
            input_length=10 * 512,
            output_length=1,
            hash_ids=tuple(range(first, first + 10)),
        )
        for number in range(count)
        for first in [0 if number % 20 == 0 else 100 * (number + 1)]
    ]


@pytest.mark.parametrize("bound", [{"blocks": 300}, {"seconds": 30.0}])
def test_what_is_used_again_and_again_goes_first_by_age_since_writing(
    bound: dict[str, float],
) -> None:
    trace = rows(400)
    unbounded, written, used = (
        hit_rate(trace, rule)
        for rule in (
            Shared(renews=False),
            Shared(**bound, renews=False),  # type: ignore[arg-type]
            Shared(**bound, renews=True),  # type: ignore[arg-type]
        )
    )
    assert unbounded == used == 19 / 400
    assert written == 10 / 400, "every second time it has just gone"


@pytest.mark.parametrize("name", ["mooncake_conversation.jsonl", "mooncake_synthetic.jsonl"])
def test_no_bound_of_a_published_trace_is_worse_by_last_use(name: str) -> None:
    """docs/janitor.md has the numbers."""
    if "KASCADE_DATA" not in os.environ:
        pytest.skip("KASCADE_DATA names no folder with the published traces")
    trace = read_trace(Path(os.environ["KASCADE_DATA"], "traces", name), 10**9)
    found = table(trace)
    assert all(used >= written - 0.005 for _, written, used in found)
    assert sum(used - written for _, written, used in found) / len(found) > 0.01
