"""The network: all that outlives a cluster."""

from constructs import Construct

from kascade.aws.drain import InterfaceDrain
from kascade.aws.network import ServingNetwork
from kascade.plan import ServingPlan
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
        InterfaceDrain(
            self,
            "Drain",
            vpc=self.network.vpc,
            subnets=self.network.private_subnets,
            holds=[self.network.node_security_group],
            log_retention_days=plan.network.flow_log_retention_days,
            cluster_name=None if plan.network.existing else plan.cluster.eks_name,
        )
