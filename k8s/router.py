"""The chart of all routers and of the doors in front of them."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.door import Door
from kascade.kube.router import Router
from kascade.plan import DoorPlan, NetworkPlan, RouterPlan


class RouterChart(cdk8s.Chart):
    """One router in front of each model, and one door for each tenant that needs one."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        routers: tuple[RouterPlan, ...],
        doors: tuple[DoorPlan, ...],
        network: NetworkPlan,
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            routers: The plan's slice.
            doors: Likewise.
            network: Addresses of the VPC.
        """
        super().__init__(scope, construct_id)
        for router in routers:
            Router(self, router.name, router=router, network=network)
        for door in doors:
            Door(self, door.name, door=door)
