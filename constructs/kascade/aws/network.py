"""VPC of one deployment."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from kascade.aws._logs import log_group
from kascade.aws._nag import accept
from kascade.plan import ExistingVpcPlan, NetworkPlan


@jsii.implements(ec2.IIpAddresses)
class _PlannedAddresses:
    """Gives each subnet the addresses that the plan names, where the CDK would cut its own."""

    def __init__(self, vpc_cidr: str, cidrs: Mapping[tuple[str, str], str]) -> None:
        self._vpc_cidr = vpc_cidr
        self._cidrs = cidrs

    @jsii.member(jsii_name="allocateVpcCidr")
    def allocate_vpc_cidr(self) -> ec2.VpcIpamOptions:
        return ec2.VpcIpamOptions(cidr_block=self._vpc_cidr)

    @jsii.member(jsii_name="allocateSubnetsCidr")
    def allocate_subnets_cidr(
        self,
        *,
        requested_subnets: Sequence[ec2.RequestedSubnet | dict[str, Any]],
        vpc_cidr: str,  # noqa: ARG002 - part of the interface
    ) -> ec2.SubnetIpamOptions:
        return ec2.SubnetIpamOptions(
            allocated_subnets=[
                ec2.AllocatedSubnet(
                    cidr=self._cidrs[request.configuration.name, request.availability_zone]
                )
                for request in cast("Sequence[ec2.RequestedSubnet]", requested_subnets)
            ]
        )


_NO_ROUTES: Final = "@aws-cdk/aws-ec2:noSubnetRouteTableId"


class ServingNetwork(Construct):
    """Subnets of each kind in each zone, endpoints, and the nodes' security group.

    The plan names each subnet's addresses, so a zone added later moves none of those that exist.
    HyperPod and EKS keep to the home zones' subnets, since their own lists may never change.

    Without NAT gateways there is neither a public subnet nor an internet gateway: images, models
    and AWS are then reached through endpoints.

    The VPC's default security group is emptied, which takes a small custom resource, since
    CloudFormation cannot change a group it did not make. Nothing of ours uses that group; its
    rule "everything among members" would otherwise wait for the first thing created by hand.

    Attributes:
        vpc: The VPC. It knows its subnets by the group names ``private``, ``public`` and
            ``collector``.
        collector_subnets: Of the managed Prometheus collector, one per zone or none.
        node_security_group: For HyperPod nodes and the EKS control plane's interfaces.
    """

    vpc: ec2.IVpc

    def __init__(self, scope: Construct, construct_id: str, *, plan: NetworkPlan) -> None:
        super().__init__(scope, construct_id)
        self._home_zones = plan.home_zones
        if plan.existing is None:
            self._make_vpc(plan)
        else:
            self._import_vpc(plan, plan.existing)
        self.node_security_group = self._make_node_security_group()

    def _import_vpc(self, plan: NetworkPlan, existing: ExistingVpcPlan) -> None:
        """Take somebody's VPC by its ids; its routes, endpoints and flow logs are theirs."""
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            # The CDK takes one range; rules here go by the plan's `vpc_cidrs`.
            vpc_cidr_block=plan.vpc_cidr,
            availability_zones=list(plan.zones),
            private_subnet_ids=list(existing.private_subnet_ids),
        )
        self._private_subnets = dict(zip(plan.zones, self.vpc.private_subnets, strict=True))
        self.collector_subnets = [
            ec2.Subnet.from_subnet_attributes(
                self, f"Collector-{zone}", subnet_id=subnet_id, availability_zone=zone
            )
            for zone, subnet_id in zip(
                plan.zones,
                existing.collector_subnet_ids,
                strict=bool(existing.collector_subnet_ids),
            )
        ]
        cdk.Annotations.of(self).acknowledge_warning(
            _NO_ROUTES, "Routes are the owner's; nothing here asks for them."
        )

    def _make_vpc(self, plan: NetworkPlan) -> None:
        closed = plan.nat_gateways == 0
        inside = ec2.SubnetType.PRIVATE_ISOLATED if closed else ec2.SubnetType.PRIVATE_WITH_EGRESS
        cidrs = {
            "public": plan.public_cidrs,
            "private": plan.private_cidrs,
            "collector": plan.collector_cidrs,
        }
        kinds = {
            "public": ec2.SubnetType.PUBLIC,
            "private": inside,
            "collector": ec2.SubnetType.PRIVATE_ISOLATED,
        }
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=_PlannedAddresses(
                plan.vpc_cidr,
                {
                    (kind, zone): cidr
                    for kind, of_zones in cidrs.items()
                    for zone, cidr in zip(plan.zones, of_zones, strict=bool(of_zones))
                },
            ),
            availability_zones=list(plan.zones),
            nat_gateways=plan.nat_gateways,
            restrict_default_security_group=True,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name=kind,
                    subnet_type=kinds[kind],
                    # Only NAT gateways stand in public subnets, and they bring their addresses.
                    map_public_ip_on_launch=False if kind == "public" else None,
                )
                for kind, of_zones in cidrs.items()
                if of_zones
            ],
        )
        self._private_subnets = dict(zip(plan.zones, self._subnets("private"), strict=True))
        self.collector_subnets = self._subnets("collector") if plan.collector_cidrs else []
        self._accept_literal_zones()
        for subnet in self.private_subnets:
            cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")

        self._bound_default_group_log(plan.flow_log_retention_days)
        self._add_flow_log(plan.flow_log_retention_days)
        self._add_endpoints(plan)

    @property
    def private_subnets(self) -> list[ec2.ISubnet]:
        """One private subnet per zone, in the plan's order."""
        return list(self._private_subnets.values())

    @property
    def home_subnets(self) -> list[ec2.ISubnet]:
        """Private subnets of the zones in which everything lives that can never move."""
        return [self._private_subnets[zone] for zone in self._home_zones]

    def _subnets(self, kind: str) -> list[ec2.ISubnet]:
        return self.vpc.select_subnets(subnet_group_name=kind).subnets

    def private_subnet_in(self, zone: str) -> ec2.ISubnet:
        """The private subnet of one of the plan's zones."""
        return self._private_subnets[zone]

    def _accept_literal_zones(self) -> None:
        """Tell the CDK's validator and cfn-lint that zones are written out on purpose."""
        accept(
            self.vpc,
            "CloudFormation-Validate::W3010",
            "GPU capacity exists in certain zones only, so a person names them.",
        )
        for subnet in [*self.vpc.public_subnets, *self.private_subnets, *self.collector_subnets]:
            resource = cast("cdk.CfnResource", subnet.node.default_child)
            resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3010"]}})

    def _bound_default_group_log(self, retention_days: int) -> None:
        """Give the function that empties the default group a log group that ends."""
        log = log_group(self, "DefaultGroupLog", retention_days=retention_days)
        provider = cdk.Stack.of(self).node.find_child(
            "Custom::VpcRestrictDefaultSGCustomResourceProvider"
        )
        handler = cast("cdk.CfnResource", provider.node.find_child("Handler"))
        handler.add_property_override("LoggingConfig.LogGroup", log.log_group_name)

    def _add_flow_log(self, retention_days: int) -> None:
        self.vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(
                log_group(self, "FlowLogGroup", retention_days=retention_days)
            ),
            traffic_type=ec2.FlowLogTrafficType.ALL,
        )

    def _add_endpoints(self, plan: NetworkPlan) -> None:
        inside = ec2.SubnetSelection(subnets=self.private_subnets)
        self.vpc.add_gateway_endpoint(
            "S3", service=ec2.GatewayVpcEndpointAwsService.S3, subnets=[inside]
        )
        if not plan.interface_endpoints:
            return
        group = ec2.SecurityGroup(
            self,
            "EndpointSecurityGroup",
            vpc=self.vpc,
            description="HTTPS from inside the VPC to AWS endpoints",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(
            ec2.Peer.ipv4(plan.vpc_cidr), ec2.Port.tcp(443), "HTTPS from inside the VPC"
        )
        for name in plan.interface_endpoints:
            self.vpc.add_interface_endpoint(
                f"Endpoint-{name}",
                service=ec2.InterfaceVpcEndpointAwsService(name),
                subnets=inside,
                security_groups=[group],
                open=False,
            )

    def _make_node_security_group(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self,
            "NodeSecurityGroup",
            vpc=self.vpc,
            description="HyperPod nodes and the EKS control plane",
            allow_all_outbound=True,
        )
        ec2.CfnSecurityGroupIngress(
            self,
            "NodeSelfIngress",
            group_id=group.security_group_id,
            source_security_group_id=group.security_group_id,
            ip_protocol="-1",
            description="Everything among the nodes",
        )
        # EFA's health checks want this rule by itself, and the construct above leaves out any
        # further egress rule as long as it allows all outbound traffic.
        ec2.CfnSecurityGroupEgress(
            self,
            "NodeSelfEgress",
            group_id=group.security_group_id,
            destination_security_group_id=group.security_group_id,
            ip_protocol="-1",
            description="Everything among the nodes, stated for EFA",
        )
        return group
