"""The plan: every number and name that follows from a configuration, ready to be rendered.

Constructs and charts take slices of it. They may format what stands here, never derive more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kascade.errors import Problem

HOME_ZONES: Final = 2
"""EKS asks for two zones and HyperPod's cluster-level subnets may never change (createOnly in
CloudFormation's registry: AWS::SageMaker::Cluster VpcConfig, AWS::EKS::Nodegroup Subnets,
AWS::APS::Scraper Source)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its unit and the reason it has that value."""

    value: float
    unit: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price with its unit and where it comes from; None where nobody knows it.

    What adds prices up is unknown as soon as one of them is.
    """

    value: float | None
    unit: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Kubernetes namespaces of one deployment.

    Attributes:
        serving: Engines and routers.
        cache: Curvine masters, workers, CSI driver (Pod Security level privileged).
        hyperpod: HyperPod's own agents; the service fixes this name.
    """

    serving: str
    cache: str
    hyperpod: str


# --- AWS ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcPlan:
    """A VPC that somebody else made.

    Attributes:
        private_subnet_ids: One for each zone, in their order.
        collector_subnet_ids: Likewise; empty without observability.
        further_cidrs: Its ranges beside ``vpc_cidr``.
    """

    vpc_id: str
    private_subnet_ids: tuple[str, ...]
    collector_subnet_ids: tuple[str, ...]
    further_cidrs: tuple[str, ...] = ()


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
class NetworkPlan:
    """VPC of one deployment.

    Attributes:
        existing: The VPC to use, or None when one is made.
        vpc_cidr: The range of the VPC, or the first of several: see :attr:`vpc_cidrs`.
        nat_gateways: One per zone or one in all; 0 closes the network.
        private_cidrs: Subnets of nodes and pods, one for each zone, in the order of ``zones``.
        public_cidrs: Subnets of the NAT gateways, likewise.
        collector_cidrs: Subnets of the managed Prometheus collector's interfaces, likewise;
            nothing else is in them, so network policies can admit the collector alone. Empty
            without observability.
        interface_endpoints: Short service names, such as ``ecr.api``.
    """

    vpc_cidr: str
    zones: tuple[str, ...]
    nat_gateways: int
    private_cidrs: tuple[str, ...]
    public_cidrs: tuple[str, ...]
    collector_cidrs: tuple[str, ...]
    interface_endpoints: tuple[str, ...]
    flow_log_retention_days: int
    existing: ExistingVpcPlan | None = None

    @property
    def vpc_cidrs(self) -> tuple[str, ...]:
        """Every range of the VPC; what is inside it may have an address of any."""
        return (self.vpc_cidr, *(self.existing.further_cidrs if self.existing else ()))

    @property
    def home_zones(self) -> tuple[str, ...]:
        """The first two, in which everything lives whose subnets AWS never lets change.

        A zone that is added later therefore moves nothing: see :data:`HOME_ZONES`.
        """
        return self.zones[:HOME_ZONES]


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


# --- Kubernetes --------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSize:
    """CPU and memory of one container; the memory limit equals the request unless given."""

    cpu_millis: int
    memory_mib: int
    memory_limit_mib: int | None = None

    @property
    def limit_mib(self) -> int:
        """Memory limit in MiB."""
        return self.memory_mib if self.memory_limit_mib is None else self.memory_limit_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineWorkerPlan:
    """The Curvine worker DaemonSet of one instance group (data size differs by type)."""

    group: str
    instance_type: str
    nodes: int
    capacity_gb: int
    size: ContainerSize
    other_types: tuple[str, ...] = ()

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Every type its nodes may have."""
        return (self.instance_type, *self.other_types)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineVolumePlan:
    """One static volume: a directory of the pool, made by the bootstrap Job, mounted by pods."""

    name: str
    curvine_path: str
    claim_namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvinePlan:
    """Curvine: one pool over the NVMe of every worker node.

    Attributes:
        masters: 1 or 3; fixed for the life of the pool.
        client_timeout_ms: Bound on any call to a master or worker, so that a lost one becomes a
            cache miss instead of a hung request.
        block_size_mb: Curvine's own block size; holds one KV chunk.
        ttl_hours: Age at which Curvine deletes a file.
        driver_groups: The only groups whose nodes the CSI driver runs on. Empty where every
            HyperPod node is of this deployment.
    """

    namespace: str
    cluster_id: str
    image: str
    csi_image: str
    provisioner_image: str
    registrar_image: str
    masters: int
    master_size: ContainerSize
    csi_size: ContainerSize
    meta_volume_gib: int
    journal_volume_gib: int
    master_rpc_port: int
    master_journal_port: int
    master_web_port: int
    worker_rpc_port: int
    worker_web_port: int
    fuse_web_port: int
    host_path: str
    nvme_mount: str
    reserved_gb: int
    workers: tuple[CurvineWorkerPlan, ...]
    volumes: tuple[CurvineVolumePlan, ...]
    block_size_mb: int
    ttl_hours: int
    client_timeout_ms: int
    worker_policy: str
    driver_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineL2Plan:
    """How one engine's LMCache server reaches L2 on Curvine.

    Attributes:
        volume: Name of the Curvine volume (also of its claim). It ends with a hash of all that
            cannot be changed in a volume, so that a change makes a new one.
        directory: The volume's directory in the pool, named by everything that two replicas must
            agree in to share files.
        mount_path: Where the claim is mounted in the LMCache container.
        base_path: Directory below it; holds everything that makes two caches incompatible.
        capacity_gb: Bound on what one pod writes, so that all pods together fit the pool.
        serde_workers: Threads that seal and open blocks.
        key_secret: Secret with the aesgcm key, made inside the cluster, or None without serde.
    """

    volume: str
    directory: str
    mount_path: str
    base_path: str
    capacity_gb: int
    workers: int
    serde_workers: int
    evict_at: float
    evict_ratio: float
    key_secret: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryL2Plan:
    """How one engine's LMCache server reaches L2 in somebody else's file system.

    Attributes:
        claim: The claim that a person made.
        directory: The engine's own directory inside it, named by everything that two replicas must
            agree in to share files; no other engine has it.
        file_system: What must be mounted, or None for anything but a disk of the node.
        mount_path: Where that directory, and no more of the claim, is mounted in the container.
        base_path: The same: nothing is made below it but a folder for each pod.
        capacity_gb: Bound on what one pod writes, so that all pods together fit the capacity.
        serde_workers: Threads that seal and open blocks.
        key_secret: Secret with the aesgcm key, made inside the cluster, or None without serde.
    """

    claim: str
    directory: str
    file_system: str | None
    mount_path: str
    base_path: str
    capacity_gb: int
    workers: int
    serde_workers: int
    evict_at: float
    evict_ratio: float
    key_secret: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedL2Plan:
    """How one engine's LMCache server reaches HyperPod's managed tiered storage.

    Attributes:
        bucket: Name space in the daemon, named by everything that two replicas must agree in.
        port: The daemon's, on the node's own address.
        shared_memory: Name of the daemon's file in the host's shared memory.
        host_directory: Where that is on the host.
        mount_path: Where it is mounted in the LMCache container.
        capacity_gb: The engine's part of what its node lends; the daemon owns eviction.
        serde_workers: Threads that seal and open blocks.
        key_secret: Secret with the aesgcm key, made inside the cluster, or None without serde.
    """

    bucket: str
    port: int
    shared_memory: str
    host_directory: str
    mount_path: str
    capacity_gb: int
    serde_workers: int
    key_secret: str | None


