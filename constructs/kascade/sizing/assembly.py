"""The whole plan of a draft that has no problem left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from kascade.catalog.addons import S3_CSI
from kascade.catalog.endpoints import BUSY_ENDPOINTS, CLOSED_ENDPOINTS
from kascade.catalog.instances import PRICE_REGION, InstanceType
from kascade.catalog.kubernetes import (
    ADDONS,
    EKS_EXTENDED_USD_PER_HOUR,
    EKS_USD_PER_HOUR,
    support_of,
)
from kascade.catalog.regions import HEALTH_AGENT_ACCOUNTS
from kascade.config.blocks import ExistingVpcConfig, ServingConfig, SoftwareUpdatesConfig
from kascade.plan import (
    AddonPlan,
    BucketAccess,
    ClusterPlan,
    ContainerSize,
    CurvineL2Plan,
    DirectoryL2Plan,
    EnginePlan,
    ExistingEksPlan,
    ExistingVpcPlan,
    Figure,
    InstanceGroupPlan,
    L2Plan,
    ManagedL2Plan,
    NetworkPlan,
    ObservabilityPlan,
    PlatformPlan,
    Price,
    RouterPlan,
    ServingPlan,
    SoftwareUpdatesPlan,
    SystemGroupPlan,
    TierSummary,
)
from kascade.sizing import autoscaling, features, host, network, operator_managed
from kascade.sizing.answers import rendering
from kascade.sizing.batch import requests_at_once
from kascade.sizing.dependencies import dependencies_plan
from kascade.sizing.draft import Draft, Group, elsewhere
from kascade.sizing.fit import ROUTER_CPU_MILLICORES
from kascade.sizing.l2 import HOST_SHARED_MEMORY
from kascade.sizing.routing import CHOICES
from kascade.sizing.shared_tier import curvine_plan, directories_plan, janitor_plans
from kascade.sizing.tenancy import (
    client_label,
    gateways_of,
)
from kascade.sizing.verification import verify_plan
from kascade.units import GIB

SYSTEM_USD_PER_HOUR: Final = MappingProxyType(
    {"m7i.xlarge": 0.2016, "m5.xlarge": 0.192, "m5.2xlarge": 0.384}
)

_OF_THE_CLUSTER: Final = ("vpc-cni", "kube-proxy", "coredns")
"""Every pod of a cluster hangs on these. Of somebody's cluster they are its owner's, whatever is
there: EKS's add-on, a chart or Cilium."""

ROUTER_BASE_MIB: Final = 256

ROUTER_TREE_MIB: Final = 288
"""Prefix tree of one engine at vllm-router's own bound: 2**25 entries of 8 bytes, and a little."""


def assemble(
    draft: Draft,
    groups: Mapping[str, Group],
    engines: Sequence[EnginePlan],
    carried: Mapping[str, tuple[host.Daemon, ...]],
) -> ServingPlan:
    """Put the plan together, once nothing is wrong."""
    config = draft.config
    cluster = _cluster(draft, groups, carried)
    # The operator brings a router of its own.
    routers = {e.name: _router(draft, e) for e in engines if e.operator is None}
    verifications = (
        verify_plan(engine, routers.get(engine.name), image=draft.image("jobs"))
        for engine in engines
    )
    return ServingPlan(
        name=config.name,
        region=config.region,
        account=config.account,
        tags=dict(sorted(config.tags.items())),
        namespaces=draft.namespaces,
        network=_network(draft),
        cluster=cluster,
        platform=PlatformPlan(
            namespaces=draft.namespaces,
            health_agent_image=_health_agent_image(draft),
            device_plugin_image=draft.image("nvidia_device_plugin"),
            efa_plugin_image=draft.image("efa_device_plugin"),
            gpu_instance_types=cluster.gpu_instance_types,
            efa_instance_types=cluster.efa_instance_types,
            taint_keys=_taint_keys(draft),
            host_directory=HOST_SHARED_MEMORY if config.cache.l2.kind == "managed" else None,
            agents=cluster.makes_hyperpod and draft.dependencies_chart is None,
            dependencies_chart=dependencies_plan(
                draft,
                gpus=bool(cluster.gpu_instance_types),
                efa=bool(cluster.efa_instance_types),
            ),
        ),
        curvine=curvine_plan(draft, groups, engines),
        directories=directories_plan(draft, engines),
        jobs_image=draft.image("jobs"),
        engines=tuple(engines),
        routers=tuple(routers.values()),
        tenant_gateways=tuple(
            gateway
            for router in routers.values()
            for gateway in gateways_of(
                router,
                image=draft.image("tenant_gateway"),
                silence_seconds=config.router.request_timeout_seconds,
            )
        ),
        verifications=tuple(
            verification for verification in verifications if verification is not None
        ),
        janitors=janitor_plans(draft, engines),
        observability=_observability(draft),
        tiers=tuple(row for engine in engines for row in _tiers(engine)),
        usd_per_hour=_usd_per_hour(draft, groups),
        warnings=tuple(draft.warnings),
        admission=operator_managed.admission_plan(config),
        on_delete=config.on_delete,
    )


