"""The SageMaker HyperPod cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IValidation

from kascade.aws._execution_role import ExecutionRole
from kascade.aws._group_property import group_property
from kascade.aws.instance_group import (
    MAX_SECURITY_GROUPS,
    MAX_SUBNETS,
    NAME,
    InstanceGroup,
    mistakes,
)
from kascade.aws.lifecycle import LifecycleScript, PlainNodes
from kascade.errors import KascadeError

MIN_TIERED_PERCENTAGE: Final = 20
_MAX_PERCENTAGE: Final = 100
_MAX_GROUPS: Final = 100
_MAX_BUCKET_PART: Final = 20
"""What the lifecycle bucket's name has room for beside account and region."""

_READ_ACTIONS: Final = (
    "sagemaker:DescribeCluster",
    "sagemaker:DescribeClusterEvent",
    "sagemaker:DescribeClusterNode",
    "sagemaker:ListClusterEvents",
    "sagemaker:ListClusterNodes",
)
_CONTAINER_INSIGHTS: Final = "ContainerInsights"


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodSettings:
    """What a cluster's groups have in common.

    Attributes:
        node_recovery: Whether HyperPod replaces instances that fail health checks.
        tiered_storage_percentage: Share of host RAM lent to managed tiered storage, 20 to 100, or
            None for none.
    """

    node_recovery: Literal["Automatic", "None"] = "Automatic"
    tiered_storage_percentage: int | None = None


class EksCluster(Protocol):
    """What is asked of an EKS cluster: ``ICluster`` of ``aws_eks_v2`` and of ``aws_eks`` has it."""

    @property
    def cluster_arn(self) -> str:
        """ARN."""
        ...

    @property
    def cluster_name(self) -> str:
        """Name."""
        ...

    @property
    def cluster_security_group(self) -> ec2.ISecurityGroup:
        """Group of the control plane; only asked for where ``security_groups`` are left out."""
        ...


