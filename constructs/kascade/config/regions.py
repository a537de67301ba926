"""What a region lacks of the services that a deployment stands on."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.catalog.regions import REGIONS, WITHOUT_MANAGED_GRAFANA
from kascade.config.blocks import ServingConfig
from kascade.errors import Problem


def check_regions(config: ServingConfig) -> Iterator[Problem]:
    """Find services that the region does not have.

    Args:
        config: A configuration whose fields are valid one by one.
    """
    if config.observability.enabled and config.region in WITHOUT_MANAGED_GRAFANA:
        there = ", ".join(name for name in REGIONS if name not in WITHOUT_MANAGED_GRAFANA)
        yield Problem(
            path=("observability",),
            code="no-managed-grafana",
            message=f"{config.region} has no Managed Grafana, which shows the metrics; set "
            f"observability.enabled: false, or choose a region that has it: {there}",
            also_reads=(("region",),),
        )
