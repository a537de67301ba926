"""What can be done with a HyperPod cluster, whether it is made here or was made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.errors import KascadeError

_READ_ACTIONS: Final = (
    "sagemaker:DescribeCluster",
    "sagemaker:DescribeClusterEvent",
    "sagemaker:DescribeClusterNode",
    "sagemaker:ListClusterEvents",
    "sagemaker:ListClusterNodes",
)
_CONTAINER_INSIGHTS: Final = "ContainerInsights"


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

    def metric_node_count(self, **options: Any) -> cloudwatch.Metric:
        """Nodes of the EKS cluster, of any kind."""
        ...

    def metric_failed_node_count(self, **options: Any) -> cloudwatch.Metric:
        """Nodes of the EKS cluster that report a bad condition."""
        ...


@jsii.implements(ec2.IConnectable)
class BaseCluster(Construct):
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
            grantee=grantee, actions=list(actions), resource_arns=[self.cluster_arn]
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


class ImportedCluster(BaseCluster):
    """One that was made elsewhere."""

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