class IHyperPodCluster(Protocol):
    """A HyperPod cluster, made here or elsewhere."""

    @property
    def cluster_arn(self) -> str:
        """ARN; ends with an id of HyperPod's choice."""
        ...

    @property
    def cluster_name(self) -> str:
        """Name."""
        ...

    @property
    def connections(self) -> ec2.Connections:
        """Rules of the nodes' security groups."""
        ...

    def grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        """Allow actions on this cluster."""
        ...

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow looking at the cluster, its nodes and its events."""
        ...

    def grant_update_software(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow renewing the nodes' system software."""
        ...

    def grant_node_volumes(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow attaching EBS volumes to nodes and detaching them, as a CSI driver does."""
        ...

    def metric(self, name: str, **options: Any) -> cloudwatch.Metric:
        """Return a CloudWatch metric of the EKS cluster below."""
        ...


@jsii.implements(ec2.IConnectable)
class _Cluster(Construct):
    """What can be done with a HyperPod cluster, whoever made it."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self._arn = self._name = ""
        self._eks_name: str | None = None
        self._security_groups: list[ec2.ISecurityGroup] = []
        self._connections = ec2.Connections()

    @property
    def cluster_arn(self) -> str:
        """ARN; ends with an id of HyperPod's choice."""
        return self._arn

    @property
    def cluster_name(self) -> str:
        """Name."""
        return self._name

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """Rules of the nodes' security groups."""
        return self._connections

    def grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        """Allow actions on this cluster, such as ``sagemaker:BatchRebootClusterNodes``."""
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[self.cluster_arn], scope=self
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow looking at the cluster, its nodes and its events."""
        return self.grant(grantee, *_READ_ACTIONS)

    def grant_update_software(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow renewing the nodes' system software."""
        return self.grant(grantee, "sagemaker:DescribeCluster", "sagemaker:UpdateClusterSoftware")

    def grant_node_volumes(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow attaching EBS volumes to nodes and detaching them, as a CSI driver does."""
        return self.grant(
            grantee, "sagemaker:AttachClusterNodeVolume", "sagemaker:DetachClusterNodeVolume"
        )

    def metric(self, name: str, **options: Any) -> cloudwatch.Metric:
        """Return a CloudWatch metric of the EKS cluster below, by default of Container Insights.

        HyperPod itself publishes none. Container Insights does once its EKS add-on
        (``amazon-cloudwatch-observability``) is there.

        Args:
            name: Such as ``cluster_failed_node_count``.
            options: What ``aws_cloudwatch.Metric`` takes: ``statistic``, ``period``, ...

        Raises:
            KascadeError: An imported cluster whose EKS cluster is unknown.
        """
        if self._eks_name is None:
            message = (
                f"{self.node.path} was imported without its EKS cluster, by which metrics are "
                "named; give eks_cluster_name"
            )
            raise KascadeError(message)
        given: dict[str, Any] = {
            "namespace": _CONTAINER_INSIGHTS,
            "dimensions_map": {"ClusterName": self._eks_name},
        }
        return cloudwatch.Metric(metric_name=name, **{**given, **options})

    def metric_node_count(self, **options: Any) -> cloudwatch.Metric:
        """Nodes of the EKS cluster, of any kind (Container Insights)."""
        return self.metric("cluster_node_count", **options)

    def metric_failed_node_count(self, **options: Any) -> cloudwatch.Metric:
        """Nodes of the EKS cluster that report a bad condition (Container Insights)."""
        return self.metric("cluster_failed_node_count", **options)


class _ImportedCluster(_Cluster):
    def __init__(  # noqa: PLR0913 - the attributes of a cluster
        self,
        scope: Construct,
        construct_id: str,
        *,
        arn: str,
        name: str,
        eks_name: str | None,
        security_groups: Sequence[ec2.ISecurityGroup],
    ) -> None:
        super().__init__(scope, construct_id)
        self._arn, self._name, self._eks_name = arn, name, eks_name
        self._connections = ec2.Connections(security_groups=list(security_groups))


class HyperPodCluster(_Cluster):
    """GPU nodes under HyperPod's care, orchestrated by EKS.

    The template always states instance groups and node recovery together with tiered storage:
    HyperPod refuses an update that carries tiered storage alone. Name, EKS cluster, and the
    cluster's own subnets and security groups replace the cluster when they change; all else is
    updated in place. So name ``vpc_subnets`` where the VPC may get another zone, and give groups
    in that zone subnets of their own.

    HyperPod wants its agents and rights inside EKS at its own creation: whoever applies them
    makes ``resource`` depend on that.

    HyperPod writes to ``/aws/sagemaker/Clusters/<name>/<id>``; since the id is its own choice,
    that log group cannot be made here, and its retention is whatever HyperPod sets.

    Attributes:
        resource: The cluster.
        execution_role: What its nodes run as.
        lifecycle: The script that prepares each node.
    """

    def __init__(  # noqa: PLR0913 - where it stands, and what is in it
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: EksCluster,
        vpc: ec2.IVpc,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        lifecycle: LifecycleScript | None = None,
        cluster_name: str | None = None,
        settings: HyperPodSettings | None = None,
        instance_groups: Mapping[str, InstanceGroup] | None = None,
    ) -> None:
        """Make the cluster.

        Args:
            scope: Where in the construct tree.
            construct_id: Under which name.
            cluster: EKS, with authentication mode API or API_AND_CONFIG_MAP.
            vpc: The VPC of the EKS cluster.
            vpc_subnets: Of the nodes. Without it: private ones with a way out, else isolated ones.
            security_groups: Of the nodes, at most five. Without it one of its own, whose members
                reach each other (as EFA wants it) and the EKS cluster.
            lifecycle: Prepares each node. Without it Kascade's own script, which moves container
                images to the second volume.
            cluster_name: Without it one made of the path.
            settings: What all groups share.
            instance_groups: By name; more can be added later.

        Raises:
            KascadeError: HyperPod would refuse it; with every reason.
        """
        super().__init__(scope, construct_id)
        self._vpc = vpc
        self._eks_name = cluster.cluster_name
        self._settings = settings or HyperPodSettings()
        self._name = cluster_name or cdk.Names.unique_resource_name(
            self, max_length=63, separator="-"
        )
        subnet_ids = self._subnet_ids(vpc_subnets)
        rules: list[Construct] = []
        if security_groups is None:
            group, rules = self._own_security_group(cluster)
            security_groups = [group]
        self._security_groups = list(security_groups)
        self._connections = ec2.Connections(security_groups=self._security_groups)
        _refuse(self.node.path, self._mistakes(subnet_ids))
        self.lifecycle = lifecycle or self._own_lifecycle()
        self.execution_role = ExecutionRole(
            self,
            "ExecutionRole",
            cluster_arn=cluster.cluster_arn,
            vpc_id=vpc.vpc_id,
            subnet_ids=subnet_ids,
            security_group_ids=[g.security_group_id for g in self._security_groups],
            bucket=self.lifecycle.bucket,
        )
        self._groups: dict[str, sagemaker.CfnCluster.ClusterInstanceGroupProperty] = {}
        self.resource = self._make_resource(cluster.cluster_arn, subnet_ids)
        self.resource.node.add_dependency(
            self.execution_role, self.lifecycle.bucket, self.lifecycle.upload, *rules
        )
        self._arn = self.resource.attr_cluster_arn
        self.node.add_validation(_HasGroups(self._groups))
        for name, instance_group in (instance_groups or {}).items():
            self.add_instance_group(name, instance_group)

    @staticmethod
    def from_hyperpod_cluster_attributes(  # noqa: PLR0913 - the attributes of a cluster
        scope: Construct,
        construct_id: str,
        *,
        cluster_arn: str,
        cluster_name: str,
        eks_cluster_name: str | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
    ) -> IHyperPodCluster:
        """Take a cluster that was made elsewhere.

        Args:
            scope: Where in the construct tree.
            construct_id: Under which name.
            cluster_arn: Its ARN.
            cluster_name: Its name.
            eks_cluster_name: Name of the EKS cluster below it, for metrics.
            security_groups: Of its nodes, for ``connections``.
        """
        return _ImportedCluster(
            scope,
            construct_id,
            arn=cluster_arn,
            name=cluster_name,
            eks_name=eks_cluster_name,
            security_groups=security_groups,
        )

    def add_instance_group(self, name: str, group: InstanceGroup) -> None:
        """Add a group of instances.

        Args:
            name: Its name in the cluster.
            group: The group.

        Raises:
            KascadeError: HyperPod would refuse it; with every reason.
        """
        found = list(mistakes(name, group))
        if name in self._groups:
            found.append(f"there is a group {name!r} already; give each its own name")
        if len(self._groups) >= _MAX_GROUPS:
            found.append(f"it would be group {len(self._groups) + 1}; a cluster has {_MAX_GROUPS}")
        subnet_ids: list[str] = []
        if group.vpc_subnets is not None:
            subnet_ids = self._subnet_ids(group.vpc_subnets)
            found += _of_subnets(subnet_ids)
        _refuse(f"{self.node.path}, instance group {name!r}", found)
        own = list(group.security_groups) or self._security_groups
        override = _vpc_config(subnet_ids, own) if subnet_ids else None
        self.execution_role.admit_places(subnet_ids, [g.security_group_id for g in own])
        self.execution_role.admit_keys(group.keys)
        self._groups[name] = group_property(
            name,
            group,
            role_arn=self.execution_role.role_arn,
            source_uri=self.lifecycle.source_uri,
            on_create=self.lifecycle.on_create,
            vpc_config=override,
        )
        self.resource.instance_groups = list(self._groups.values())

    def _make_resource(self, eks_arn: str, subnet_ids: list[str]) -> sagemaker.CfnCluster:
        percentage = self._settings.tiered_storage_percentage
        return sagemaker.CfnCluster(
            self,
            "Cluster",
            cluster_name=self._name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=eks_arn)
            ),
            vpc_config=_vpc_config(subnet_ids, self._security_groups),
            node_recovery=self._settings.node_recovery,
            node_provisioning_mode="Continuous",
            tiered_storage_config=(
                sagemaker.CfnCluster.TieredStorageConfigProperty(
                    mode="Enable", instance_memory_allocation_percentage=percentage
                )
                if percentage is not None
                # Left out, the tier would keep the RAM that it was lent.
                else sagemaker.CfnCluster.TieredStorageConfigProperty(mode="Disable")
            ),
        )

    def _subnet_ids(self, selection: ec2.SubnetSelection | None) -> list[str]:
        if selection is None:
            inside = self._vpc.private_subnets or self._vpc.isolated_subnets
            return [subnet.subnet_id for subnet in inside]
        if selection.subnets is not None:
            return [subnet.subnet_id for subnet in selection.subnets]
        chosen = self._vpc.select_subnets(
            availability_zones=selection.availability_zones,
            one_per_az=selection.one_per_az,
            subnet_filters=selection.subnet_filters,
            subnet_group_name=selection.subnet_group_name,
            subnet_type=selection.subnet_type,
        )
        return list(chosen.subnet_ids)

    def _mistakes(self, subnet_ids: list[str]) -> list[str]:
        found = _of_subnets(subnet_ids)
        if not cdk.Token.is_unresolved(self._name) and not NAME.fullmatch(self._name):
            found.append(
                f"{self._name!r} cannot name a HyperPod cluster; use 1 to 63 letters, digits and "
                "inner hyphens"
            )
        count = len(self._security_groups)
        if not 1 <= count <= MAX_SECURITY_GROUPS:
            found.append(f"{count} security groups; HyperPod takes 1 to {MAX_SECURITY_GROUPS}")
        percentage = self._settings.tiered_storage_percentage
        if percentage is not None and not MIN_TIERED_PERCENTAGE <= percentage <= _MAX_PERCENTAGE:
            found.append(
                f"tiered_storage_percentage is {percentage}; HyperPod takes "
                f"{MIN_TIERED_PERCENTAGE} to {_MAX_PERCENTAGE}, and None switches that tier off"
            )
        return found

    def _own_security_group(self, cluster: EksCluster) -> tuple[ec2.SecurityGroup, list[Construct]]:
        try:
            eks_group = cluster.cluster_security_group.security_group_id
        except RuntimeError as error:
            message = (
                f"{self.node.path}: the EKS cluster was imported without its security group, "
                "which the nodes must reach; give security_groups here, or "
                "cluster_security_group_id there"
            )
            raise KascadeError(message) from error
        group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=self._vpc,
            description="HyperPod nodes",
            allow_all_outbound=True,
        )
        own = group.security_group_id
        rules: list[Construct] = [
            ec2.CfnSecurityGroupIngress(
                self,
                name,
                group_id=target,
                source_security_group_id=source,
                ip_protocol="-1",
                description=description,
            )
            for name, source, target, description in (
                ("NodesToNodes", own, own, "Everything among the nodes"),
                ("EksToNodes", eks_group, own, "From the control plane and other nodes"),
                ("NodesToEks", own, eks_group, "From HyperPod nodes"),
            )
        ]
        # EFA wants this rule by itself, beside the one that allows all outbound traffic.
        rules.append(
            ec2.CfnSecurityGroupEgress(
                self,
                "NodesFromNodes",
                group_id=own,
                destination_security_group_id=own,
                ip_protocol="-1",
                description="Everything among the nodes, stated for EFA",
            )
        )
        return group, rules

    def _own_lifecycle(self) -> LifecycleScript:
        part = cdk.Names.unique_resource_name(
            self, max_length=_MAX_BUCKET_PART, separator="-"
        ).lower()
        return LifecycleScript(self, "Lifecycle", deployment=part, plan=PlainNodes())


@jsii.implements(IValidation)
class _HasGroups:
    """HyperPod makes no cluster without a group; known only once all were added."""

    def __init__(self, groups: Mapping[str, object]) -> None:
        self._groups = groups

    @jsii.member(jsii_name="validate")
    def validate(self) -> list[str]:
        if self._groups:
            return []
        return ["a HyperPod cluster needs an instance group; call add_instance_group"]


def _vpc_config(
    subnet_ids: list[str], security_groups: Sequence[ec2.ISecurityGroup]
) -> sagemaker.CfnCluster.VpcConfigProperty:
    return sagemaker.CfnCluster.VpcConfigProperty(
        security_group_ids=[group.security_group_id for group in security_groups],
        subnets=subnet_ids,
    )


def _of_subnets(subnet_ids: Sequence[str]) -> list[str]:
    if 1 <= len(subnet_ids) <= MAX_SUBNETS:
        return []
    selected = f"vpc_subnets selects {len(subnet_ids)} subnets"
    return [f"{selected}; HyperPod takes 1 to {MAX_SUBNETS}, none of them public"]


def _refuse(where: str, found: Sequence[str]) -> None:
    if found:
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        raise KascadeError("\n".join([f"{where}: {count}", *(f"  {text}" for text in found)]))
