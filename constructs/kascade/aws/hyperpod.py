"""The SageMaker HyperPod cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IValidation

from kascade.aws._cluster import BaseCluster, IHyperPodCluster, ImportedCluster
from kascade.aws._execution_role import ExecutionRole
from kascade.aws._given import (
    TEXT,
    WHOLE,
    Kind,
    an,
    having,
    is_token,
    listed,
    mapped,
    one_of,
    optional,
    refuse,
    sift,
    sift_fields,
    wrong,
)
from kascade.aws._group_checks import mistakes, uncatalogued
from kascade.aws._group_property import group_property
from kascade.aws._names import CLUSTER_ARN
from kascade.aws._places import of_security_groups, subnets_of
from kascade.aws.instance_group import InstanceGroup
from kascade.aws.lifecycle import LifecycleScript, PlainNodes, room_in_bucket_name
from kascade.catalog.hyperpod import GROUP_NAME, MAX_PERCENTAGE, MIN_TIERED_PERCENTAGE
from kascade.catalog.regions import REGIONS

_MAX_GROUPS: Final = 100
_MAX_BUCKET_PART: Final = 20
"""Most of what the lifecycle bucket's name takes of the path; a region may have room for less."""

_NAMES: Final = "use 1 to 63 letters, digits and inner hyphens"


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


_SETTINGS: Final[Mapping[str, Kind]] = {
    "node_recovery": one_of("Automatic", "None"),
    "tiered_storage_percentage": optional(WHOLE),
}
_INSTANCE_GROUP: Final = an(InstanceGroup, "an InstanceGroup(instances=..., count=...)")
_SECURITY_GROUPS: Final = listed(
    having("a security group of aws_ec2", "security_group_id"), "a list of security groups"
)
_ARGUMENTS: Final[Mapping[str, Kind]] = {
    "cluster": having("an EKS cluster of aws_eks_v2 or aws_eks", "cluster_arn", "cluster_name"),
    "vpc": having("a VPC of aws_ec2", "vpc_id", "private_subnets"),
    "vpc_subnets": optional(an(ec2.SubnetSelection, "an ec2.SubnetSelection")),
    "security_groups": optional(_SECURITY_GROUPS),
    "lifecycle": optional(an(LifecycleScript, "a LifecycleScript")),
    "cluster_name": optional(TEXT),
    "settings": optional(an(HyperPodSettings, "HyperPodSettings(...)")),
    "instance_groups": optional(mapped(_INSTANCE_GROUP, "a dict of InstanceGroups by name")),
}


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