def _health_agent_image(draft: Draft) -> str:
    """Nothing where AWS has no registry, and the existing cluster has its agent already."""
    known = draft.config.images.health_agent or draft.config.region in HEALTH_AGENT_ACCOUNTS
    return draft.image("health_agent") if known else ""


def _taint_keys(draft: Draft) -> tuple[str, ...]:
    taints = {taint.key for group in draft.config.instance_groups for taint in group.taints}
    return tuple(sorted(taints))


def _network(draft: Draft) -> NetworkPlan:
    config = draft.config
    nat = {"none": 0, "one": 1, "per_zone": len(config.zones)}[config.network.nat]
    if config.network.existing is not None:
        return _existing_network(config, config.network.existing, nat)
    subnets = network.cut(config.network.vpc_cidr, zones=len(config.zones))
    return NetworkPlan(
        vpc_cidr=config.network.vpc_cidr,
        zones=config.zones,
        nat_gateways=nat,
        private_cidrs=subnets.private,
        public_cidrs=subnets.public if nat else (),
        collector_cidrs=subnets.collector if config.observability.enabled else (),
        interface_endpoints=BUSY_ENDPOINTS if nat else tuple(sorted(CLOSED_ENDPOINTS)),
        flow_log_retention_days=config.network.flow_log_retention_days,
    )


def _existing_network(config: ServingConfig, existing: ExistingVpcConfig, nat: int) -> NetworkPlan:
    private = existing.private_subnets
    collector = existing.collector_subnets or private if config.observability.enabled else ()
    return NetworkPlan(
        vpc_cidr=config.network.vpc_cidr,
        zones=config.zones,
        nat_gateways=nat,
        private_cidrs=tuple(subnet.cidr for subnet in private),
        public_cidrs=(),
        collector_cidrs=tuple(subnet.cidr for subnet in collector),
        interface_endpoints=(),
        flow_log_retention_days=config.network.flow_log_retention_days,
        existing=ExistingVpcPlan(
            vpc_id=existing.vpc_id,
            private_subnet_ids=tuple(subnet.id for subnet in private),
            collector_subnet_ids=tuple(subnet.id for subnet in collector),
            further_cidrs=existing.further_cidrs,
        ),
    )


def _existing_cluster(config: ServingConfig) -> ExistingEksPlan | None:
    eks, hyperpod = config.kubernetes.existing, config.hyperpod.existing
    if eks is None:
        return None
    return ExistingEksPlan(
        security_group_id=eks.security_group_id,
        hyperpod_arn=hyperpod.cluster_arn if hyperpod else None,
    )


