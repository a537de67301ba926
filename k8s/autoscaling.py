"""The chart of what adds and removes instances; without them the others' pods would wait."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.autoscaling import GroupNodePool
from kascade.plan import AutoscalingPlan


class AutoscalingChart(cdk8s.Chart):
    """A node class and a pool for each instance group."""

    def __init__(
        self, scope: Construct, construct_id: str, *, autoscaling: AutoscalingPlan
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            autoscaling: The plan's slice.
        """
        super().__init__(scope, construct_id)
        for pool in autoscaling.pools:
            GroupNodePool(self, f"Pool-{pool.group}", pool=pool)
