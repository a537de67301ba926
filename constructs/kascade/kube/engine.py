"""One model: its replicas, their LMCache servers, and who may reach them."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import (
    CONFIG_HASH_ANNOTATION,
    ENGINE_LABEL,
    VLLM_PORT,
    engine_selector,
    labels,
)
from kascade.kube._objects import Fields, Metadata, add_object, expect, pod_template
from kascade.kube._pods import (
    ENGINE_PRIORITY,
    POD_SECURITY,
    SHM_VOLUME,
    in_group,
    spread_widely,
    tolerations,
)
from kascade.kube._policies import (
    add_policy,
    ingress_from,
    internet_egress,
    pods,
    scrape_ingress,
)
from kascade.kube._rbac import add_service_account
from kascade.kube.cache_program import cache_module_volume
from kascade.kube.engine_program import engine_program_hash, gpu_checks, program_volume
from kascade.kube.l2.attachment import Attachment, attach
from kascade.kube.lmcache import server_container
from kascade.kube.tenancy import TenancyProgram, tenancy_program_hash, tenancy_volume
from kascade.kube.vllm import engine_container
from kascade.kube.weights import weights_volume
from kascade.plan import EnginePlan, NetworkPlan

_PROGRESS_SECONDS: Final = 600
"""Until a stuck roll-out counts as failed, on top of the model's load time and of the grace of the
pod that it may have to wait for: pulling the image."""


class Engine(Construct):
    """Deployment with LMCache servers, Service, disruption budget and NetworkPolicy of one model.

    It stands on its namespace, which must admit containers that run as root, on
    :class:`~kascade.kube.Classes` and the :class:`~kascade.kube.EnginePrograms` of that namespace,
    on NVIDIA's device plugin, and on the EBS CSI driver where weights are downloaded. Requests come
    from its :class:`Router` alone.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, engine: EnginePlan, network: NetworkPlan
    ) -> None:
        """Add the engine.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            engine: The plan's slice.
            network: Addresses of the VPC, where the collector of metrics comes from.

        Raises:
            KascadeError: A plan is not the one that the argument takes.
        """
        super().__init__(scope, construct_id)
        expect(engine=(engine, EnginePlan), network=(network, NetworkPlan))
        self._plan = engine
        self._l2 = attach(engine, network)
        self._selector = engine_selector(engine.name)
        self._labels = {**labels(self._selector), ENGINE_LABEL: engine.name}
        self._meta = Metadata(name=engine.name, namespace=engine.namespace, labels=self._labels)
        # An account without any right: the default one might be given some by others.
        add_service_account(self, meta=self._meta)
        if engine.tenancy is not None:
            TenancyProgram(self, "Tenancy", engine=engine)
        self._add_deployment()
        add_object(
            self,
            api_version="v1",
            kind="Service",
            meta=self._meta,
            body={
                # For people and port-forwarding; the router asks the API server for pods.
                "spec": {
                    "type": "ClusterIP",
                    "selector": self._selector,
                    "ports": [{"name": "http", "port": engine.port, "targetPort": VLLM_PORT}],
                }
            },
        )
        add_object(
            self,
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            meta=self._meta,
            body={
                # HyperPod skips a node whose drain a budget forbids, so one must always go.
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": self._selector}}
            },
        )
        self._add_policy(network)

    def _add_deployment(self) -> None:
        plan = self._plan
        hashes = [
            engine_program_hash(),
            *([tenancy_program_hash()] if plan.tenancy is not None else []),
        ]
        add_object(
            self,
            api_version="apps/v1",
            kind="Deployment",
            meta=self._meta,
            body={
                "spec": {
                    "replicas": plan.replicas,
                    "selector": {"matchLabels": self._selector},
                    # A surge without a free GPU would wait for ever.
                    "strategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {
                            "maxSurge": plan.max_surge,
                            "maxUnavailable": plan.max_unavailable,
                        },
                    },
                    "progressDeadlineSeconds": plan.load_timeout_seconds
                    + plan.grace_seconds
                    + _PROGRESS_SECONDS,
                    "template": pod_template(
                        self._labels, self._pod(), {CONFIG_HASH_ANNOTATION: "-".join(hashes)}
                    ),
                }
            },
        )

    def _pod(self) -> Fields:
        plan, l2 = self._plan, self._l2
        guard = [] if l2 is None else [l2.guard]
        return {
            "serviceAccountName": self._meta.name,
            "automountServiceAccountToken": False,
            # A Service called "vllm" would set VLLM_PORT, which vLLM reads as a setting.
            "enableServiceLinks": False,
            "priorityClassName": ENGINE_PRIORITY,
            "terminationGracePeriodSeconds": plan.grace_seconds,
            "securityContext": POD_SECURITY,
            "affinity": in_group(plan.group, plan.instance_types),
            "tolerations": tolerations(plan.taint_keys),
            "topologySpreadConstraints": spread_widely(self._selector, zones=plan.spread_zones),
            "initContainers": [*gpu_checks(plan), *guard, server_container(plan, l2)],
            "containers": [engine_container(plan)],
            "volumes": engine_volumes(plan, l2),
        }

    def _add_policy(self, network: NetworkPlan) -> None:
        plan = self._plan
        add_policy(
            self,
            meta=self._meta,
            selecting=self._selector,
            ingress=[
                ingress_from(
                    [pods({"app.kubernetes.io/component": "router", ENGINE_LABEL: plan.name})],
                    plan.port,
                ),
                *scrape_ingress(network.collector_cidrs, plan.port, plan.lmcache.http_port),
            ],
            # Weights. A mount is the kubelet's, not the pod's, so neither the cache nor mounted
            # weights need a rule.
            egress=[
                *([internet_egress(network.vpc_cidrs)] if plan.mounted_weights is None else []),
                *(() if self._l2 is None else self._l2.egress),
            ],
        )


def engine_volumes(plan: EnginePlan, l2: Attachment | None) -> list[Fields]:
    """Volumes of a pod with vLLM and its LMCache server.

    Args:
        plan: The engine.
        l2: How its server reaches L2.
    """
    return [
        # vLLM's ranks and the LMCache server exchange data here; 64 MiB is the default.
        {
            "name": SHM_VOLUME,
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{plan.shm_mib}Mi"},
        },
        weights_volume(plan),
        cache_module_volume(),
        program_volume(),
        *(() if l2 is None else l2.volumes),
        *([tenancy_volume(plan)] if plan.tenancy is not None else []),
    ]