def _cluster(
    draft: Draft, groups: Mapping[str, Group], carried: Mapping[str, tuple[host.Daemon, ...]]
) -> ClusterPlan:
    config = draft.config
    system = config.kubernetes.system_group
    return ClusterPlan(
        eks_name=config.kubernetes.existing.name if config.kubernetes.existing else config.name,
        hyperpod_name=config.name,
        kubernetes_version=config.kubernetes.version,
        public_access_cidrs=config.kubernetes.public_access_cidrs,
        admin_role_arns=config.kubernetes.admin_role_arns,
        addons=tuple(
            addon
            for addon in _addons(config.kubernetes.version, s3_driver=_s3_driver(draft))
            if config.kubernetes.existing is None
            or addon.name not in (*_OF_THE_CLUSTER, *config.kubernetes.existing.addons)
        ),
        system_group=SystemGroupPlan(
            instance_type=system.instance_type,
            count=system.count,
            max_count=system.max_count,
            root_volume_gib=system.root_volume_gib,
            release_version=system.release_version,
        ),
        groups=tuple(_group(draft, group, carried[name]) for name, group in groups.items()),
        tiered_storage_percentage=config.hyperpod.tiered_storage_percentage,
        node_recovery=config.hyperpod.node_recovery,
        nvme_mount=config.hyperpod.nvme_mount,
        cache_host_path=draft.cache_host_path,
        weights=_weights_in_s3(draft),
        log_retention_days=config.kubernetes.log_retention_days,
        existing=_existing_cluster(config),
        security_group_ids=config.hyperpod.security_group_ids,
        software_updates=_software_updates(config.hyperpod.software_updates),
        features=features.features_plan(config),
        autoscaling=autoscaling.autoscaling_plan(draft, groups),
    )


def _software_updates(config: SoftwareUpdatesConfig | None) -> SoftwareUpdatesPlan | None:
    if config is None:
        return None
    share = config.batch_percentage
    return SoftwareUpdatesPlan(
        schedule=config.schedule,
        batch_size=share or config.batch_count or 1,
        batch_is_percentage=share is not None,
        wait_seconds=config.wait_seconds,
        rollback_alarms=config.rollback_alarms,
    )


def _s3_driver(draft: Draft) -> bool:
    """For weights, and because the inference operator does not start without it."""
    return bool(_weights_in_s3(draft)) or features.operator_managed(draft.config)


def _weights_in_s3(draft: Draft) -> tuple[BucketAccess, ...]:
    """Every folder that some model mounts, once."""
    found = {
        BucketAccess(
            bucket=model.weights.bucket,
            prefix=model.weights.prefix,
            kms_key_arn=model.weights.kms_key_arn,
        )
        for model in draft.config.models
        if model.weights.kind == "s3"
    }
    return tuple(sorted(found, key=lambda a: (a.bucket, a.prefix, a.kms_key_arn or "")))


def _group(draft: Draft, group: Group, carried: tuple[host.Daemon, ...]) -> InstanceGroupPlan:
    instance, config = group.instance, group.config
    return InstanceGroupPlan(
        name=config.name,
        instance_type=group.types[0].name,
        other_types=tuple(kind.name for kind in group.types[1:]),
        efa_types=tuple(kind.name for kind in group.types if kind.efa_interfaces),
        count=config.count,
        min_count=config.min_count,
        capacity=config.capacity.kind,
        training_plan_arn=(
            config.capacity.arn if config.capacity.kind == "training_plan" else None
        ),
        threads_per_core=config.threads_per_core,
        network_interface=None if config.efa == "none" else config.efa,
        volume_kms_key_arn=config.volume_kms_key_arn,
        root_volume_kms_key_arn=config.root_volume_kms_key_arn,
        zone=config.zone,
        gpus=instance.gpus,
        gpu_name=instance.gpu.name,
        efa_interfaces=instance.efa_interfaces,
        max_pods=instance.max_pods or 0,
        nvme_bytes=instance.nvme_bytes,
        cache_worker=group.capacity_gib > 0,
        volume_gib=config.volume_gib,
        labels=dict(sorted(config.labels.items())),
        taints=tuple((taint.key, taint.value, taint.effect) for taint in config.taints),
        deep_health_checks=config.deep_health_checks,
        daemonset_pods=tuple(daemon.name for daemon in carried),
        engines_per_node=group.packing.engines_per_node,
        usd_per_hour=group.price_in(draft.config.region),
        allocatable_ram=Figure(
            value=instance.allocatable_ram_mib,
            unit="MiB",
            reason=f"of {instance.ram_gib} GiB, by Karpenter's model of the kubelet's reserve",
        ),
        l2_gib=draft.l2_gib(group),
        l2_cpu=None if draft.curvine is None else _l2_cpu(instance),
    )


