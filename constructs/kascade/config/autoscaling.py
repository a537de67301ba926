"""Mistakes about groups that Karpenter fills."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.catalog.karpenter import MIN_HEALTH_AGENT, OWN_LABELS, agent_number
from kascade.config.blocks import InstanceGroupConfig, ServingConfig
from kascade.errors import ConfigPath, Problem

_MODE: ConfigPath = ("hyperpod", "autoscaling")


def check_autoscaling(config: ServingConfig) -> Iterator[Problem]:
    """Find what HyperPod's Karpenter does not take.

    Args:
        config: A configuration whose fields are valid one by one.
    """
    if config.hyperpod.autoscaling is None or config.hyperpod.existing is not None:
        return  # the latter has its sentence already
    if config.hyperpod.node_recovery != "Automatic":
        yield Problem(
            path=("hyperpod", "node_recovery"),
            code="karpenter-node-recovery",
            message=f"got {config.hyperpod.node_recovery}; with autoscaling HyperPod has to "
            "replace instances itself. Use Automatic",
            also_reads=(_MODE,),
        )
    if config.cache.l2.kind == "curvine":
        yield Problem(
            path=("cache", "l2", "kind"),
            code="karpenter-and-curvine",
            message="got curvine, which keeps blocks on the NVMe of instances that Karpenter takes "
            "away; use directory, managed or none, or leave hyperpod.autoscaling out",
            also_reads=(_MODE,),
        )
    agent = config.images.health_agent
    number = agent_number(agent.rpartition(":")[2]) if agent and "@" not in agent else ()
    # A tag of yours that is no number of AWS's says nothing.
    if len(number) == len(agent_number(MIN_HEALTH_AGENT)) and number < agent_number(
        MIN_HEALTH_AGENT
    ):
        yield Problem(
            path=("images", "health_agent"),
            code="karpenter-health-agent",
            message=f"{agent} is older than {MIN_HEALTH_AGENT}, the first that autoscaling works "
            "with; take a newer one, or leave hyperpod.autoscaling out",
            also_reads=(_MODE,),
        )
    for index, group in enumerate(config.instance_groups):
        yield from _group(group, ("instance_groups", index))


def _group(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    if group.zone is None:
        yield Problem(
            path=(*path, "zone"),
            code="karpenter-zone",
            message=f"{group.name!r} names none, and Karpenter wants all instances of a group in "
            "one; give it one of `zones`, and a group of its own for each further zone",
            also_reads=(_MODE, path),
        )
    if group.count == 0:
        yield Problem(
            path=(*path, "count"),
            code="karpenter-no-instances",
            message="got 0, which with autoscaling is the most that Karpenter may add; give the "
            "largest number that you want to pay for, or take the group out",
            also_reads=(_MODE,),
        )
    if group.capacity.kind == "training_plan":
        yield Problem(
            path=(*path, "capacity"),
            code="karpenter-training-plan",
            message="got training_plan, whose instances are reserved and paid for whether they "
            "run or not; use on_demand or spot, or leave hyperpod.autoscaling out",
            also_reads=(_MODE,),
        )
    if group.min_count is not None:
        yield Problem(
            path=(*path, "min_count"),
            code="karpenter-min-count",
            message=f"got {group.min_count}, but with autoscaling every group begins empty; leave "
            "it out",
            also_reads=(_MODE,),
        )
    if group.deep_health_checks:
        yield Problem(
            path=(*path, "deep_health_checks"),
            code="karpenter-deep-checks",
            message=f"got {', '.join(group.deep_health_checks)}; they take an hour or more, in "
            "which Karpenter adds further instances for the pods that wait. Leave them out",
            also_reads=(_MODE,),
        )
    keys: list[tuple[str, ConfigPath]] = [(key, ("labels", key)) for key in group.labels]
    keys += [(taint.key, ("taints", place, "key")) for place, taint in enumerate(group.taints)]
    for key, inside in keys:
        domain = key.rpartition("/")[0]
        if any(f".{domain}".endswith(f".{own}") for own in OWN_LABELS):
            yield Problem(
                path=(*path, *inside),
                code="karpenter-own-key",
                message=f"{inside[0]} of {domain} are Karpenter's own; use another domain",
                also_reads=(_MODE,),
            )
