"""The EKS cluster that HyperPod and everything else runs on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct, IDependable, Node

from kascade.aws._deletions import check_deletions
from kascade.aws._ids import distinct_ids
from kascade.aws._logs import log_group, log_writing, streams_of
from kascade.aws._nag import accept, accept_managed_policies, accept_wildcards
from kascade.aws._trust import pods_of
from kascade.aws.network import ServingNetwork
from kascade.aws.weights import S3_SERVICE_ACCOUNT, weights_role
from kascade.catalog.addons import S3_CSI
from kascade.errors import KascadeError
from kascade.plan import AddonPlan, ClusterPlan, ExistingEksPlan, SystemGroupPlan

_CNI_ADDON: Final = "vpc-cni"
_EBS_ADDON: Final = "aws-ebs-csi-driver"
_KMS_WINDOW_DAYS: Final = 30
_HTTPS: Final = 443
_TAGS: Final = "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet"
_ISOLATED: Final = "@aws-cdk/aws-eks:isolatedSubnetsForKubectlPrivateSubnets"
_LAMBDA_VPC_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
_SYSTEM_NODE_POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
)
_EBS_CSI_POLICY: Final = "service-role/AmazonEBSCSIDriverPolicy"


def _admin_ids(arns: Sequence[str]) -> dict[str, str]:
    """Ids of the administrators' entries.

    EKS has one entry for a role, so a change of an id asks for a second one, which it rejects:
    a role that takes another's id (see ``distinct_ids``) comes in two deploys, the one that had
    it taken out in the first.
    """
    return distinct_ids(
        "Admin", {arn: arn.partition(":role/")[2].replace("/", "-") for arn in arns}
    )


def _check_cni(addon: AddonPlan) -> None:
    env = addon.configuration.get("env")
    given = env.get("ENABLE_PREFIX_DELEGATION") if isinstance(env, Mapping) else None
    if given != "true":
        msg = (
            f"the add-on {_CNI_ADDON} has ENABLE_PREFIX_DELEGATION {given!r}; give 'true' in its "
            "env: pod slots of nodes and addresses of subnets are counted with it, and without it "
            "pods would wait for addresses"
        )
        raise KascadeError(msg)


class ServingEksCluster(Construct):
    """EKS with its add-ons and a small managed node group for all that needs no GPU.

    The API server is reached from inside the VPC, by people only if the plan lists their
    networks. Rights are access entries; there is no aws-auth ConfigMap, since HyperPod writes
    access entries for its own nodes.

    Order: cluster; add-ons that live without nodes; the node group; add-ons whose pods need one.

    Attributes:
        network: Where it stands.
        cluster: The cluster, with the function that applies manifests.
        kubectl_role: Role of the function that applies manifests.
        ebs_csi_role: Role of the EBS driver, or None where the plan has no such add-on.
        weights_role: Role of the driver that reads weights, without rights: ``WeightsRights`` gives
            them. None where no weights lie in S3.
        issuer_url: Of the tokens of its service accounts; None of a cluster that was there.
        entries: What the function that applies manifests waits for: its way into a cluster that was
            there. The CDK sees to that itself where it makes the cluster.
        ready: Everything nodes of any kind rely on: rules, add-ons, system nodes.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, plan: ClusterPlan, network: ServingNetwork
    ) -> None:
        super().__init__(scope, construct_id)
        self._plan = plan
        self.network = network
        self.issuer_url: str | None = None
        self.weights_role: iam.Role | None = None
        self.cluster: eks.ICluster
        self.kubectl_role: iam.Role
        self.entries: list[IDependable] = []
        if plan.existing is None:
            cluster = self._make_cluster()
            for arn, name in _admin_ids(plan.admin_role_arns).items():
                cluster.grant_cluster_admin(name, arn)
            self.cluster = cast("eks.ICluster", cluster)
            self.issuer_url = cluster.cluster_open_id_connect_issuer_url
        else:
            self.entries = self._import_cluster(plan.existing)
        rules = self._connect_nodes()
        self.entries += rules if not plan.makes_hyperpod else []
        early = [self._add_addon(addon) for addon in plan.addons if not addon.needs_nodes]
        system = self._add_system_group(plan.system_group)
        system.node.add_dependency(*early, *rules)
        self.ebs_csi_role: iam.Role | None = None
        late: list[IDependable] = []
        for addon in plan.addons:
            if addon.needs_nodes:
                resource = self._add_addon(addon)
                resource.node.add_dependency(system)
                late.append(resource)
        self.ready: list[IDependable] = [*self.entries, *rules, *early, system, *late]

    def _make_cluster(self) -> eks.Cluster:
        plan, network = self._plan, self.network
        key = kms.Key(
            self,
            "SecretsKey",
            description=f"Secrets of the EKS cluster {plan.eks_name}",
            enable_key_rotation=True,
            # Without the cluster the key opens nothing; the window is there to change one's mind.
            removal_policy=cdk.RemovalPolicy.DESTROY,
            pending_window=cdk.Duration.days(_KMS_WINDOW_DAYS),
        )
        # EKS would make this group by itself, and keep events for ever.
        control_plane_log = log_group(
            self,
            "ControlPlaneLog",
            name=f"/aws/eks/{plan.eks_name}/cluster",
            retention_days=plan.log_retention_days,
        )
        access = eks.EndpointAccess.PRIVATE
        if plan.public_access_cidrs:
            access = eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*plan.public_access_cidrs)
        handler_log = log_group(self, "KubectlLog", retention_days=plan.log_retention_days)
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=plan.eks_name,
            version=eks.KubernetesVersion.of(plan.kubernetes_version),
            vpc=network.vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=network.home_subnets)],
            security_group=network.node_security_group,
            endpoint_access=access,
            secrets_encryption_key=key,
            cluster_logging=list(eks.ClusterLoggingTypes),
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,  # or EKS Auto Mode is on
            default_capacity=0,
            bootstrap_self_managed_addons=False,  # the add-ons below are the only ones
            bootstrap_cluster_creator_admin_permissions=False,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=KubectlV35Layer(self, "KubectlLayer"),
                private_subnets=network.home_subnets,
                # Immutable, or the construct would add rights to pull images.
                role=self._make_kubectl_role(handler_log.log_group_arn).without_policy_updates(),
            ),
        )
        cluster.node.default_child.node.add_dependency(control_plane_log)  # type: ignore[union-attr]
        accept_managed_policies(
            cluster.role,
            ["AmazonEKSClusterPolicy"],
            "What the control plane needs by definition; AWS keeps it current.",
        )
        self._tame_kubectl_provider(cluster.node, handler_log.log_group_name)
        cdk.Annotations.of(cluster).acknowledge_warning(
            _ISOLATED, "A plan without NAT names every endpoint (kascade.catalog.endpoints)."
        )
        cdk.Annotations.of(cluster).acknowledge_warning(
            _TAGS, "A template cannot tag somebody's subnets; docs/existing.md says which tags."
        )
        return cluster

    def _import_cluster(self, existing: ExistingEksPlan) -> list[IDependable]:
        """Take somebody's cluster by its name; return what lets the function and people enter."""
        network = self.network
        handler_log = log_group(self, "KubectlLog", retention_days=self._plan.log_retention_days)
        role = self._make_kubectl_role(handler_log.log_group_arn)
        attributes: dict[str, Any] = {
            "cluster_name": self._plan.eks_name,
            "vpc": network.vpc,
            "cluster_security_group_id": existing.security_group_id,
        }
        # The function asks a cluster for its name, and a cluster is imported with its function.
        provider = eks.KubectlProvider(
            self,
            "KubectlProvider",
            cluster=eks.Cluster.from_cluster_attributes(self, "Named", **attributes),
            kubectl_layer=KubectlV35Layer(self, "KubectlLayer"),
            private_subnets=network.home_subnets,
            security_groups=[network.node_security_group],
            role=role.without_policy_updates(),
        )
        self.cluster = eks.Cluster.from_cluster_attributes(
            self, "Cluster", **attributes, kubectl_provider=provider
        )
        self._tame_kubectl_provider(self.node, handler_log.log_group_name)
        principals = {"KubectlAccess": role.role_arn} | {
            name: arn for arn, name in _admin_ids(self._plan.admin_role_arns).items()
        }
        return [
            eks.CfnAccessEntry(
                self,
                name,
                cluster_name=self._plan.eks_name,
                principal_arn=arn,
                access_policies=[
                    eks.CfnAccessEntry.AccessPolicyProperty(
                        access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                        policy_arn=f"arn:{cdk.Aws.PARTITION}:eks::aws:cluster-access-policy/"
                        "AmazonEKSClusterAdminPolicy",
                    )
                ],
            )
            for name, arn in principals.items()
        ]

    def _make_kubectl_role(self, log_group_arn: str) -> iam.Role:
        arn = cdk.Stack.of(self).format_arn(
            service="eks", resource="cluster", resource_name=self._plan.eks_name
        )
        role = iam.Role(
            self,
            "KubectlRole",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Applies Kubernetes manifests for CloudFormation",
            inline_policies={
                "Kubectl": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[arn]),
                        log_writing(log_group_arn),
                        iam.PolicyStatement(actions=list(_LAMBDA_VPC_ACTIONS), resources=["*"]),
                    ]
                )
            },
        )
        self.kubectl_role = role
        accept_wildcards(
            role,
            ["*", streams_of(log_group_arn)],
            "Lambda attaches a function to a VPC only if its role has these rights on all "
            "network interfaces; log streams are named by Lambda.",
        )
        return role

    def _tame_kubectl_provider(self, parent: Node, log_group_name: str) -> None:
        """Bound the logs of the provider's two functions, and drop a condition it leaves over."""
        framework_log = log_group(
            self, "KubectlFrameworkLog", retention_days=self._plan.log_retention_days
        )
        provider = parent.find_child("KubectlProvider")
        handler = provider.node.find_child("Handler")
        framework = provider.node.find_child("Provider").node.find_child("framework-onEvent")
        for function, name in (
            (handler, log_group_name),
            (framework, framework_log.log_group_name),
        ):
            resource = cast("lambda_.CfnFunction", function.node.default_child)
            resource.logging_config = lambda_.CfnFunction.LoggingConfigProperty(log_group=name)
        self.node.try_remove_child("HasEcrPublic")
        check_deletions(self, cast("lambda_.Function", handler))

        accept_managed_policies(
            framework,
            [
                "service-role/AWSLambdaBasicExecutionRole",
                "service-role/AWSLambdaVPCAccessExecutionRole",
            ],
            "CDK's provider framework makes its role itself and takes none.",
        )
        accept(
            handler,
            "AwsSolutions-L1",
            "The runtime is CDK's choice for its kubectl function and moves with aws-cdk-lib.",
        )
        handler_arn = cast("lambda_.Function", handler).function_arn
        accept_wildcards(
            framework,
            [f"{handler_arn}:*"],
            "CDK's provider framework may call any version of the kubectl function, nothing else.",
        )

    def _connect_nodes(self) -> list[IDependable]:
        """Let EKS's own security group, which system nodes get, and HyperPod's reach each other.

        Where HyperPod is there already its nodes have a group of their own, and this one is the
        function's that applies manifests.
        """
        eks_group = self.cluster.cluster_security_group_id
        node_group = self.network.node_security_group.security_group_id
        pairs = {
            "FromSystemNodes": (node_group, eks_group, "From system nodes and kubectl"),
            "FromHyperPodNodes": (eks_group, node_group, "From HyperPod nodes"),
        }
        # EKS's group is that of nodes and pods, too; the function calls the API server alone.
        only_https = not self._plan.makes_hyperpod
        if only_https:
            pairs = {"FromKubectl": (eks_group, node_group, "From the function of kubectl")}
        port = _HTTPS if only_https else None
        return [
            ec2.CfnSecurityGroupIngress(
                self,
                name,
                group_id=target,
                source_security_group_id=source,
                ip_protocol="tcp" if only_https else "-1",
                from_port=port,
                to_port=port,
                description=description,
            )
            for name, (target, source, description) in pairs.items()
        ]

    def _add_addon(self, addon: AddonPlan) -> eks.CfnAddon:
        if addon.name == _CNI_ADDON:
            _check_cni(addon)
        associations = None
        # The inference operator wants the driver to be there; without weights it reads nothing.
        if addon.name == S3_CSI and self._plan.weights:
            role = weights_role(self, "WeightsRole", cluster_name=self._plan.eks_name)
            self.weights_role = role
            associations = [
                eks.CfnAddon.PodIdentityAssociationProperty(
                    role_arn=role.role_arn, service_account=S3_SERVICE_ACCOUNT
                )
            ]
        if addon.name == _EBS_ADDON:
            self.ebs_csi_role = self._make_ebs_csi_role()
            associations = [
                eks.CfnAddon.PodIdentityAssociationProperty(
                    role_arn=self.ebs_csi_role.role_arn, service_account="ebs-csi-controller-sa"
                )
            ]
        resource = eks.CfnAddon(
            self,
            f"Addon-{addon.name}",
            addon_name=addon.name,
            addon_version=addon.version,
            cluster_name=self.cluster.cluster_name,
            configuration_values=(
                json.dumps(addon.configuration, sort_keys=True) if addon.configuration else None
            ),
            pod_identity_associations=associations,
            # On somebody's cluster others may have come to use it, or have it from elsewhere: then
            # the deployment fails, and takes nothing over.
            preserve_on_delete=self._plan.existing is not None,
            resolve_conflicts="OVERWRITE" if self._plan.existing is None else "NONE",
        )
        if addon.name == _EBS_ADDON and self.ebs_csi_role is not None:
            # With its policy, which would otherwise be the first thing that a deletion takes away,
            # while the driver still has volumes to detach.
            resource.node.add_dependency(self.ebs_csi_role)
        return resource

    def _make_ebs_csi_role(self) -> iam.Role:
        role = iam.Role(
            self,
            "EbsCsiRole",
            assumed_by=pods_of(self._plan.eks_name),
            description="EBS CSI driver, by EKS Pod Identity",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_EBS_CSI_POLICY)],
        )
        accept_managed_policies(
            role,
            [_EBS_CSI_POLICY],
            "AWS's policy for this driver: its rights are bound by the tags that the driver sets, "
            "and change with its versions.",
        )
        # EC2's own calls cannot reach HyperPod nodes. The id of a cluster that is made here is
        # unknown before it exists, and its last volumes are detached while it is being deleted; so
        # the right to do that must depend on neither.
        there = self._plan.existing.hyperpod_arn if self._plan.existing is not None else None
        clusters = there or cdk.Stack.of(self).format_arn(
            service="sagemaker", resource="cluster", resource_name="*"
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["sagemaker:AttachClusterNodeVolume", "sagemaker:DetachClusterNodeVolume"],
                resources=[clusters],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["eks:DescribeCluster"], resources=[self.cluster.cluster_arn]
            )
        )
        if there is None:
            accept_wildcards(
                role,
                [clusters],
                "A HyperPod cluster's ARN ends with an id that only exists once it does.",
            )
        return role

    def _add_system_group(self, plan: SystemGroupPlan) -> eks.Nodegroup:
        role = iam.Role(
            self,
            "SystemNodeRole",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            description="EKS system nodes",
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(name)
                for name in _SYSTEM_NODE_POLICIES
            ],
        )
        accept_managed_policies(
            role,
            _SYSTEM_NODE_POLICIES,
            "The three policies without which an EKS node cannot join or pull images; AWS keeps "
            "them current with the node image.",
        )
        template = ec2.LaunchTemplate(
            self,
            "SystemLaunchTemplate",
            require_imdsv2=True,
            http_put_response_hop_limit=1,  # pods get AWS rights by Pod Identity, not from the node
            block_devices=[
                ec2.BlockDevice(
                    device_name="/dev/xvda",
                    volume=ec2.BlockDeviceVolume.ebs(
                        plan.root_volume_gib,
                        encrypted=True,
                        volume_type=ec2.EbsDeviceVolumeType.GP3,
                        delete_on_termination=True,
                    ),
                )
            ],
        )
        instance_type = ec2.InstanceType(plan.instance_type)
        arm = instance_type.architecture is ec2.InstanceArchitecture.ARM_64
        group = eks.Nodegroup(
            self,
            "SystemNodes",
            cluster=self.cluster,
            ami_type=(
                eks.NodegroupAmiType.AL2023_ARM_64_STANDARD
                if arm
                else eks.NodegroupAmiType.AL2023_X86_64_STANDARD
            ),
            instance_types=[instance_type],
            node_role=role,
            release_version=plan.release_version,
            min_size=plan.count,
            desired_size=plan.count,
            max_size=plan.max_count,
            max_unavailable=1,
            force_update=False,  # an update that a disruption budget holds up fails instead
            enable_node_auto_repair=True,
            subnets=ec2.SubnetSelection(subnets=self.network.home_subnets),
            launch_template_spec=eks.LaunchTemplateSpec(
                id=cast("str", template.launch_template_id),
                version=template.latest_version_number,
            ),
        )
        # EKS leaves a group's version alone when the cluster's changes, and the CDK does not know
        # the property. With it CloudFormation moves the nodes after the control plane.
        resource = cast("eks.CfnNodegroup", group.node.default_child)
        resource.version = self._plan.kubernetes_version
        return group