def _l2_cpu(instance: InstanceType) -> Figure:
    traffic = host.curvine_traffic(instance)
    return Figure(
        value=(traffic.fuse_millicores + traffic.worker_millicores) / 1000,
        unit="CPU",
        reason=traffic.reason,
    )


def _router(draft: Draft, engine: EnginePlan) -> RouterPlan:
    choice = CHOICES[draft.config.router.strategy]
    return RouterPlan(
        name=f"{engine.name}-router",
        namespace=engine.namespace,
        image=draft.image("router"),
        engine=engine.name,
        engine_port=engine.port,
        strategy=draft.config.router.strategy,
        program=choice.program,
        policy=choice.policy,
        reason=choice.reason,
        replicas=choice.replicas,
        replicas_reason=choice.replicas_reason,
        spread_zones=len(draft.config.zones) > 1,
        port=8000,
        metrics_port=29000,
        size=ContainerSize(
            cpu_millicores=ROUTER_CPU_MILLICORES,
            memory_mib=ROUTER_BASE_MIB,
            memory_limit_mib=ROUTER_BASE_MIB + ROUTER_TREE_MIB * engine.replicas,
        ),
        request_timeout_seconds=int(engine.figures.longest_request.value),
        request_timeout_reason=engine.figures.longest_request.reason,
        rendering=rendering(replicas=engine.replicas, max_model_len=engine.max_model_len)
        if choice.renders
        else None,
        max_payload_mib=draft.config.router.max_payload_mib,
        max_concurrent_requests=requests_at_once(
            replicas=engine.replicas, seqs=engine.max_num_seqs
        ),
        tenancy=engine.tenancy,
        client_label=client_label(engine.tenancy),
    )


def _observability(draft: Draft) -> ObservabilityPlan | None:
    settings = draft.config.observability
    if not settings.enabled:
        return None
    name = draft.config.name
    return ObservabilityPlan(
        workspace_alias=name,
        retention_days=settings.retention_days,
        scrape_interval_seconds=settings.scrape_interval_seconds,
        grafana_name=name,
        grafana_version=settings.grafana.version,
        grafana_auth={"sso": "AWS_SSO", "saml": "SAML"}[settings.grafana.auth],
        grafana_public=settings.grafana.access == "public",
        folder_uid=f"kascade-{name}",
        folder_title=f"Kascade {name}",
        datasource_uid=f"kascade-{name}-amp",
        log_retention_days=draft.config.kubernetes.log_retention_days,
    )


def _usd_per_hour(draft: Draft, groups: Mapping[str, Group]) -> Price:
    system = draft.config.kubernetes.system_group
    # What is somebody's is paid for already, at prices that its owner knows.
    theirs = draft.config.hyperpod.existing is not None
    parts: list[tuple[int, str, float | None, str]] = [
        (
            group.config.count,
            group.instance.name,
            group.price_in(draft.config.region).value,
            " (spot priced as on demand)" if group.config.capacity.kind == "spot" else "",
        )
        for group in groups.values()
        if not theirs
    ]
    parts.append(
        (system.count, system.instance_type, SYSTEM_USD_PER_HOUR[system.instance_type], "")
    )
    eks = 0.0
    if draft.config.kubernetes.existing is None:
        extended = support_of(draft.config.kubernetes.version) == "extended"
        eks = EKS_EXTENDED_USD_PER_HOUR if extended else EKS_USD_PER_HOUR
    known = [count * price for count, _, price, _ in parts if price is not None]
    total = sum(known) + eks
    unknown = [kind for count, kind, price, _ in parts if price is None and count]
    words = [
        f"{count} x {kind} at {'an unknown price' if price is None else format(price, 'g')}{note}"
        for count, kind, price, note in parts
    ]
    if draft.config.hyperpod.autoscaling is not None:
        words = [*(f"up to {word}" for word in words[:-1]), words[-1]]
    words += [f"EKS at {eks:.2f}"] if eks else []
    without = ["the HyperPod nodes, which are their owner's"] if theirs else []
    without += [] if eks else ["the existing EKS cluster"]
    without += ["NAT", "endpoints", "EBS", "logs", "metrics"]
    if features.operator_managed(draft.config):
        without += ["load balancers", "the SageMaker endpoint"]
    prices = (
        f"EC2 on-demand prices of {PRICE_REGION}{elsewhere(draft.config.region)} unless configured"
    )
    return Price(
        value=None if unknown else round(total, 2),
        unit="USD/h",
        reason=f"{', '.join(words)}; {prices}. Not in it: {', '.join(without)}"
        + (f". The rest is {total:,.2f}" if unknown else ""),
    )


