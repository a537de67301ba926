"""From samples to figures: percentiles, throughput, goodput and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kascade.bench.load import Sample

PERCENTILES: Final = (50, 90, 99)
_SECONDS_PER_HOUR: Final = 3600
_MILLION: Final = 1_000_000


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return a percentile, linear between neighbours; None where there is no value.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([5.0], 99), percentile([], 50)
    (2.5, 5.0, None)
    """
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a measure is distributed over the requests that have it, in seconds."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarize values."""
        p50, p90, p99 = (_rounded(percentile(values, percent)) for percent in PERCENTILES)
        mean = _rounded(sum(values) / len(values)) if values else None
        return cls(count=len(values), mean=mean, p50=p50, p90=p90, p99=p99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What a request has to meet to count as good.

    Attributes:
        ttft_seconds: Longest time to the first token, or None for any.
        itl_seconds: Longest mean time between tokens, or None for any.
    """

    ttft_seconds: float | None = None
    itl_seconds: float | None = None

    def met_by(self, sample: Sample) -> bool:
        """Say whether a request met it; one that failed did not.

        An answer of a single token has no time between tokens and meets any.
        """
        if sample.error is not None or sample.ttft_seconds is None:
            return False
        if self.ttft_seconds is not None and sample.ttft_seconds > self.ttft_seconds:
            return False
        return self.itl_seconds is None or (sample.itl_seconds or 0.0) <= self.itl_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of one phase.

    Attributes:
        requests: All that were sent.
        failed: Those without an answer; they count in no latency and no throughput.
        duration_seconds: From the first request's sending to the last answer's end.
        good: Requests that met the objective; ``goodput`` is the same a second.
    """

    requests: int
    failed: int
    duration_seconds: float
    ttft: Spread
    itl: Spread
    e2e: Spread
    requests_per_second: float
    input_tokens_per_second: float
    output_tokens_per_second: float
    good: int
    goodput: float


def summarize(samples: Sequence[Sample], objective: Objective) -> Summary:
    """Summarize the samples of one phase."""
    answered = [sample for sample in samples if sample.error is None]
    ends = [s.start_seconds + (s.e2e_seconds or 0.0) for s in answered]
    duration = max(ends, default=0.0) - min((s.start_seconds for s in samples), default=0.0)
    good = sum(objective.met_by(sample) for sample in samples)

    def rate(amount: float) -> float:
        return round(amount / duration, 6) if duration > 0 else 0.0

    return Summary(
        requests=len(samples),
        failed=len(samples) - len(answered),
        duration_seconds=round(duration, 6),
        ttft=Spread.of([s.ttft_seconds for s in answered if s.ttft_seconds is not None]),
        itl=Spread.of([s.itl_seconds for s in answered if s.itl_seconds is not None]),
        e2e=Spread.of([s.e2e_seconds for s in answered if s.e2e_seconds is not None]),
        requests_per_second=rate(len(answered)),
        input_tokens_per_second=rate(sum(s.input_tokens for s in answered)),
        output_tokens_per_second=rate(sum(s.output_tokens for s in answered)),
        good=good,
        goodput=rate(good),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the measured rates cost at the plan's prices; None where a price is unknown.

    Attributes:
        engine_usd_per_hour: All replicas of this engine.
        deployment_usd_per_hour: Everything in the plan.
        usd_per_million_tokens: Input and output together, at the engine's price.
        usd_per_million_output_tokens: Output alone, at the engine's price.
        price: Where the price comes from, in words.
        caveat: What the figure may not be used for, or None.
    """

    engine_usd_per_hour: float | None
    deployment_usd_per_hour: float | None
    usd_per_million_tokens: float | None
    usd_per_million_output_tokens: float | None
    price: str
    caveat: str | None


def usd_per_million(usd_per_hour: float | None, tokens_per_second: float) -> float | None:
    """Return the price of a million tokens; None where none flowed or the price is unknown.

    >>> usd_per_million(3.6, 1000.0)
    1.0
    >>> usd_per_million(None, 1000.0)
    """
    if usd_per_hour is None or tokens_per_second <= 0:
        return None
    return round(usd_per_hour / (tokens_per_second * _SECONDS_PER_HOUR) * _MILLION, 6)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