class HyperPodCluster(BaseCluster):
    """GPU nodes under HyperPod's care, orchestrated by EKS.

    The template always states instance groups and node recovery together with tiered storage:
    HyperPod rejects an update that carries tiered storage alone. Name, EKS cluster, and the
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
            KascadeError: HyperPod would reject it; with every reason.
        """
        super().__init__(scope, construct_id)
        given = {
            "cluster": cluster,
            "vpc": vpc,
            "vpc_subnets": vpc_subnets,
            "security_groups": security_groups,
            "lifecycle": lifecycle,
            "cluster_name": cluster_name,
            "settings": settings,
            "instance_groups": instance_groups,
        }
        sound, found = sift(given, _ARGUMENTS, {})
        self._vpc: ec2.IVpc = sound["vpc"]
        self._settings: HyperPodSettings = sound["settings"] or HyperPodSettings()
        self._name = sound["cluster_name"]
        if self._name is None:
            self._name = cdk.Names.unique_resource_name(self, max_length=63, separator="-")
        self._groups: dict[str, sagemaker.CfnCluster.ClusterInstanceGroupProperty] = {}
        self._members: dict[str, InstanceGroup] = {}
        self._scaled = False
        found += self._mistakes()
        subnet_ids: list[str] = []
        if self._vpc is not None and sound["vpc_subnets"] is vpc_subnets:
            subnet_ids, texts = subnets_of(self._vpc, vpc_subnets)
            found += texts
        eks_group: str | None = None
        if sound["security_groups"] is not None:
            found += of_security_groups(sound["security_groups"], least=1)
        elif security_groups is None and sound["cluster"] is not None:
            eks_group, texts = _group_of(cluster)
            found += texts
        for name, group in (sound["instance_groups"] or {}).items():
            where = f"instance group {name!r}: "
            found += [where + text for text in self._group_mistakes(name, group)]
        refuse(self.node.path, found)
        self._eks_name = cluster.cluster_name
        rules: list[Construct] = []
        if security_groups is None:
            own, rules = self._own_security_group(eks_group or "")
            security_groups = [own]
        self._security_groups = list(security_groups)
        self._connections = ec2.Connections(security_groups=self._security_groups)
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

        Raises:
            KascadeError: No cluster can be called so; with every reason.
        """
        kinds = {
            "cluster_arn": TEXT,
            "cluster_name": TEXT,
            "eks_cluster_name": optional(TEXT),
            "security_groups": _SECURITY_GROUPS,
        }
        given = {
            "cluster_arn": cluster_arn,
            "cluster_name": cluster_name,
            "eks_cluster_name": eks_cluster_name,
            "security_groups": security_groups,
        }
        _, found = sift(given, kinds, {})
        if not wrong("", cluster_arn, TEXT) and not _is(CLUSTER_ARN, cluster_arn):
            example = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdef123456"
            found.append(f"cluster_arn is {cluster_arn!r}; HyperPod writes them like {example}")
        if not wrong("", cluster_name, TEXT) and not _is(GROUP_NAME, cluster_name):
            found.append(f"cluster_name is {cluster_name!r}; {_NAMES}")
        if eks_cluster_name == "":
            found.append("eks_cluster_name is ''; give the name, or leave it out")
        refuse(construct_id, found)
        return ImportedCluster(
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
            KascadeError: HyperPod would reject it; with every reason.
        """
        where = f"{self.node.path}, instance group {name!r}"
        refuse(where, wrong("the group", group, _INSTANCE_GROUP))
        refuse(where, self._group_mistakes(name, group))
        subnet_ids: list[str] = []
        if group.vpc_subnets is not None:
            subnet_ids, _ = subnets_of(self._vpc, group.vpc_subnets)
        if unknown := uncatalogued(group):
            cdk.Annotations.of(self).add_warning_v2(
                "kascade:efa",
                f"instance group {name!r} asks for {group.network_interface}, and the catalog "
                f"does not know whether {', '.join(unknown)} has it; HyperPod rejects it if not",
            )
        own = list(group.security_groups) or self._security_groups
        override = _vpc_config(subnet_ids, own) if subnet_ids else None
        self.execution_role.admit_places(subnet_ids, [g.security_group_id for g in own])
        self.execution_role.admit_keys(group.keys)
        self._members[name] = group
        self._groups[name] = group_property(
            name,
            group,
            role_arn=self.execution_role.role_arn,
            source_uri=self.lifecycle.source_uri,
            on_create=self.lifecycle.on_create,
            vpc_config=override,
        )
        self.resource.instance_groups = list(self._groups.values())

    @property
    def instance_groups(self) -> Mapping[str, InstanceGroup]:
        """Its groups by name, in the order they were added."""
        return dict(self._members)

    def scale_with(self, role: iam.IRole) -> None:
        """Let HyperPod's Karpenter fill the groups; none can be added afterwards.

        Args:
            role: What it runs as; ``KarpenterAutoscaling`` makes it.
        """
        self.resource.auto_scaling = sagemaker.CfnCluster.ClusterAutoScalingConfigProperty(
            mode="Enable", auto_scaler_type="Karpenter"
        )
        self.resource.cluster_role = role.role_arn
        self.resource.node.add_dependency(role)
        self._scaled = True

    @property
    def settings(self) -> HyperPodSettings:
        """What its groups share."""
        return self._settings

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

    def _mistakes(self) -> list[str]:
        found: list[str] = []
        if not _is(GROUP_NAME, self._name):
            found.append(f"{self._name!r} cannot name a HyperPod cluster; {_NAMES}")
        settings, texts = sift_fields(self._settings, _SETTINGS, {}, "settings.")
        found += texts
        percentage = settings.tiered_storage_percentage
        if percentage is not None and not MIN_TIERED_PERCENTAGE <= percentage <= MAX_PERCENTAGE:
            found.append(
                f"tiered_storage_percentage is {percentage}; HyperPod takes "
                f"{MIN_TIERED_PERCENTAGE} to {MAX_PERCENTAGE}, and None switches that tier off"
            )
        return found

    def _group_mistakes(self, name: str, given: InstanceGroup) -> list[str]:
        group, found = mistakes(name, given, cdk.Stack.of(self).region)
        if name in self._groups:
            found.append(f"there is a group {name!r} already; give each its own name")
        if len(self._groups) >= _MAX_GROUPS:
            found.append(f"it would be group {len(self._groups) + 1}; a cluster has {_MAX_GROUPS}")
        if self._scaled:
            found.append(
                "the groups are Karpenter's already; add them all before KarpenterAutoscaling"
            )
        if group.vpc_subnets is not None and self._vpc is not None:
            found += subnets_of(self._vpc, group.vpc_subnets)[1]
        found += of_security_groups(group.security_groups)
        return found

    def _own_security_group(self, eks_group: str) -> tuple[ec2.SecurityGroup, list[Construct]]:
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
        region = cdk.Stack.of(self).region
        # A template for any region has to fit the one with the longest name.
        regions = REGIONS if cdk.Token.is_unresolved(region) else [region]
        room = min(_MAX_BUCKET_PART, *map(room_in_bucket_name, regions))
        part = cdk.Names.unique_resource_name(self, max_length=room, separator="-").lower()
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


def _is(pattern: re.Pattern[str], value: str) -> bool:
    """Whether a text is written so; a token may be."""
    return is_token(value) or pattern.fullmatch(value) is not None


def _group_of(cluster: EksCluster) -> tuple[str | None, list[str]]:
    """Return the security group of EKS, or why there is none."""
    try:
        return cluster.cluster_security_group.security_group_id, []
    except (AttributeError, RuntimeError):  # the CDK's own, where it was imported without
        message = (
            "the EKS cluster was imported without its security group, which the nodes must reach; "
            "give security_groups here, or cluster_security_group_id there"
        )
        return None, [message]
