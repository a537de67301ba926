"""The chart of one model."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.errors import KascadeError
from kascade.kube.curvine.volumes import CurvineVolume
from kascade.kube.engine import Engine
from kascade.kube.inference_endpoint import InferenceEndpoint
from kascade.kube.janitor import Janitor
from kascade.kube.verify import Verify
from kascade.kube.weights import BucketWeights
from kascade.plan import (
    AdmissionPlan,
    CurvineL2Plan,
    CurvinePlan,
    EnginePlan,
    JanitorPlan,
    NetworkPlan,
    VerifyPlan,
)


class EngineChart(cdk8s.Chart):
    """One model's engines, their volume, what keeps it in bounds, and the check of sharing."""

    def __init__(  # noqa: PLR0913 - five of its own, keyword-only
        self,
        scope: Construct,
        construct_id: str,
        *,
        engine: EnginePlan,
        network: NetworkPlan,
        curvine: CurvinePlan | None = None,
        verify: VerifyPlan | None = None,
        janitor: JanitorPlan | None = None,
        admission: AdmissionPlan | None = None,
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            engine: The plan's slice.
            network: Addresses of the VPC.
            curvine: The pool; needed when the engine's L2 is Curvine.
            verify: The verification; None for an engine without L2.
            janitor: What bounds the volume; None without, or turned off.
            admission: Who changes the operator's pods; needed when the operator makes them.
        """
        super().__init__(scope, construct_id)
        l2 = engine.lmcache.l2
        if isinstance(l2, CurvineL2Plan) and curvine is not None:
            (volume,) = [volume for volume in curvine.volumes if volume.name == l2.volume]
            CurvineVolume(self, "Volume", curvine=curvine, volume=volume)
        if engine.mounted_weights is not None and engine.mounted_weights.bucket is not None:
            BucketWeights(self, "Weights", bucket=engine.mounted_weights.bucket)
        if engine.operator is None:
            Engine(self, "Engine", engine=engine, network=network)
        elif admission is None:
            msg = f"{engine.name} is in mode operator, so it needs a plan of its admission"
            raise KascadeError(msg)
        else:
            InferenceEndpoint(
                self,
                "Endpoint",
                engine=engine,
                operator=engine.operator,
                admission=admission,
                network=network,
            )
        if verify is not None:
            Verify(self, "Verify", verify=verify)
        if janitor is not None:
            Janitor(self, "Janitor", janitor=janitor)
