"""Arithmetic, against numbers worked out by hand."""

from dataclasses import replace

import pytest

from kascade.bench.load import Sample
from kascade.bench.measures import Objective, Spread, percentile, summarize, usd_per_million

SAMPLE = Sample(
    phase="load",
    session="a",
    turn=0,
    start_seconds=0.0,
    ttft_seconds=0.1,
    itl_seconds=0.02,
    longest_gap_seconds=0.03,
    e2e_seconds=1.0,
    input_tokens=100,
    output_tokens=10,
    error=None,
)


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 5.5), (90, 9.1), (99, 9.91), (100, 10.0)]
)
def test_percentiles_are_linear_between_neighbours(percent: float, value: float) -> None:
    assert percentile([float(n) for n in range(10, 0, -1)], percent) == pytest.approx(value)


def test_a_spread_of_nothing_has_no_number() -> None:
    assert Spread.of([]) == Spread(count=0, mean=None, p50=None, p90=None, p99=None)


def test_throughput_runs_from_the_first_sending_to_the_last_answer() -> None:
    run = [SAMPLE, replace(SAMPLE, start_seconds=3.0)]
    summary = summarize(run, Objective())
    assert summary.duration_seconds == 4.0
    assert summary.requests_per_second == 0.5
    assert summary.input_tokens_per_second == 50.0
    assert summary.output_tokens_per_second == 5.0


def test_goodput_counts_what_met_every_limit() -> None:
    run = [
        SAMPLE,
        replace(SAMPLE, ttft_seconds=0.5),
        replace(SAMPLE, itl_seconds=0.2),
        replace(SAMPLE, itl_seconds=None),
        replace(SAMPLE, error="no", ttft_seconds=None, e2e_seconds=None),
    ]
    objective = Objective(ttft_seconds=0.2, itl_seconds=0.05)
    summary = summarize(run, objective)
    assert (summary.requests, summary.failed, summary.good) == (5, 1, 2)
    assert summary.goodput == 2.0
    assert summary.ttft.count == 4


def test_a_run_of_failures_has_no_rates() -> None:
    failed = replace(SAMPLE, error="no", ttft_seconds=None, itl_seconds=None, e2e_seconds=None)
    summary = summarize([failed], Objective())
    assert summary.failed == summary.requests == 1
    assert summary.requests_per_second == summary.goodput == 0.0
    assert summary.ttft.p50 is None


def test_the_price_of_a_million_tokens() -> None:
    assert usd_per_million(1.861 * 2, 4000.0) == pytest.approx(0.258472, abs=1e-6)
    assert usd_per_million(1.0, 0.0) is None
