"""The chart of the shared tier L2."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.cache_keys import CacheKeys
from kascade.kube.curvine.pool import CurvinePool
from kascade.kube.janitor import JanitorCommons
from kascade.kube.l2.directories import CacheDirectories
from kascade.kube.verify import VerifyProgram
from kascade.plan import CurvinePlan, DirectoriesPlan, EnginePlan, JanitorPlan, NetworkPlan
from kascade.planning.parts import PoolPlan


class CacheChart(cdk8s.Chart):
    """Curvine or directories, the keys that seal blocks, programs that look after it.

    HyperPod's managed tier needs neither of the first two: its daemon is on every node already.
    """

    def __init__(  # noqa: PLR0913 - seven of its own, keyword-only
        self,
        scope: Construct,
        construct_id: str,
        *,
        curvine: CurvinePlan | None,
        directories: DirectoriesPlan | None,
        engines: tuple[EnginePlan, ...],
        janitors: tuple[JanitorPlan, ...],
        taint_keys: tuple[str, ...],
        network: NetworkPlan,
        jobs_image: str,
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            curvine: The plan's slice, where L2 is Curvine.
            directories: The plan's slice, where L2 is a directory of another file system.
            engines: All engines, for the keys that they read.
            janitors: All janitors, for what they share.
            taint_keys: Taints of the GPU groups.
            network: Addresses of the VPC.
            jobs_image: Any image with a Python 3.
        """
        super().__init__(scope, construct_id)
        if curvine is not None:
            pool = PoolPlan(
                curvine=curvine, network=network, taint_keys=taint_keys, jobs_image=jobs_image
            )
            CurvinePool(self, "Curvine", pool=pool)
        if directories is not None:
            CacheDirectories(self, "Directories", directories=directories, image=jobs_image)
        if engines:
            VerifyProgram(self, "VerifyProgram", namespace=engines[0].namespace)
        if janitors:
            JanitorCommons(self, "Janitors", janitor=janitors[0], network=network)
        CacheKeys(self, "Keys", engines=engines, image=jobs_image, network=network)
