"""Engines as planned, in either mode, with their weights."""

from __future__ import annotations

from dataclasses import dataclass

from kascade.plan.cache import LMCachePlan
from kascade.plan.values import ContainerSize, Figure, Price


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
        verify_tenant: Nobody has a gateway of it; as it `kascade verify` and the benchmark ask.
            None where every request is the one tenant's.
        control_tenant: Likewise; as it the verification must find nothing.
        largest_body_mib: Longest body that an engine takes.
    """

    tenants: tuple[str, ...]
    header: str | None
    verify_tenant: str | None
    control_tenant: str | None
    largest_body_mib: int

    @property
    def salts(self) -> tuple[str, ...]:
        """Every salt that an engine may set."""
        own = (self.verify_tenant, self.control_tenant)
        return (*self.tenants, *(name for name in own if name is not None))

    @property
    def tenant_gateways(self) -> bool:
        """Whether its tenants come through tenant gateways."""
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
