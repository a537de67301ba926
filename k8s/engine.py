"""The chart of one model."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.curvine.volumes import CurvineVolume
from kascade.kube.engine import Engine
from kascade.sizing.plan import CurvinePlan, EnginePlan, NetworkPlan


class EngineChart(cdk8s.Chart):
    """One model's engines, each with its LMCache server, and their volume of the shared cache."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        engine: EnginePlan,
        network: NetworkPlan,
        curvine: CurvinePlan | None = None,
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            engine: The plan's slice.
            network: Addresses of the VPC.
            curvine: The pool; needed when the engine has an L2.
        """
        super().__init__(scope, construct_id)
        l2 = engine.lmcache.l2
        if l2 is not None and curvine is not None:
            (volume,) = [volume for volume in curvine.volumes if volume.name == l2.volume]
            CurvineVolume(self, "Volume", curvine=curvine, volume=volume)
        Engine(self, "Engine", engine=engine, network=network)
