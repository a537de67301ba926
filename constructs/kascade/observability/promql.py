"""PromQL from inventory entries, so that no expression spells a metric name itself.

Every expression honours the board's variables: ``$cluster`` always, ``$model`` where each pod
belongs to one model.
"""

from __future__ import annotations

from kascade.observability.metrics import Kind, Metric

_WINDOW = "$__rate_interval"


def select(metric: Metric, *, where: str = "", part: str = "") -> str:
    """The series of a metric that the variables choose."""
    matchers = ['cluster=~"$cluster"']
    if metric.component.serves_one_model:
        matchers.append('model=~"$model"')
    if where:
        matchers.append(where)
    return f"{metric.name}{part}{{{', '.join(matchers)}}}"


def rate(metric: Metric, *, by: str = "", where: str = "", part: str = "") -> str:
    """Events per second of a counter, summed (per value of ``by``)."""
    if metric.kind is Kind.GAUGE:
        message = f"{metric.name} is a gauge and has no rate"
        raise ValueError(message)
    return f"sum{_by(by)}(rate({select(metric, where=where, part=part)}[{_WINDOW}]))"


def rate_or_zero(metric: Metric) -> str:
    """Like ``rate``, but 0 while the counter does not exist yet."""
    return f"{rate(metric)} or vector(0)"


def gauge(metric: Metric, *, using: str = "sum", by: str = "") -> str:
    """The current value of a gauge, aggregated with ``sum``, ``max`` or ``min``."""
    return f"{using}{_by(by)}({select(metric)})"


def quantile(q: float, metric: Metric) -> str:
    """A quantile over all chosen pods, from the summed buckets."""
    return f"histogram_quantile({q:g}, {rate(metric, by='le', part='_bucket')})"


def mean(metric: Metric) -> str:
    """The mean of a histogram's observations in the window; no data when there were none."""
    return share(rate(metric, part="_sum"), rate(metric, part="_count"))


def share(numerator: str, denominator: str) -> str:
    """A ratio that is "no data" instead of NaN while nothing happens."""
    return f"{numerator} / ({denominator} > 0)"


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else ""
