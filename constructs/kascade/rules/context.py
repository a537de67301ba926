"""What a rule is given, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kascade.catalog.models import ModelFacts
from kascade.config.blocks import ServingConfig
from kascade.config.dependencies import DependenciesChart
from kascade.config.zone_offerings import ZoneOfferings
from kascade.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A configuration with what its files hold.

    Attributes:
        config: As written.
        local_models: Facts of models that the catalog lacks, by the model's short name.
        zone_offerings: What the file holds that ``zone_offerings`` names, or None.
        dependencies_chart: The chart that the configuration names, or None.
    """

    config: ServingConfig
    local_models: Mapping[str, ModelFacts] = field(default_factory=dict)
    zone_offerings: ZoneOfferings | None = None
    dependencies_chart: DependenciesChart | None = None


Rule = Callable[[Context], Iterator[Problem]]


def problems_of(rules: Iterable[Rule], context: Context) -> list[Problem]:
    """Return what rules find, in their order."""
    return [problem for rule in rules for problem in rule(context)]
