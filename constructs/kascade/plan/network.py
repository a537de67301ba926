"""The network as planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOME_ZONES: Final = 2
"""EKS asks for two zones and HyperPod's cluster-level subnets may never change (createOnly in
CloudFormation's registry: AWS::SageMaker::Cluster VpcConfig, AWS::EKS::Nodegroup Subnets,
AWS::APS::Scraper Source)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcPlan:
    """A VPC that somebody else made.

    Attributes:
        private_subnet_ids: One for each zone, in their order.
        collector_subnet_ids: Likewise; empty without observability.
        further_cidrs: Its ranges beside ``vpc_cidr``.
    """

    vpc_id: str
    private_subnet_ids: tuple[str, ...]
    collector_subnet_ids: tuple[str, ...]
    further_cidrs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPlan:
    """VPC of one deployment.

    Attributes:
        existing: The VPC to use, or None when one is made.
        vpc_cidr: The range of the VPC, or the first of several: see :attr:`vpc_cidrs`.
        nat_gateways: One per zone or one in all; 0 closes the network.
        private_cidrs: Subnets of nodes and pods, one for each zone, in the order of ``zones``.
        public_cidrs: Subnets of the NAT gateways, likewise.
        collector_cidrs: Subnets of the managed Prometheus collector's interfaces, likewise;
            nothing else is in them, so network policies can admit the collector alone. Empty
            without observability.
        interface_endpoints: Short service names, such as ``ecr.api``.
    """

    vpc_cidr: str
    zones: tuple[str, ...]
    nat_gateways: int
    private_cidrs: tuple[str, ...]
    public_cidrs: tuple[str, ...]
    collector_cidrs: tuple[str, ...]
    interface_endpoints: tuple[str, ...]
    flow_log_retention_days: int
    existing: ExistingVpcPlan | None = None

    @property
    def vpc_cidrs(self) -> tuple[str, ...]:
        """Every range of the VPC; what is inside it may have an address of any."""
        return (self.vpc_cidr, *(self.existing.further_cidrs if self.existing else ()))

    @property
    def home_zones(self) -> tuple[str, ...]:
        """The first two, in which everything lives whose subnets AWS never lets change.

        A zone that is added later therefore moves nothing: see :data:`HOME_ZONES`.
        """
        return self.zones[:HOME_ZONES]
