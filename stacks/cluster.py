"""The cluster: EKS, what HyperPod expects inside it, then HyperPod."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from kascade.aws.addons import FeatureAddons
from kascade.aws.autoscaling import KarpenterAutoscaling
from kascade.aws.balancers import BalancerDrain
from kascade.aws.dependencies import DependenciesRelease, LocalChart
from kascade.aws.eks import ServingEksCluster
from kascade.aws.hyperpod import HyperPodCluster
from kascade.aws.hyperpod_plan import planned_cluster
from kascade.aws.lifecycle import LifecycleScript
from kascade.aws.manifests import AppliedManifests, KubernetesObject
from kascade.aws.network import ServingNetwork
from kascade.plan import ServingPlan
from stacks._base import KascadeStack


class ClusterStack(KascadeStack):
    """EKS with its add-ons and system nodes, and the HyperPod cluster on top.

    HyperPod looks for its in-cluster agents and rights while it is being created and fails, or
    works without recovery, where they are missing. So ``platform`` is applied first.
    """

    def __init__(  # noqa: PLR0913 - what it introduces to each other
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ServingPlan,
        network: ServingNetwork,
        platform: Sequence[KubernetesObject],
        dependencies: LocalChart | None = None,
        destroy: bool = False,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            plan=plan,
            description=f"Kascade {plan.name}: EKS and HyperPod clusters",
        )
        self._destroy = destroy
        self.eks = ServingEksCluster(self, "Eks", plan=plan.cluster, network=network)
        self.platform = AppliedManifests(
            self, "Platform", cluster=self.eks.cluster, objects=platform
        )
        self.platform.node.add_dependency(*self.eks.entries)
        if not plan.cluster.makes_hyperpod and self.eks.ebs_csi_role is not None:
            # A deletion takes minutes to end HyperPod, and volumes go meanwhile. Without it the
            # namespaces must go, with all claims in them, before the driver that deletes volumes.
            self.platform.node.add_dependency(*self.eks.ready)
        self.hyperpod: HyperPodCluster | None = None
        if plan.cluster.makes_hyperpod:
            self.hyperpod = self._make_hyperpod(plan, network)
        if dependencies is not None and self.hyperpod is not None:
            chart = DependenciesRelease(
                self,
                "Dependencies",
                cluster=self.eks.cluster,
                installer=self.eks.kubectl_role,
                chart=dependencies,
            )
            chart.release.node.add_dependency(*self.eks.entries)
            self.hyperpod.resource.node.add_dependency(chart.release)
        cdk.CfnOutput(
            self,
            "Kubeconfig",
            description="For roles that the configuration admits, from inside the VPC",
            value=f"aws eks update-kubeconfig --name {plan.cluster.eks_name} "
            f"--region {plan.region}",
        )

    def _make_hyperpod(self, plan: ServingPlan, network: ServingNetwork) -> HyperPodCluster:
        lifecycle = LifecycleScript(self, "Lifecycle", deployment=plan.name, plan=plan.cluster)
        hyperpod = planned_cluster(
            self, "HyperPod", plan=plan.cluster.at_start, eks=self.eks, lifecycle=lifecycle
        )
        hyperpod.resource.node.add_dependency(self.platform.barrier)
        if plan.cluster.autoscaling is not None:
            KarpenterAutoscaling(self, "Autoscaling", hyperpod=hyperpod)
        if plan.cluster.features is not None and self.eks.issuer_url is not None:
            self.features = FeatureAddons(
                self,
                "Features",
                plan=plan.cluster.features,
                cluster=self.eks.cluster,
                issuer_url=self.eks.issuer_url,
                vpc_id=network.vpc.vpc_id,
                hyperpod=hyperpod.resource,
                after=self.eks.ready,
                drained_with_log_days=(plan.cluster.log_retention_days if self._destroy else None),
            )
            if self.features.inference is not None:
                BalancerDrain(
                    self,
                    "BalancerDrain",
                    cluster=self.eks.cluster,
                    vpc_id=network.vpc.vpc_id,
                    controller=self.features.inference,
                    log_retention_days=plan.cluster.log_retention_days,
                )
        return hyperpod
