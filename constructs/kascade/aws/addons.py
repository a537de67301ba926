"""EKS add-ons of HyperPod's features, with the roles that their pods take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from kascade.aws._balancer_policy import balancer_statements
from kascade.aws._nag import accept, accept_managed_policies, accept_wildcards
from kascade.aws._trust import ClusterIdentity, pods_of, service_account_role
from kascade.aws.buckets import BucketDrain
from kascade.catalog.addons import (
    BALANCER_ACCOUNT,
    FSX_ACCOUNT,
    FSX_CSI,
    KEDA_ACCOUNT,
    OBSERVABILITY_ACCOUNT,
    OPERATOR_ACCOUNT,
    OPERATOR_ROLE_PREFIX,
    TRAINING_ACCOUNT,
)
from kascade.errors import KascadeError
from kascade.plan import (
    AddonPlan,
    FeaturesPlan,
    InferenceAddonPlan,
    ObservabilityAddonPlan,
)

_OPERATOR_POLICY: Final = "AmazonSageMakerHyperPodInferenceAccess"
_TRAINING_POLICY: Final = "AmazonSageMakerHyperPodTrainingOperatorAccess"


class FeatureAddons(Construct):
    """Add-ons whose pods need nodes and HyperPod, in the order in which they need each other.

    What an add-on of HyperPod looks for when it starts (CSI drivers, cert-manager) stands before
    it as a dependency of the template, since it fails for good where that is missing.

    Attributes:
        ready: Everything that it installed.
        inference: The inference operator's add-on, if there is one; it makes load balancers.
    """

    def __init__(  # noqa: PLR0913 - the cluster it belongs to, and what comes before
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: FeaturesPlan,
        cluster: eks.ICluster,
        issuer_url: str,
        vpc_id: str,
        hyperpod: sagemaker.CfnCluster,
        after: Sequence[IDependable],
        drained_with_log_days: int | None = None,
    ) -> None:
        """Install what a plan names.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            plan: Which add-ons.
            cluster: Where.
            issuer_url: The cluster's issuer of tokens.
            vpc_id: The cluster's VPC.
            hyperpod: The HyperPod cluster; every add-on comes after it.
            after: What else every add-on comes after, such as system nodes.
            drained_with_log_days: Where the bucket of certificates goes with the stack, the days
                that the logs of what empties it are kept; None where the bucket stays.
        """
        super().__init__(scope, construct_id)
        self._cluster = cluster
        self._hyperpod = hyperpod
        self._drained_with_log_days = drained_with_log_days
        self._first: list[IDependable] = [hyperpod, *after]
        dependencies = [self._dependency(addon) for addon in plan.dependencies]
        self.ready: list[IDependable] = [*dependencies]
        self.inference: eks.CfnAddon | None = None
        if plan.inference is not None:
            identity = ClusterIdentity(self, "Identity", issuer_url=issuer_url)
            self.inference = self._inference(plan.inference, identity, vpc_id, dependencies)
            self.ready.append(self.inference)
        governance: list[eks.CfnAddon] = []
        if plan.task_governance is not None:
            governance.append(self._add(plan.task_governance, []))
        if plan.training_operator is not None:
            self.ready.append(self._training(plan.training_operator, [*dependencies, *governance]))
        if plan.observability is not None:
            self.ready.append(self._observability(plan.observability))
        self.ready += governance

    def _add(
        self,
        addon: AddonPlan,
        after: Sequence[IDependable],
        *,
        configuration: str | None = None,
        associations: Sequence[eks.CfnAddon.PodIdentityAssociationProperty] = (),
    ) -> eks.CfnAddon:
        resource = eks.CfnAddon(
            self,
            f"Addon-{addon.name}",
            addon_name=addon.name,
            addon_version=addon.version,
            cluster_name=self._cluster.cluster_name,
            configuration_values=configuration,
            pod_identity_associations=list(associations) or None,
            preserve_on_delete=False,
            resolve_conflicts="OVERWRITE",
        )
        resource.node.add_dependency(*self._first, *after)
        return resource

    # --- what others need ----------------------------------------------------------------------

    def _dependency(self, addon: AddonPlan) -> eks.CfnAddon:
        if addon.name != FSX_CSI:
            return self._add(addon, [])
        role = self._fsx_role()
        return self._add(
            addon,
            [],
            associations=[
                eks.CfnAddon.PodIdentityAssociationProperty(
                    role_arn=role.role_arn, service_account=FSX_ACCOUNT
                )
            ],
        )

    def _fsx_role(self) -> iam.Role:
        """Enough to mount a file system that exists.

        AWS's templates give the driver all of FSx, which it would need to make file systems. The
        inference add-on wants the driver to be there, and no more.
        """
        systems = cdk.Stack.of(self).format_arn(
            service="fsx", resource="file-system", resource_name="*"
        )
        role = iam.Role(
            self,
            "FsxCsiRole",
            assumed_by=pods_of(self._cluster.cluster_name),
            description="FSx CSI driver, by EKS Pod Identity: looks, makes nothing",
            inline_policies={
                "Look": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["fsx:DescribeFileSystems"], resources=[systems]
                        )
                    ]
                )
            },
        )
        accept_wildcards(role, [systems], "Looking at file systems, whose ids others choose.")
        return role

    # --- the inference operator ----------------------------------------------------------------

    def _inference(
        self,
        plan: InferenceAddonPlan,
        identity: ClusterIdentity,
        vpc_id: str,
        dependencies: Sequence[IDependable],
    ) -> eks.CfnAddon:
        bucket = self._certificates(plan)
        drains = []
        if self._drained_with_log_days is not None:
            drain = BucketDrain(
                self,
                "CertificatesDrain",
                bucket=bucket,
                log_retention_days=self._drained_with_log_days,
            )
            drains.append(drain.resource)
        operator = self._operator_role(plan, identity, bucket)
        keda = self._keda_role(identity)
        balancer = self._balancer_role(identity, vpc_id)
        values = {
            "executionRoleArn": operator.attr_arn,
            "tlsCertificateS3Bucket": bucket.bucket_name,
            "hyperpodClusterArn": self._hyperpod.attr_cluster_arn,
            "alb": {
                "enabled": True,
                "serviceAccount": {"create": True, "roleArn": balancer.attr_arn},
            },
            "keda": {
                "enabled": True,
                "auth": {"aws": {"irsa": {"enabled": True, "roleArn": keda.attr_arn}}},
            },
        }
        return self._add(
            plan.addon,
            [*dependencies, bucket, *drains, operator, keda, balancer, identity],
            configuration=cdk.Stack.of(self).to_json_string(values),
        )

    def _certificates(self, plan: InferenceAddonPlan) -> s3.Bucket:
        """Where the operator leaves the certificates it makes, for clients to trust."""
        stack = cdk.Stack.of(self)
        bucket = s3.Bucket(
            self,
            "Certificates",
            bucket_name=f"{plan.tls_bucket}-{stack.account}-{stack.region}",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
        )
        cdk.Tags.of(bucket).add("CreatedBy", "HyperPod-Inference")
        accept(
            bucket,
            "AwsSolutions-S1",
            "Public certificates of load balancers, written by the operator alone; CloudTrail has "
            "its changes. An access log would need a second bucket.",
        )
        return bucket

    def _operator_role(
        self, plan: InferenceAddonPlan, identity: ClusterIdentity, bucket: s3.Bucket
    ) -> iam.CfnRole:
        if not plan.role_name.startswith(OPERATOR_ROLE_PREFIX):
            msg = (
                f"{plan.role_name} cannot be the inference operator's role: the add-on rejects "
                f"names that do not begin with {OPERATOR_ROLE_PREFIX}. Give it such a name."
            )
            raise KascadeError(msg)
        objects = bucket.arn_for_objects("*")
        certificates = cdk.Stack.of(self).format_arn(
            service="acm", resource="certificate", resource_name="*"
        )
        role = service_account_role(
            self,
            "OperatorRole",
            trust=identity.trust(OPERATOR_ACCOUNT, services=["sagemaker.amazonaws.com"]),
            description="HyperPod inference operator",
            role_name=plan.role_name,
            managed_policies=[_OPERATOR_POLICY],
            policies={
                "Certificates": [
                    iam.PolicyStatement(
                        actions=[
                            "s3:DeleteObject",
                            "s3:GetObject",
                            "s3:PutObject",
                            "s3:PutObjectTagging",
                        ],
                        resources=[objects],
                    ),
                    # Since operator 3.0; the managed policy of older accounts lacks it.
                    iam.PolicyStatement(
                        actions=["acm:AddTagsToCertificate"], resources=[certificates]
                    ),
                ],
                # Without these the operator runs and no endpoint appears.
                "Cluster": [
                    iam.PolicyStatement(
                        actions=[
                            "sagemaker:DescribeClusterInference",
                            "sagemaker:UpdateClusterInference",
                        ],
                        resources=[self._hyperpod.attr_cluster_arn],
                    )
                ],
            },
        )
        accept_managed_policies(
            role,
            [_OPERATOR_POLICY],
            "AWS's policy for its own operator, which moves with the operator's versions.",
        )
        accept_wildcards(
            role,
            [objects, certificates],
            "The operator names the files it writes, and ACM the certificates; the bucket holds "
            "nothing else.",
        )
        return role

    def _keda_role(self, identity: ClusterIdentity) -> iam.CfnRole:
        workspaces = cdk.Stack.of(self).format_arn(
            service="aps", resource="workspace", resource_name="*"
        )
        role = service_account_role(
            self,
            "KedaRole",
            trust=identity.trust(KEDA_ACCOUNT),
            description="KEDA of the HyperPod inference operator: reads metrics",
            policies={
                "Metrics": [
                    iam.PolicyStatement(
                        actions=[
                            "cloudwatch:GetMetricData",
                            "cloudwatch:GetMetricStatistics",
                            "cloudwatch:ListMetrics",
                        ],
                        resources=["*"],
                    ),
                    iam.PolicyStatement(
                        actions=[
                            "aps:GetLabels",
                            "aps:GetMetricMetadata",
                            "aps:GetSeries",
                            "aps:QueryMetrics",
                        ],
                        resources=[workspaces],
                    ),
                ]
            },
        )
        accept_wildcards(
            role,
            ["*", workspaces],
            "CloudWatch's metrics know no resource; an endpoint scales by whichever workspace of "
            "this region it names. All of it reads.",
        )
        return role

    def _balancer_role(self, identity: ClusterIdentity, vpc_id: str) -> iam.CfnRole:
        statements, wildcards = balancer_statements(
            self, cluster_name=self._cluster.cluster_name, vpc_id=vpc_id
        )
        role = service_account_role(
            self,
            "BalancerRole",
            trust=identity.trust(BALANCER_ACCOUNT),
            description="Load balancer controller of the HyperPod inference operator",
            policies={"Balancers": statements},
        )
        accept_wildcards(
            role,
            wildcards,
            "Load balancers get their ids at run time, and most calls that look know no resource. "
            "What changes something is bound to this account, region, VPC and cluster tag, as far "
            "as the services allow.",
        )
        return role

    # --- further features ----------------------------------------------------------------------

    def _training(self, addon: AddonPlan, after: Sequence[IDependable]) -> eks.CfnAddon:
        """Its pods take a role by an association apart: EKS rejects one inside this add-on."""
        clusters = self._hyperpod.attr_cluster_arn
        role = iam.Role(
            self,
            "TrainingRole",
            assumed_by=pods_of(self._cluster.cluster_name),
            description="HyperPod training operator, by EKS Pod Identity",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_TRAINING_POLICY)],
            inline_policies={
                "Nodes": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=[
                                "sagemaker:DescribeCluster",
                                "sagemaker:DescribeClusterNode",
                                "sagemaker:ListClusterNodes",
                            ],
                            resources=[clusters],
                        )
                    ]
                )
            },
        )
        accept_managed_policies(
            role,
            [_TRAINING_POLICY],
            "AWS's policy for its own operator, which moves with the operator's versions.",
        )
        association = eks.CfnPodIdentityAssociation(
            self,
            "TrainingIdentity",
            cluster_name=self._cluster.cluster_name,
            namespace=TRAINING_ACCOUNT.namespace,
            role_arn=role.role_arn,
            service_account=TRAINING_ACCOUNT.name,
        )
        return self._add(addon, [*after, association])

    def _observability(self, plan: ObservabilityAddonPlan) -> eks.CfnAddon:
        logs = cdk.Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name="/aws/sagemaker/Clusters/*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        role = iam.Role(
            self,
            "ObservabilityRole",
            assumed_by=pods_of(self._cluster.cluster_name),
            description="HyperPod observability, by EKS Pod Identity: writes metrics and logs",
            inline_policies={
                "Write": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["aps:RemoteWrite"], resources=[plan.workspace_arn]
                        ),
                        iam.PolicyStatement(
                            actions=[
                                "logs:CreateLogGroup",
                                "logs:CreateLogStream",
                                "logs:DescribeLogStreams",
                                "logs:PutLogEvents",
                            ],
                            resources=[logs],
                        ),
                    ]
                )
            },
        )
        accept_wildcards(
            role, [logs], "HyperPod's log groups carry the cluster's id, which is its own choice."
        )
        workspace = {"arn": plan.workspace_arn, "prometheusEndpoint": plan.workspace_endpoint}
        return self._add(
            plan.addon,
            [],
            configuration=json.dumps({"ampWorkspace": workspace}, sort_keys=True),
            associations=[
                eks.CfnAddon.PodIdentityAssociationProperty(
                    role_arn=role.role_arn, service_account=OBSERVABILITY_ACCOUNT
                )
            ],
        )