def _addons(version: str, *, s3_driver: bool) -> tuple[AddonPlan, ...]:
    pinned = ADDONS.get(version, {})
    # Prefix delegation must be on before the first node joins; the policy agent is what makes
    # NetworkPolicies mean anything.
    cni = {"env": {"ENABLE_PREFIX_DELEGATION": "true"}, "enableNetworkPolicy": "true"}
    rows: list[tuple[str, bool, Mapping[str, object]]] = [
        ("vpc-cni", False, cni),
        ("kube-proxy", False, {}),
        ("eks-pod-identity-agent", False, {}),
        ("coredns", True, {}),
        ("aws-ebs-csi-driver", True, {}),
    ]
    if s3_driver:
        # The default of its second version; with the first one, a tainted GPU node had no driver.
        tolerant = {"node": {"tolerateAllTaints": True}}
        rows.append((S3_CSI, True, tolerant))
    return tuple(
        AddonPlan(
            name=name,
            version=pinned.get(name),
            needs_nodes=needs_nodes,
            configuration=configuration,
        )
        for name, needs_nodes, configuration in rows
    )


def _tiers(engine: EnginePlan) -> tuple[TierSummary, ...]:
    figures, replicas = engine.figures, engine.replicas
    kv_replica = int(figures.kv_per_token_per_gpu.value) * engine.gpus
    l0, l1, l2 = (int(f.value) for f in (figures.l0_tokens, figures.l1_tokens, figures.l2_tokens))
    l2_plan = engine.lmcache.l2
    rows = [
        TierSummary(
            model=engine.name,
            tier="L0",
            where="GPU memory, each replica its own",
            size_bytes=l0 * kv_replica * replicas,
            tokens=l0 * replicas,
            reason=f"{replicas} x {figures.l0_tokens.reason}",
        ),
        TierSummary(
            model=engine.name,
            tier="L1",
            where="host RAM, each replica its own",
            size_bytes=engine.lmcache.l1_gib * GIB * replicas,
            tokens=l1 * replicas,
            reason=f"{replicas} x {figures.l1_tokens.reason}",
        ),
    ]
    if l2_plan is not None:
        usable = 1.0 if isinstance(l2_plan, ManagedL2Plan) else l2_plan.evict_at
        size = int(l2_plan.capacity_gib * GIB * usable) * replicas
        rows.append(
            TierSummary(
                model=engine.name,
                tier="L2",
                where=f"{_place(l2_plan)}, shared by all replicas",
                size_bytes=size,
                tokens=l2 * replicas,
                reason=f"{replicas} x {l2_plan.capacity_gib} GiB: {figures.l2_tokens.reason}",
            )
        )
    return tuple(rows)


def _place(l2: L2Plan) -> str:
    match l2:
        case CurvineL2Plan():
            return "Curvine"
        case DirectoryL2Plan():
            return f"directory of {l2.claim}"
        case ManagedL2Plan():
            return "HyperPod's tiered storage"
