"""A plan made by hand, and the three stacks made of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from kascade.plan import (
    AddonPlan,
    ClusterPlan,
    Figure,
    InstanceGroupPlan,
    Namespaces,
    NetworkPlan,
    PlatformPlan,
    Price,
    ServingPlan,
    SystemGroupPlan,
)
from stacks.cluster import ClusterStack
from stacks.network import NetworkStack
from stacks.serving import ServingStack

ZERO = Figure(value=0, unit="", reason="not under test")
FREE = Price(value=0, unit="USD/h", reason="not under test")
NAMESPACES = Namespaces(serving="serving", cache="cache", hyperpod="aws-hyperpod")


def make_group(name: str = "gpu", **changes: Any) -> InstanceGroupPlan:
    given: dict[str, Any] = {
        "name": name,
        "instance_type": "ml.g6e.12xlarge",
        "count": 2,
        "zone": "us-west-2a",
        "gpus": 4,
        "gpu_name": "L40S",
        "efa_interfaces": 1,
        "max_pods": 29,
        "nvme_bytes": 3_800_000_000_000,
        "cache_worker": True,
        "volume_gib": 200,
        "labels": {"kascade.io/group": name},
        "taints": (("nvidia.com/gpu", "present", "NoSchedule"),),
        "deep_health_checks": (),
        "daemonset_pods": (),
        "engines_per_node": 4,
        "usd_per_hour": FREE,
        "allocatable_ram": ZERO,
        "l2_gib": 0,
    }
    return InstanceGroupPlan(**(given | changes))


def make_network_plan(**changes: Any) -> NetworkPlan:
    given: dict[str, Any] = {
        "vpc_cidr": "10.0.0.0/16",
        "zones": ("us-west-2a", "us-west-2b", "us-west-2c"),
        "nat_gateways": 1,
        "private_cidrs": ("10.0.0.0/19", "10.0.32.0/19", "10.0.64.0/19"),
        "public_cidrs": ("10.0.128.0/26", "10.0.128.64/26", "10.0.128.128/26"),
        "collector_cidrs": ("10.0.129.0/27", "10.0.129.32/27", "10.0.129.64/27"),
        "interface_endpoints": ("ecr.api", "ecr.dkr", "sts"),
        "flow_log_retention_days": 30,
    }
    return NetworkPlan(**(given | changes))


def make_cluster_plan(**changes: Any) -> ClusterPlan:
    def addon(name: str, *, needs_nodes: bool, **configuration: object) -> AddonPlan:
        return AddonPlan(
            name=name, version=None, needs_nodes=needs_nodes, configuration=configuration
        )

    given: dict[str, Any] = {
        "eks_name": "demo",
        "hyperpod_name": "demo-hyperpod",
        "kubernetes_version": "1.35",
        "public_access_cidrs": (),
        "admin_role_arns": ("arn:aws:iam::111122223333:role/Admin",),
        "addons": (
            addon(
                "vpc-cni",
                needs_nodes=False,
                enableNetworkPolicy="true",
                env={"ENABLE_PREFIX_DELEGATION": "true"},
            ),
            addon("kube-proxy", needs_nodes=False),
            addon("eks-pod-identity-agent", needs_nodes=False),
            addon("coredns", needs_nodes=True),
            addon("aws-ebs-csi-driver", needs_nodes=True),
        ),
        "system_group": SystemGroupPlan(
            instance_type="m7i.large", count=2, max_count=3, root_volume_gib=50
        ),
        "groups": (
            make_group(),
            make_group(
                "any-zone",
                zone=None,
                labels={},
                taints=(),
                deep_health_checks=("InstanceStress",),
            ),
        ),
        "tiered_storage_percentage": 20,
        "node_recovery": "Automatic",
        "nvme_mount": "/opt/dlami/nvme",
        "weights": (),
        "cache_host_path": "/opt/dlami/nvme/kascade",
        "log_retention_days": 30,
    }
    return ClusterPlan(**(given | changes))


def make_plan(
    *,
    network: NetworkPlan | None = None,
    cluster: ClusterPlan | None = None,
    account: str | None = None,
) -> ServingPlan:
    return ServingPlan(
        name="demo",
        region="us-west-2",
        account=account,
        tags={"team": "serving"},
        namespaces=NAMESPACES,
        network=network or make_network_plan(),
        cluster=cluster or make_cluster_plan(),
        platform=PlatformPlan(
            namespaces=NAMESPACES,
            health_agent_image="",
            device_plugin_image="",
            efa_plugin_image="",
            gpu_instance_types=(),
            efa_instance_types=(),
            taint_keys=(),
        ),
        curvine=None,
        directories=None,
        jobs_image="",
        engines=(),
        routers=(),
        tenant_gateways=(),
        verifications=(),
        janitors=(),
        observability=None,
        tiers=(),
        usd_per_hour=FREE,
        warnings=(),
    )


def make_object(kind: str, name: str, namespace: str | None = None, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}


PLATFORM = [
    make_object("DaemonSet", "health-monitoring-agent", "aws-hyperpod", spec={"a": 1.5}),
    make_object("ServiceAccount", "health-monitoring-agent", "aws-hyperpod"),
    make_object("Namespace", "aws-hyperpod"),
    make_object("ClusterRole", "health-monitoring-agent"),
]
CHARTS = {
    "cache": [
        make_object("DaemonSet", "worker", "cache"),
        make_object("Namespace", "cache"),
        make_object("ConfigMap", "curvine", "cache", data={"curvine.toml": "a = 1\nb = 'ü'\n"}),
    ],
    "engine-a": [
        make_object("Deployment", "engine-a", "serving", spec={"replicas": 2}),
        make_object("Service", "engine-a", "serving"),
    ],
    "router-a": [make_object("Deployment", "router-a", "serving")],
}


@dataclass(frozen=True)
class Synthesis:
    """Templates by stack name, and the directory they lie in."""

    directory: Path
    templates: Mapping[str, dict[str, Any]]

    def resources(self, stack: str, kind: str) -> dict[str, dict[str, Any]]:
        return {
            name: resource
            for name, resource in self.templates[stack]["Resources"].items()
            if resource["Type"] == kind
        }

    def only(self, stack: str, kind: str) -> dict[str, Any]:
        (resource,) = self.resources(stack, kind).values()
        return resource


def build(app: cdk.App, plan: ServingPlan, charts: Any = None) -> tuple[cdk.Stack, ...]:
    network = NetworkStack(app, f"{plan.name}-network", plan=plan)
    cluster = ClusterStack(
        app, f"{plan.name}-cluster", plan=plan, network=network.network, platform=PLATFORM
    )
    serving = ServingStack(
        app,
        f"{plan.name}-serving",
        plan=plan,
        cluster=cluster.eks.cluster,
        charts=CHARTS if charts is None else charts,
        weights_role=cluster.eks.weights_role,
    )
    return network, cluster, serving


def synthesize(directory: Path, plan: ServingPlan, charts: Any = None) -> Synthesis:
    app = cdk.App(outdir=str(directory))
    build(app, plan, charts)
    app.synth()
    return Synthesis(
        directory=directory,
        templates={
            path.name.removeprefix(f"{plan.name}-").removesuffix(".template.json"): json.loads(
                path.read_text(encoding="utf-8")
            )
            for path in sorted(directory.glob("*.template.json"))
        },
    )
