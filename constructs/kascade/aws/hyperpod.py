"""The SageMaker HyperPod cluster."""

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from kascade.aws._nag import accept_managed_policies, accept_wildcards
from kascade.aws.eks import ServingEksCluster
from kascade.aws.lifecycle import LifecycleScript
from kascade.sizing.plan import ClusterPlan, InstanceGroupPlan

_THREADS_PER_CORE: Final = 2
"""Both threads of each core, which is what a type's vCPUs count. Never left out: an update that
does not state it resets it."""

_INSTANCE_POLICY: Final = "AmazonSageMakerClusterInstanceRolePolicy"
_INTERFACE_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)


class HyperPodCluster(Construct):
    """GPU nodes under HyperPod's care, orchestrated by EKS.

    The template always states instance groups and node recovery together with tiered storage:
    HyperPod refuses an update that carries tiered storage alone. Name, orchestrator and VPC
    settings replace the cluster when they change; all else is updated in place.

    HyperPod wants its agents and rights inside EKS at its own creation: whoever applies them
    makes ``resource`` depend on that.

    HyperPod writes to ``/aws/sagemaker/Clusters/<name>/<id>``; since the id is its own choice,
    that log group cannot be made here, and its retention is whatever HyperPod sets.

    Attributes:
        resource: The cluster.
        execution_role: What its nodes run as.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ClusterPlan,
        eks: ServingEksCluster,
        lifecycle: LifecycleScript,
    ) -> None:
        super().__init__(scope, construct_id)
        self._network = eks.network
        self._lifecycle = lifecycle
        self.execution_role = self._make_execution_role(eks)
        self.resource = sagemaker.CfnCluster(
            self,
            "Cluster",
            cluster_name=plan.hyperpod_name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(
                    cluster_arn=eks.cluster.cluster_arn
                )
            ),
            vpc_config=self._vpc_config([s.subnet_id for s in eks.network.private_subnets]),
            node_recovery=plan.node_recovery,
            node_provisioning_mode="Continuous",
            instance_groups=[self._instance_group(group) for group in plan.groups],
            tiered_storage_config=(
                sagemaker.CfnCluster.TieredStorageConfigProperty(
                    mode="Enable",
                    instance_memory_allocation_percentage=plan.tiered_storage_percentage,
                )
                if plan.tiered_storage_percentage is not None
                # Left out, the tier would keep the RAM that L1 now takes.
                else sagemaker.CfnCluster.TieredStorageConfigProperty(mode="Disable")
            ),
        )
        self.resource.node.add_dependency(
            self.execution_role, lifecycle.bucket, lifecycle.upload, *eks.ready
        )

    def _vpc_config(self, subnet_ids: list[str]) -> sagemaker.CfnCluster.VpcConfigProperty:
        return sagemaker.CfnCluster.VpcConfigProperty(
            security_group_ids=[self._network.node_security_group.security_group_id],
            subnets=subnet_ids,
        )

    def _instance_group(
        self, plan: InstanceGroupPlan
    ) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
        kubernetes = None
        if plan.labels or plan.taints:
            kubernetes = sagemaker.CfnCluster.ClusterKubernetesConfigProperty(
                labels=dict(plan.labels) or None,
                taints=[
                    sagemaker.CfnCluster.ClusterKubernetesTaintProperty(
                        key=key, value=value or None, effect=effect
                    )
                    for key, value, effect in plan.taints
                ]
                or None,
            )
        zone = plan.zone
        return sagemaker.CfnCluster.ClusterInstanceGroupProperty(
            instance_group_name=plan.name,
            instance_type=plan.instance_type,
            instance_count=plan.count,
            execution_role=self.execution_role.role_arn,
            threads_per_core=_THREADS_PER_CORE,
            life_cycle_config=sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
                source_s3_uri=self._lifecycle.source_uri, on_create=self._lifecycle.on_create
            ),
            # The root volume has no size setting; this is a second one, which the script uses.
            instance_storage_configs=[
                sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty(
                    ebs_volume_config=sagemaker.CfnCluster.ClusterEbsVolumeConfigProperty(
                        volume_size_in_gb=plan.volume_gib
                    )
                )
            ],
            kubernetes_config=kubernetes,
            on_start_deep_health_checks=list(plan.deep_health_checks) or None,
            override_vpc_config=(
                self._vpc_config([self._network.private_subnet_in(zone).subnet_id])
                if zone is not None
                else None
            ),
        )

    def _make_execution_role(self, eks: ServingEksCluster) -> iam.Role:
        """The rights AWS's own HyperPod templates give, as narrow as each action allows.

        All inline, so that the role is complete once it exists.
        """
        stack = cdk.Stack.of(self)

        def ec2_arn(resource: str, name: str) -> str:
            return stack.format_arn(service="ec2", resource=resource, resource_name=name)

        instances, interfaces = ec2_arn("instance", "*"), ec2_arn("network-interface", "*")
        vpc = ec2_arn("vpc", self._network.vpc.vpc_id)
        subnets = [ec2_arn("subnet", s.subnet_id) for s in self._network.private_subnets]
        group = ec2_arn("security-group", self._network.node_security_group.security_group_id)
        bucket = self._lifecycle.bucket
        objects = bucket.arn_for_objects("*")
        # Any account's: AWS publishes its agents from accounts of its own.
        repositories = f"arn:{cdk.Aws.PARTITION}:ecr:*:*:repository/*"

        def allow(actions: Sequence[str], resources: list[str]) -> iam.PolicyStatement:
            return iam.PolicyStatement(actions=list(actions), resources=resources)

        policies = {
            "PodNetworking": [
                allow(["ec2:AttachNetworkInterface"], [instances, interfaces]),
                allow(["ec2:CreateTags"], [interfaces]),
                allow(_INTERFACE_ACTIONS, [instances, interfaces, vpc]),
                allow([*_INTERFACE_ACTIONS, "ec2:DetachNetworkInterface"], [*subnets, group]),
                allow(["ec2:DetachNetworkInterface"], [instances, interfaces]),
                allow(
                    [
                        "ec2:DescribeDhcpOptions",
                        "ec2:DescribeInstanceTypes",
                        "ec2:DescribeInstances",
                        "ec2:DescribeNetworkInterfaces",
                        "ec2:DescribeSecurityGroups",
                        "ec2:DescribeSubnets",
                        "ec2:DescribeTags",
                        "ec2:DescribeVpcs",
                    ],
                    ["*"],
                ),
            ],
            "Images": [
                allow(["ecr:GetAuthorizationToken"], ["*"]),
                allow(
                    [
                        "ecr:BatchCheckLayerAvailability",
                        "ecr:BatchGetImage",
                        "ecr:GetDownloadUrlForLayer",
                    ],
                    [repositories],
                ),
            ],
            "Node": [
                allow(["cloudwatch:DescribeAlarms"], ["*"]),
                allow(["eks-auth:AssumeRoleForPodIdentity"], [eks.cluster.cluster_arn]),
                allow(["s3:ListBucket"], [bucket.bucket_arn]),
                allow(["s3:GetObject"], [objects]),
            ],
        }
        role = iam.Role(
            self,
            "ExecutionRole",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description="HyperPod nodes",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_INSTANCE_POLICY)],
            inline_policies={
                name: iam.PolicyDocument(statements=statements)
                for name, statements in policies.items()
            },
        )
        accept_managed_policies(
            role,
            [_INSTANCE_POLICY],
            "HyperPod's documented policy for its nodes; AWS extends it together with the agents "
            "that run on them.",
        )
        accept_wildcards(
            role,
            ["*", instances, interfaces, repositories, objects],
            "Nodes and their network interfaces get their ids at run time; describe calls, ECR's "
            "token and DescribeAlarms know no resource; images come from AWS's registries too; "
            "the bucket holds the lifecycle script only.",
        )
        return role
