"""A whole deployment as planned: the ways in, what watches it, and everything together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kascade.errors import Problem
from kascade.plan.cache import CurvinePlan, DirectoriesPlan, JanitorPlan
from kascade.plan.cluster import ClusterPlan, PlatformPlan
from kascade.plan.engine import AdmissionPlan, EnginePlan, TenancyPlan
from kascade.plan.network import NetworkPlan
from kascade.plan.values import ContainerSize, Figure, Namespaces, Price, TierSummary


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
        client_label: Admits the pods and namespaces that carry it; None where only tenant
            gateways, and the verification, are admitted.
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
class TenantGatewayPlan:
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
    """The verification that one engine's replicas answer from what another one computed.

    Attributes:
        name: Of the Job's template and its policy.
        image: Any image with a Python 3.
        pods_service: Headless Service that lists the ready replicas.
        tenant: As which it asks, where a request needs one.
        control_tenant: As which it must find nothing, likewise.
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
    control_tenant: str | None
    prompt_tokens: int
    ttft_ratio: float | None
    ttft_reason: str
    request_seconds: int
    store_seconds: int
    deadline_seconds: int
    kept_seconds: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """Everything that follows from one configuration.

    Attributes:
        curvine: None when no engine uses Curvine as L2.
        directories: None when no engine's L2 is in another file system.
        jobs_image: Any image with a Python 3.
        tenant_gateways: One for each salted tenant of each model.
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
    tenant_gateways: tuple[TenantGatewayPlan, ...]
    verifications: tuple[VerifyPlan, ...]
    janitors: tuple[JanitorPlan, ...]
    observability: ObservabilityPlan | None
    tiers: tuple[TierSummary, ...]
    usd_per_hour: Price
    warnings: tuple[Problem, ...]
    admission: AdmissionPlan | None = None
    on_delete: str = "retain"

    @property
    def operator_managed(self) -> tuple[str, ...]:
        """Names of the engines whose pods HyperPod's operator makes."""
        return tuple(engine.name for engine in self.engines if engine.operator is not None)
