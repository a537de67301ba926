"""What runs on the cluster: cache, engines, routers."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from kascade.aws.kyverno import Kyverno
from kascade.aws.manifests import AppliedManifests, KubernetesObject, check_stack_size
from kascade.aws.weights import WeightsRights
from kascade.plan import KyvernoPlan, ServingPlan
from kascade.sizing.template_size import MOST_BYTES
from stacks._base import KascadeStack


class ServingStack(KascadeStack):
    """Charts, applied one after another in the order given.

    One after another on purpose: a chart may need what the one before it made, such as the
    cache's volumes, and the kubectl function never runs more often at once than one chart has
    objects in a wave.
    """

    def __init__(  # noqa: PLR0913 - what it introduces to each other
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ServingPlan,
        cluster: eks.ICluster,
        charts: Mapping[str, Sequence[KubernetesObject]],
        weights_role: iam.IRole | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            plan=plan,
            description=f"Kascade {plan.name}: KV cache, engines and routers",
        )
        check_stack_size(construct_id, charts, most_bytes=MOST_BYTES)
        cluster_stack = cdk.Stack.of(cluster)
        if cluster_stack is not self:
            self.add_stack_dependency(cluster_stack, "HyperPod's nodes run what is applied here")
        self.applied = {
            name: AppliedManifests(self, name, cluster=cluster, objects=objects)
            for name, objects in charts.items()
        }
        for earlier, later in pairwise(self.applied.values()):
            later.node.add_dependency(earlier.barrier)
        if weights_role is not None and self.applied:
            rights = WeightsRights(self, "Weights", role=weights_role, folders=plan.cluster.weights)
            self._before_engines(rights)
        if plan.admission is not None and plan.admission.kyverno is not None:
            self._install_kyverno(cluster, plan.admission.kyverno)
        for router in plan.routers:
            # Of one behind tenant gateways, only they know the way.
            if router.client_label is not None:
                url = f"http://{router.name}.{router.namespace}:{router.port}/v1"
                self._add_endpoint(router.engine, router.client_label, url)
        for gateway in plan.tenant_gateways:
            url = f"http://{gateway.name}.{gateway.namespace}:{gateway.port}/v1"
            self._add_endpoint(f"{gateway.engine}-{gateway.tenant}", gateway.client_label, url)

    def _before_engines(self, rights: WeightsRights) -> None:
        """Let the charts of engines wait for their rights, by what they wait for already."""
        names = list(self.applied)
        first = next((n for n, name in enumerate(names) if name.startswith("engine-")), 0)
        if first:
            self.applied[names[first - 1]].barrier.node.add_dependency(rights)
        else:
            self.applied[names[0]].node.add_dependency(rights)

    def _add_endpoint(self, name: str, label: str, url: str) -> None:
        cdk.CfnOutput(
            self,
            f"Endpoint-{name}",
            description=f"OpenAI API, for pods and namespaces labelled {label}=true",
            value=url,
        )

    def _install_kyverno(self, cluster: eks.ICluster, plan: KyvernoPlan) -> None:
        """Between the chart of its namespace and those of the models, whose policies it defines."""
        kyverno = Kyverno(self, "Kyverno", cluster=cluster, plan=plan)
        names = list(self.applied)
        place = names.index("admission")
        kyverno.node.add_dependency(self.applied["admission"].barrier)
        self.applied[names[place + 1]].node.add_dependency(kyverno)
