"""The chart of one model."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.engine import Engine
from kascade.sizing.plan import EnginePlan, NetworkPlan


class EngineChart(cdk8s.Chart):
    """One model's engines, each with its LMCache server."""

    def __init__(
        self, scope: Construct, construct_id: str, *, engine: EnginePlan, network: NetworkPlan
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            engine: The plan's slice.
            network: Addresses of the VPC.
        """
        super().__init__(scope, construct_id)
        Engine(self, "Engine", engine=engine, network=network)