L2Plan = CurvineL2Plan | DirectoryL2Plan | ManagedL2Plan
"""The either/or of L2; an engine without it has None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoriesPlan:
    """What is made in the claim of L2 ``directory`` before any engine mounts it.

    Attributes:
        claim: The claim.
        file_system: What must be mounted, or None for anything but a disk of the node.
        directories: Inside the claim, one for each engine.
    """

    namespace: str
    claim: str
    file_system: str | None
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LMCachePlan:
    """The LMCache multi-process server beside one engine.

    Attributes:
        l1_gb: L1 in the unit of ``--l1-size-gb`` (LMCache's "GB" is 1024**3 bytes).
        heartbeat_seconds: How often the engine asks whether the server is there.
        restart_pause_seconds: How long a restarted server stays away, so that the engine notices.
        reap_seconds: After how long a silence the server forgets an engine that has asked before.
        idle_seconds: The same for one that never has, because it has not stored anything yet.
        renew_seconds: How often at most a file in L2 that is loaded is made to look young.
    """

    port: int
    http_port: int
    chunk_size: int
    hash_algorithm: str
    l1_gb: int
    l1_eviction_policy: str
    prefetch_policy: str
    max_workers: int
    mq_timeout_seconds: int
    heartbeat_seconds: int
    restart_pause_seconds: int
    reap_seconds: int
    idle_seconds: int
    renew_seconds: int
    size: ContainerSize
    l2: L2Plan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigures:
    """What one replica holds and costs, each number with its reason.

    The three about loading from L2 are empty without an L2.
    """

    weights_per_gpu: Figure
    kv_per_token: Figure
    kv_per_token_per_gpu: Figure
    stored_per_token: Figure
    l0_tokens: Figure
    l1_size: Figure
    l1_tokens: Figure
    l2_tokens: Figure
    prefill_rate: Figure
    batched_tokens: Figure
    num_seqs: Figure
    full_pass: Figure
    l2_load_rate: Figure | None
    break_even_tokens: Figure | None
    break_even_reason: str
    cross_zone_hits: Figure | None
    usd_per_hour: Price
    cache_context: Figure
    core_silence: Figure
    drain: Figure
    longest_answer: Figure
    longest_request: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """What HyperPod's inference operator is asked to make of one engine.

    Attributes:
        endpoint_name: SageMaker endpoint, or empty for none.
        proxy_port: Port of the proxy that the operator puts into each pod.
        strategy: Of the operator's own router, by AWS's name.
        max_deploy_seconds: Until the operator calls a deployment failed.
        certificate_output: Where the operator leaves the certificates it makes, or None for the
            bucket of its add-on.
        certificate_arn: Certificate of your own in ACM, or None.
        certificate_domain: Domain of that certificate.
    """

    endpoint_name: str
    invocation_path: str
    proxy_port: int
    strategy: str
    max_deploy_seconds: int
    certificate_output: str | None
    certificate_arn: str | None
    certificate_domain: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KyvernoPlan:
    """Kyverno, which changes pods where the API server cannot do so itself.

    Attributes:
        chart_version: Version of its Helm chart.
        image_registry: Registry of its images, or None for the chart's own.
        webhook_port: Where its pods listen to the API server.
    """

    namespace: str
    chart_repository: str
    chart_version: str
    image_registry: str | None
    replicas: int
    webhook_port: int
    size: ContainerSize


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketVolumePlan:
    """One folder of a bucket as a static volume, mounted by Mountpoint for S3.

    Attributes:
        name: Of the claim. It ends with a hash of all that cannot be changed in a volume, so that a
            change makes a new one.
        engine: The model that mounts it.
        prefix: Without slash at either end.
        size: Of the pod that the driver starts on a node for this volume.
    """

    name: str
    claim_namespace: str
    engine: str
    bucket: str
    prefix: str
    region: str
    size: ContainerSize


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPlan:
    """Who changes the pods that the inference operator makes.

    Attributes:
        evaluator: ``kubernetes`` or ``kyverno``.
        kyverno: None where the API server does it.
    """

    evaluator: str
    reason: str
    kyverno: KyvernoPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedWeights:
    """Weights that lie somewhere already; every replica mounts them, and none can write.

    Attributes:
        claim: Claim in the engine's namespace.
        folder: Folder in the claim with the model's files, or None for all of it.
        bucket: What the claim is made for, or None for a claim that somebody else makes.
    """

    claim: str
    folder: str | None
    bucket: BucketVolumePlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancyPlan:
    """How one set of engines keeps its tenants' cached blocks apart.

    Attributes:
        tenants: Whose requests are answered; each name is the salt of its tenant's blocks.
        header: Header that names the tenant of a request, or None where there is one tenant, whose
            salt every request gets.
        proof_tenant: Nobody has a door of it; as it `kascade verify` and the benchmark ask. None
            where every request is the one tenant's.
        stranger: Likewise; as it the proof must find nothing.
        largest_body_mib: Longest body that an engine takes.
    """

    tenants: tuple[str, ...]
    header: str | None
    proof_tenant: str | None
    stranger: str | None
    largest_body_mib: int

    @property
    def salts(self) -> tuple[str, ...]:
        """Every salt that an engine may set."""
        own = (self.proof_tenant, self.stranger)
        return (*self.tenants, *(name for name in own if name is not None))

    @property
    def doors(self) -> bool:
        """Whether its tenants come through doors."""
        return self.header is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """One model: its replicas, its vLLM arguments and its LMCache server.

    Attributes:
        model: What ``vllm serve`` is given and what stands in every cache key; equal in all pods.
            With mounted weights it is also the path of their folder, below the working directory.
        served_name: Name in the API; equal to ``model`` so that vLLM's and LMCache's metrics
            carry one label value.
        gpus: GPUs of one pod, equal to the tensor parallel size.
        weights_volume_gib: Volume that a pod downloads the weights to, 0 for mounted weights.
        mounted_weights: Weights that need no download, or None.
        notice_seconds: Until nobody sends to a pod that ends; the first part of its drain.
        drain_seconds: The longest that a pod may go on answering.
        shutdown_seconds: vLLM's own limit, from SIGTERM on.
        grace_seconds: The pod's: the drain, and the end of its programs.
        core_silent_seconds: How long the core may leave a question unanswered.
        shares_node: True when several pods of this or another model can stand on one node.
        operator: None for an engine whose pods are ours.
        spread_zones: True when its group has nodes in several zones.
        tenancy: None where everybody shares everything.
        renders_for_router: True where its router asks it to turn prompts into tokens.
        silence_seconds: How long one of its streams may wait for the next token.
    """

    name: str
    namespace: str
    image: str
    model: str
    revision: str | None
    served_name: str
    replicas: int
    group: str
    instance_type: str
    gpus: int
    dtype: str
    kv_cache_dtype: str
    quantization: str | None
    max_model_len: int
    block_size: int
    max_num_seqs: int
    max_batched_tokens: int
    gpu_memory_utilization: float
    port: int
    size: ContainerSize
    shm_mib: int
    weights_volume_gib: int
    mounted_weights: MountedWeights | None
    load_timeout_seconds: int
    notice_seconds: int
    drain_seconds: int
    shutdown_seconds: int
    grace_seconds: int
    core_silent_seconds: int
    max_surge: int
    max_unavailable: int
    huggingface_secret: str | None
    taint_keys: tuple[str, ...]
    shares_node: bool
    spread_zones: bool
    tenancy: TenancyPlan | None
    renders_for_router: bool
    silence_seconds: int
    lmcache: LMCachePlan
    figures: EngineFigures
    operator: OperatorPlan | None = None
    other_types: tuple[str, ...] = ()

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Every type its nodes may have."""
        return (self.instance_type, *self.other_types)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterPlan:
    """The router in front of one model.

    Attributes:
        strategy: The user's word, one of AWS's four names.
        program: Which program serves it.
        policy: That program's own name for it.
        reason: Why this program and policy.
        request_timeout_seconds: Of a whole request, however its tokens flow: the program knows no
            limit of silence. Engines have that (``EnginePlan.silence_seconds``).
        rendering: What it costs that every engine renders each prompt, or None where none does.
        spread_zones: True when the system nodes stand in several zones.
        tenancy: Of the engine behind it.
        client_label: Admits the pods and namespaces that carry it; None where only doors, and the
            proof, are admitted.
    """

    name: str
    namespace: str
    image: str
    engine: str
    engine_port: int
    strategy: str
    program: str
    policy: str
    reason: str
    replicas: int
    replicas_reason: str
    spread_zones: bool
    port: int
    metrics_port: int
    size: ContainerSize
    request_timeout_seconds: int
    request_timeout_reason: str
    rendering: Figure | None
    max_payload_mib: int
    max_concurrent_requests: int
    tenancy: TenancyPlan | None
    client_label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPlan:
    """One tenant's way in: a proxy that says whose a request is, in front of a router.

    Attributes:
        client_label: Admits the pods and namespaces that carry it.
        router: The router's Service.
        header: The header that it sets, whatever the client sent.
        posts: Paths that it lets through with POST.
        gets: Paths that it lets through with GET.
        request_timeout_seconds: A little more than the router's, whose answer is the better one.
        silence_seconds: How long a client may pause in its request, or in taking the answer.
    """

    name: str
    namespace: str
    tenant: str
    client_label: str
    engine: str
    image: str
    router: str
    router_port: int
    header: str
    posts: tuple[str, ...]
    gets: tuple[str, ...]
    port: int
    replicas: int
    size: ContainerSize
    request_timeout_seconds: int
    silence_seconds: int
    max_payload_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """The proof that one engine's replicas answer from what another one computed.

    Attributes:
        name: Of the Job's template and its policy.
        image: Any image with a Python 3.
        pods_service: Headless Service that lists the ready replicas.
        tenant: As which it asks, where a request needs one.
        stranger: As which it must find nothing, likewise.
        router: None, with its port and policy, where the router is HyperPod's operator's: nothing
            is known of it that could be judged.
        router_metrics_port: Where the router says which prompts it did not know, or None where it
            asks for none.
        prompt_tokens: About how long a prompt is.
        ttft_ratio: The reader's time to the first token over the writer's at which the check
            fails, or None where loading is no gain and nothing is judged.
        request_seconds: Deadline of one request.
        store_seconds: Deadline of storing one prompt in L2.
        deadline_seconds: Deadline of the whole Job.
        kept_seconds: How long a finished Job and its log stay.
    """

    name: str
    namespace: str
    engine: str
    model: str
    image: str
    replicas: int
    chunk_size: int
    pods_service: str
    engine_port: int
    lmcache_port: int
    router: str | None
    router_port: int | None
    router_policy: str | None
    router_metrics_port: int | None
    tenant: str | None
    stranger: str | None
    prompt_tokens: int
    ttft_ratio: float | None
    ttft_reason: str
    request_seconds: int
    store_seconds: int
    deadline_seconds: int
    kept_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JanitorPlan:
    """What keeps one engine's shared directory below a mark.

    Attributes:
        name: Of its Deployment.
        image: Any image with a Python 3.
        group: Instance group of the engine, whose nodes can mount the volume.
        claim: The volume's, or the one that a person brings.
        folder: Folder in the claim, or None for all of it.
        filesystem: Beginning of the type that the mount must have; empty accepts any.
        budget: What the engine's replicas may write together.
        high_bytes: Above this the oldest files are deleted.
        low_bytes: Down to this.
        disk_full_at: Use of the whole file system, by its own word, that counts as full.
        step_seconds: A round that makes no progress for so long is given up.
        unreadable_seconds: How long a file must have been unreadable before it is deleted.
        object_bytes: Size of a whole file; what is smaller is a hit that nobody can load.
    """

    name: str
    namespace: str
    engine: str
    image: str
    group: str
    instance_type: str
    taint_keys: tuple[str, ...]
    claim: str
    folder: str | None
    mount_path: str
    filesystem: str
    budget: Figure
    object_bytes: Figure
    high_bytes: int
    low_bytes: int
    fresh_seconds: int
    interval_seconds: int
    step_seconds: int
    unreadable_seconds: int
    disk_full_at: float
    port: int
    size: ContainerSize
    other_types: tuple[str, ...] = ()

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Every type its nodes may have."""
        return (self.instance_type, *self.other_types)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityPlan:
    """Managed Prometheus and Managed Grafana.

    Attributes:
        grafana_public: True leaves the workspace's login page on the internet (sign-in still
            needed); False admits only the deployment's VPC.
        grafana_version: Grafana version, such as ``12.4``, or None for the service's default.
    """

    workspace_alias: str
    retention_days: int
    scrape_interval_seconds: int
    grafana_name: str
    grafana_version: str | None
    grafana_auth: str
    grafana_public: bool
    folder_uid: str
    folder_title: str
    datasource_uid: str
    log_retention_days: int


# --- The whole ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSummary:
    """One line of the tier table: what one tier of one model holds in the whole deployment."""

    model: str
    tier: str
    where: str
    size_bytes: int
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """Everything that follows from one configuration.

    Attributes:
        curvine: None when no engine uses Curvine as L2.
        directories: None when no engine's L2 is in another file system.
        jobs_image: Any image with a Python 3.
        doors: One for each salted tenant of each model.
        routers: One for each engine whose pods are ours; the operator brings its own.
        verifications: One for each engine with an L2.
        janitors: Likewise; none where they are turned off.
        observability: None when turned off.
        warnings: What deploys but deserves a look.
        admission: None when no engine is in mode ``operator``.
        on_delete: What the configuration says about log groups and buckets of deleted stacks:
            retain or destroy.
    """

    name: str
    region: str
    account: str | None
    tags: Mapping[str, str]
    namespaces: Namespaces
    network: NetworkPlan
    cluster: ClusterPlan
    platform: PlatformPlan
    curvine: CurvinePlan | None
    directories: DirectoriesPlan | None
    jobs_image: str
    engines: tuple[EnginePlan, ...]
    routers: tuple[RouterPlan, ...]
    doors: tuple[DoorPlan, ...]
    verifications: tuple[VerifyPlan, ...]
    janitors: tuple[JanitorPlan, ...]
    observability: ObservabilityPlan | None
    tiers: tuple[TierSummary, ...]
    usd_per_hour: Price
    warnings: tuple[Problem, ...]
    admission: AdmissionPlan | None = None
    on_delete: str = "retain"

    @property
    def operated(self) -> tuple[str, ...]:
        """Names of the engines whose pods HyperPod's operator makes."""
        return tuple(engine.name for engine in self.engines if engine.operator is not None)
