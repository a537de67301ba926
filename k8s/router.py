"""The chart of all routers and of the tenant gateways in front of them."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.router import Router
from kascade.kube.tenant_gateway import TenantGateway
from kascade.plan import NetworkPlan, RouterPlan, TenantGatewayPlan


class RouterChart(cdk8s.Chart):
    """One router in front of each model, and one tenant gateway for each tenant that needs one."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        routers: tuple[RouterPlan, ...],
        tenant_gateways: tuple[TenantGatewayPlan, ...],
        network: NetworkPlan,
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            routers: The plan's slice.
            tenant_gateways: Likewise.
            network: Addresses of the VPC.
        """
        super().__init__(scope, construct_id)
        for router in routers:
            Router(self, router.name, router=router, network=network)
        for gateway in tenant_gateways:
            TenantGateway(self, gateway.name, gateway=gateway)
