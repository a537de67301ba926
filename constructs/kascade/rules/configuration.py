"""All that the configuration alone decides, in the order in which it is said."""

from __future__ import annotations

from typing import Final

from kascade.config.blocks import ServingConfig
from kascade.errors import Problem
from kascade.rules import cluster, groups, l2, models, network, tenancy
from kascade.rules.context import Context, Rule, problems_of

CONFIGURATION: Final[tuple[Rule, ...]] = (
    cluster.duplicate_names,
    cluster.tags,
    groups.keys,
    cluster.deployment_name,
    models.model_names,
    models.groups_of_models,
    network.region_and_zones,
    groups.zones_of_groups,
    groups.instance_types,
    groups.groups,
    models.models,
    tenancy.tenants,
    models.operator_managed,
    models.references,
    cluster.addons,
    cluster.existing,
    network.address_ranges,
    network.services_of_the_region,
    groups.autoscaling,
    tenancy.unencrypted_tenants,
    cluster.tiered_storage,
    l2.managed_without_ram,
    cluster.versions,
    l2.chunks,
    l2.water_marks,
    models.router,
    models.router_limits,
    cluster.kyverno,
    l2.masters,
    cluster.system_nodes,
)


def check_config(config: ServingConfig) -> tuple[Problem, ...]:
    """Find every error that needs no arithmetic.

    Args:
        config: A configuration whose fields are valid one by one.

    Returns:
        The problems, in the order of the rules.
    """
    return tuple(problems_of(CONFIGURATION, Context(config=config)))
