"""The network: all that outlives a cluster."""

from constructs import Construct

from kascade.aws.network import ServingNetwork
from kascade.sizing.plan import ServingPlan
from stacks._base import KascadeStack


class NetworkStack(KascadeStack):
    """VPC, endpoints and the security group of the nodes."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: ServingPlan) -> None:
        super().__init__(
            scope,
            construct_id,
            plan=plan,
            description=f"Kascade {plan.name}: VPC, endpoints and node security group",
        )
        self.network = ServingNetwork(self, "Network", plan=plan.network)
