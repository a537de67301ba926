"""What a run found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kascade.bench.load import Sample
from kascade.bench.measures import Cost, Objective, Summary
from kascade.bench.tiers import Served

SCHEMA = "kascade-bench/1"
"""Name and version of the document; the number rises when a reader of the old one would err."""

LOAD = "load"
"""Name of the phase that runs the workload itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a run.

    Attributes:
        name: ``cold``, ``l0``, ``l1``, ``l2`` or ``load``.
        where: Which replica or router it was sent to.
        how: What was done to get there, in words.
        served: Prompt tokens by the tier they came from.
        by_replica: The same for each replica.
        samples: Every request.
        summary: Their figures.
        flaw: Why the phase did not measure what it is named after, or None.
    """

    name: str
    where: str
    how: str
    served: Served
    by_replica: Mapping[str, Served]
    samples: tuple[Sample, ...]
    summary: Summary
    flaw: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run.

    Attributes:
        started: Moment in UTC, ISO 8601.
        measured_on: The hardware, in the words of who ran it.
        planned_hardware: Whether that is what the plan deploys.
        config: File name and SHA-256 of the configuration.
        versions: Of every program that took part.
        workload: Its settings and digest.
        target: Engine, model, replicas.
        objective: What counts as good.
        phases: In the order they ran.
        skipped: Phases that could not be, with the reason.
        cost: Of the load phase at the plan's prices, or None without one.
    """

    started: str
    measured_on: str
    planned_hardware: bool
    config: Mapping[str, str]
    versions: Mapping[str, str]
    workload: Mapping[str, object]
    target: Mapping[str, object]
    objective: Objective
    phases: tuple[Phase, ...]
    skipped: Mapping[str, str]
    cost: Cost | None

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(phase.summary.failed for phase in self.phases)

    @property
    def sound(self) -> bool:
        """True when every request was answered and every phase measured what it is named after."""
        return not self.failed and all(phase.flaw is None for phase in self.phases)
