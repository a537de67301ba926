"""A whole Curvine pool: masters, workers, the CSI driver and what stands around them."""

from __future__ import annotations

from constructs import Construct

from kascade.kube._objects import expect
from kascade.kube.curvine.bootstrap import CurvineBootstrap
from kascade.kube.curvine.csi import CurvineCsi
from kascade.kube.curvine.master import CurvineMaster
from kascade.kube.curvine.policies import CurvinePolicies
from kascade.kube.curvine.worker import CurvineWorkers
from kascade.kube.rules import MastersFixed
from kascade.planning.parts import PoolPlan


class CurvinePool(Construct):
    """One pool over the NVMe of the planned nodes, and the driver that mounts it.

    It stands on its namespace (privileged: workers and driver mount directories of the host), on
    :class:`~kascade.kube.Classes`, on nodes outside any HyperPod instance group for its masters,
    on the EBS CSI driver for their volumes, and on a network that obeys NetworkPolicies. A cluster
    takes one pool: the driver registers one name.
    """

    def __init__(self, scope: Construct, construct_id: str, *, pool: PoolPlan) -> None:
        """Add the pool.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            pool: See :func:`~kascade.kube.plan_pool`.

        Raises:
            KascadeError: A plan is not the one that the argument takes.
        """
        super().__init__(scope, construct_id)
        expect(pool=(pool, PoolPlan))
        curvine = pool.curvine
        CurvinePolicies(self, "Policies", curvine=curvine, network=pool.network)
        master = CurvineMaster(self, "Master", curvine=curvine)
        # With one there is nothing to guard: a change to three brings the rule with it, and what
        # has no namespace is applied before any StatefulSet.
        if curvine.masters > 1:
            MastersFixed(self, "MastersFixed", namespace=curvine.namespace, name=master.config_name)
        for worker in curvine.workers:
            CurvineWorkers(
                self,
                f"Workers-{worker.group}",
                curvine=curvine,
                worker=worker,
                taint_keys=pool.taint_keys,
            )
        CurvineBootstrap(self, "Bootstrap", curvine=curvine, config_name=master.config_name)
        CurvineCsi(self, "Csi", curvine=curvine, jobs_image=pool.jobs_image)
