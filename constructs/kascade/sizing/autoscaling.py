"""Groups that HyperPod's Karpenter fills and empties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kascade.plan import AutoscalingPlan, NodePoolPlan
from kascade.sizing.draft import Draft, Group

EMPTY_SECONDS: Final = 600
"""An instance takes minutes to come and its engine minutes to load, so one that may be wanted again
soon is kept. Ten is about what both take together (assumed)."""

AWAY_AT_ONCE: Final = 1
"""Never two engines of a model at a time."""

_GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
"""HyperPod sets it on every node. Karpenter has to know that it will be there, or it adds nothing
for a pod that asks for its group."""


def autoscaling_plan(draft: Draft, groups: Mapping[str, Group]) -> AutoscalingPlan | None:
    """Plan one pool for each group; None without autoscaling."""
    if draft.config.hyperpod.autoscaling is None:
        return None
    return AutoscalingPlan(pools=tuple(_pool(group) for group in groups.values()))


def _pool(group: Group) -> NodePoolPlan:
    config = group.config
    return NodePoolPlan(
        group=config.name,
        instance_types=config.types,
        zone=config.zone or "",
        labels={**dict(sorted(config.labels.items())), _GROUP_LABEL: config.name},
        taints=tuple((taint.key, taint.value, taint.effect) for taint in config.taints),
        gpus=config.count * group.instance.gpus,
        empty_seconds=EMPTY_SECONDS,
        away_at_once=AWAY_AT_ONCE,
    )
