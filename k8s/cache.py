"""The chart of the shared tier L2."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.cache_keys import CacheKeys
from kascade.kube.curvine.bootstrap import CurvineBootstrap
from kascade.kube.curvine.csi import CurvineCsi
from kascade.kube.curvine.master import CurvineMaster
from kascade.kube.curvine.policies import CurvinePolicies
from kascade.kube.curvine.worker import CurvineWorkers
from kascade.kube.janitor import JanitorCommons
from kascade.kube.verify import VerifyProgram
from kascade.sizing.plan import CurvinePlan, EnginePlan, JanitorPlan, NetworkPlan


class CacheChart(cdk8s.Chart):
    """Curvine, the volumes' directories, the keys that seal them, programs that look after it."""

    def __init__(  # noqa: PLR0913 - five of its own, keyword-only
        self,
        scope: Construct,
        construct_id: str,
        *,
        curvine: CurvinePlan,
        engines: tuple[EnginePlan, ...],
        janitors: tuple[JanitorPlan, ...],
        taint_keys: tuple[str, ...],
        network: NetworkPlan,
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            curvine: The plan's slice.
            engines: All engines, for the keys that they read.
            janitors: All janitors, for what they share.
            taint_keys: Taints of the GPU groups.
            network: Addresses of the VPC.
        """
        super().__init__(scope, construct_id)
        CurvinePolicies(self, "Policies", curvine=curvine, network=network)
        master = CurvineMaster(self, "Master", curvine=curvine)
        for worker in curvine.workers:
            CurvineWorkers(
                self,
                f"Workers-{worker.group}",
                curvine=curvine,
                worker=worker,
                taint_keys=taint_keys,
            )
        CurvineBootstrap(self, "Bootstrap", curvine=curvine, config_name=master.config_name)
        CurvineCsi(self, "Csi", curvine=curvine)
        if engines:
            VerifyProgram(self, "VerifyProgram", namespace=engines[0].namespace)
        if janitors:
            JanitorCommons(self, "Janitors", janitor=janitors[0], network=network)
        CacheKeys(self, "Keys", engines=engines, image=curvine.jobs_image, network=network)
