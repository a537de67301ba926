"""The EKS and HyperPod clusters as planned, with what runs on each of their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kascade.plan.values import Figure, Namespaces, Price


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingEksPlan:
    """An EKS cluster that somebody else made.

    Attributes:
        security_group_id: The one that EKS made for it.
        hyperpod_arn: HyperPod cluster that stands on it already, or None when one is made.
    """

    security_group_id: str
    hyperpod_arn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonPlan:
    """One EKS add-on.

    Attributes:
        version: Exact version, or None for EKS's default of the cluster's Kubernetes version.
        needs_nodes: True when its pods must be scheduled before EKS calls it healthy.
        configuration: The add-on's configuration values.
    """

    name: str
    version: str | None
    needs_nodes: bool
    configuration: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceAddonPlan:
    """HyperPod's inference operator.

    Attributes:
        role_name: Of the operator's role; the add-on insists on its beginning.
        tls_bucket: Of the bucket for certificates; account and region come after it.
    """

    addon: AddonPlan
    role_name: str
    tls_bucket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityAddonPlan:
    """HyperPod's own metrics.

    Attributes:
        workspace_arn: The Managed Prometheus workspace that it writes to.
        workspace_endpoint: Its address.
    """

    addon: AddonPlan
    workspace_arn: str
    workspace_endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesPlan:
    """EKS add-ons that come after HyperPod's nodes.

    Attributes:
        dependencies: Add-ons that the others need, first.
    """

    dependencies: tuple[AddonPlan, ...]
    inference: InferenceAddonPlan | None
    task_governance: AddonPlan | None
    training_operator: AddonPlan | None
    observability: ObservabilityAddonPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemGroupPlan:
    """EKS managed node group for everything that needs no GPU.

    Attributes:
        release_version: Release of EKS's node image, or None for the newest whenever the nodes are
            made or their Kubernetes version changes.
    """

    instance_type: str
    count: int
    max_count: int
    root_volume_gib: int
    release_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroupPlan:
    """One HyperPod instance group.

    Attributes:
        instance_type: With its ``ml.`` prefix, as HyperPod labels the nodes. Of several types, the
            preferred one.
        other_types: The others, in order of preference.
        efa_types: Those of all types that have EFA.
        efa_interfaces: EFA interfaces that every type has.
        capacity: ``on_demand``, ``spot`` or ``training_plan``.
        network_interface: ``efa`` or ``efa-only``, or None for HyperPod's own choice.
        zone: The zone of all its instances, or None for any of the home zones.
        nvme_bytes: Raw NVMe of one instance.
        volume_gib: Second EBS volume of one instance, for images and logs.
        cache_worker: True when a Curvine worker runs on each instance.
        max_pods: Pod slots of one instance.
        daemonset_pods: Names of the pods that an instance carries, or may have to carry, before
            any engine.
        l2_gib: What one instance gives to L2.
        l2_cpu: CPU that one instance keeps for moving L2, where that is Curvine.
    """

    name: str
    instance_type: str
    count: int
    zone: str | None
    gpus: int
    gpu_name: str
    efa_interfaces: int
    max_pods: int
    nvme_bytes: int
    cache_worker: bool
    volume_gib: int
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    deep_health_checks: tuple[str, ...]
    daemonset_pods: tuple[str, ...]
    engines_per_node: int
    usd_per_hour: Price
    allocatable_ram: Figure
    l2_gib: int
    l2_cpu: Figure | None = None
    other_types: tuple[str, ...] = ()
    efa_types: tuple[str, ...] = ()
    min_count: int | None = None
    capacity: str = "on_demand"
    training_plan_arn: str | None = None
    threads_per_core: int = 2
    network_interface: str | None = None
    volume_kms_key_arn: str | None = None
    root_volume_kms_key_arn: str | None = None

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Every type its instances may have."""
        return (self.instance_type, *self.other_types)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareUpdatesPlan:
    """Scheduled updates of the nodes' system software, some nodes at a time.

    Attributes:
        batch_is_percentage: Whether ``batch_size`` counts percent of a group, not nodes.
        rollback_alarms: Names of CloudWatch alarms.
    """

    schedule: str
    batch_size: int
    batch_is_percentage: bool
    wait_seconds: int
    rollback_alarms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAccess:
    """A folder of a bucket that the S3 CSI driver may read.

    Attributes:
        prefix: Without slash at either end.
        kms_key_arn: Key of the bucket, or None for S3's own encryption.
    """

    bucket: str
    prefix: str
    kms_key_arn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolPlan:
    """How Karpenter fills one instance group.

    Attributes:
        group: The group, after which everything of the pool is named.
        labels: Of the group's nodes, those included that HyperPod sets and pods ask for.
        gpus: Most GPUs of all its instances, which bounds their number.
        empty_seconds: How long an instance carries nothing but daemons before it goes.
        away_at_once: Most instances that Karpenter takes away at a time.
    """

    group: str
    instance_types: tuple[str, ...]
    zone: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    gpus: int
    empty_seconds: int
    away_at_once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingPlan:
    """HyperPod's managed Karpenter: one pool for each instance group."""

    pools: tuple[NodePoolPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """EKS and HyperPod.

    Attributes:
        public_access_cidrs: Who may reach the EKS API from outside; empty keeps it private.
        tiered_storage_percentage: Share of host RAM lent to HyperPod's managed tier, or None
            when that tier is off.
        nvme_mount: Where the instance's NVMe is mounted on the host.
        cache_host_path: Directory below it that Curvine's worker makes for its blocks.
        weights: What engines mount from S3; empty when no model does.
        existing: The EKS cluster to use, or None when one is made.
        security_group_ids: Of the nodes, beside the deployment's own.
        features: None when no feature wants an add-on of its own.
        autoscaling: None when every group has as many instances as it counts.
    """

    eks_name: str
    hyperpod_name: str
    kubernetes_version: str
    public_access_cidrs: tuple[str, ...]
    admin_role_arns: tuple[str, ...]
    addons: tuple[AddonPlan, ...]
    system_group: SystemGroupPlan
    groups: tuple[InstanceGroupPlan, ...]
    tiered_storage_percentage: int | None
    node_recovery: str
    nvme_mount: str
    cache_host_path: str
    weights: tuple[BucketAccess, ...]
    log_retention_days: int
    existing: ExistingEksPlan | None = None
    security_group_ids: tuple[str, ...] = ()
    software_updates: SoftwareUpdatesPlan | None = None
    features: FeaturesPlan | None = None
    autoscaling: AutoscalingPlan | None = None

    @property
    def makes_hyperpod(self) -> bool:
        """Whether the HyperPod cluster is made here, or is there already."""
        return self.existing is None or self.existing.hyperpod_arn is None

    @property
    def at_start(self) -> ClusterPlan:
        """The cluster as a template states it: what Karpenter fills begins empty."""
        if self.autoscaling is None:
            return self
        empty = (replace(group, count=0, min_count=None) for group in self.groups)
        return replace(self, groups=tuple(empty))

    @property
    def volume_keys(self) -> tuple[str, ...]:
        """ARNs of the KMS keys of all groups' volumes, each once."""
        keys = {k for g in self.groups for k in (g.volume_kms_key_arn, g.root_volume_kms_key_arn)}
        return tuple(sorted(key for key in keys if key is not None))

    @property
    def gpu_instance_types(self) -> tuple[str, ...]:
        """Types that carry GPUs, sorted, each once."""
        return tuple(sorted({t for g in self.groups if g.gpus for t in g.instance_types}))

    @property
    def efa_instance_types(self) -> tuple[str, ...]:
        """Types that carry EFA interfaces, sorted, each once."""
        return tuple(sorted({t for g in self.groups for t in g.efa_types}))


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenciesChartPlan:
    """AWS's own chart in place of HyperPod's agents, rights and device plugins.

    Attributes:
        path: Of its folder, relative to the configuration file.
        switches: Paths of values, such as ``mpi-operator.enabled``, and whether each is on.
        images: Images that the configuration names, by role; the chart has its own for the others.
    """

    path: str
    switches: Mapping[str, bool]
    images: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformPlan:
    """HyperPod's in-cluster dependencies and what every namespace shares.

    Attributes:
        host_directory: The one directory of the host that pods of the serving namespace may
            mount, and only to read; None where they may mount nothing of it.
        agents: Whether HyperPod's agents, rights and device plugins are part of it; False where
            a HyperPod cluster brought them, or AWS's chart does.
        dependencies_chart: AWS's chart, where one takes their place.
    """

    namespaces: Namespaces
    health_agent_image: str
    device_plugin_image: str
    efa_plugin_image: str
    gpu_instance_types: tuple[str, ...]
    efa_instance_types: tuple[str, ...]
    taint_keys: tuple[str, ...]
    host_directory: str | None = None
    agents: bool = True
    dependencies_chart: DependenciesChartPlan | None = None
