"""From a configuration to the plan: the only place where the parts of sizing meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kascade.catalog.images import IMAGES, KNOWN_GOOD, health_agent_image, run_together
from kascade.catalog.instances import INSTANCES, OFFERED_IN, PRICE_DATE, PRICE_REGION, InstanceType
from kascade.catalog.kubernetes import ADDONS
from kascade.catalog.models import MODELS, ModelFacts
from kascade.catalog.regions import REGIONS
from kascade.config.checks import check_config
from kascade.config.loader import read_config
from kascade.config.model import (
    CurvineConfig,
    DirectoryConfig,
    InstanceGroupConfig,
    JanitorConfig,
    ManagedConfig,
    ModelConfig,
    ServingConfig,
)
from kascade.errors import InvalidConfigError, Problem
from kascade.sizing import engines as sizing_engines
from kascade.sizing import host, network, operated, pool
from kascade.sizing.engines import EngineInput, L2Share
from kascade.sizing.janitor import janitor_plan
from kascade.sizing.nodes import Packing, pack
from kascade.sizing.plan import (
    AddonPlan,
    BucketAccess,
    ClusterPlan,
    ContainerSize,
    CurvineL2Plan,
    CurvinePlan,
    CurvineVolumePlan,
    CurvineWorkerPlan,
    DirectoriesPlan,
    DirectoryL2Plan,
    EnginePlan,
    Figure,
    InstanceGroupPlan,
    JanitorPlan,
    L2Plan,
    ManagedL2Plan,
    Namespaces,
    NetworkPlan,
    ObservabilityPlan,
    PlatformPlan,
    RouterPlan,
    ServingPlan,
    SystemGroupPlan,
    TierSummary,
)
from kascade.sizing.routing import CHOICES
from kascade.sizing.shares import curvine_share, directory_share, managed_share
from kascade.sizing.tenancy import (
    DOOR_CPU_MILLIS,
    DOOR_REPLICAS,
    client_label,
    doors_of,
    shared_places,
)
from kascade.sizing.verification import verify_plan
from kascade.units import GIB

SYSTEM_USD_PER_HOUR: Final = MappingProxyType(
    {"m7i.xlarge": 0.2016, "m5.xlarge": 0.192, "m5.2xlarge": 0.384}
)
EKS_USD_PER_HOUR: Final = 0.10
"""EKS control plane in standard support, AWS price page."""

BUSY_ENDPOINTS: Final = ("ecr.api", "ecr.dkr", "eks-auth", "logs", "sts")
"""Worth their price beside NAT: image pulls, logs and credentials."""

SYSTEM_CPU_MILLIS: Final = MappingProxyType(
    {"m7i.xlarge": 3700, "m5.xlarge": 3700, "m5.2xlarge": 7650}
)
"""CPU that one system node has for pods: EKS keeps 80 or 90, its own daemons ask for about 200."""

SYSTEM_BASE_MILLIS: Final = 700
"""CoreDNS, the EBS controller and Curvine's CSI controller, as they request it."""

ADDRESSES_PER_SYSTEM_NODE: Final = 1 + 112
"""An m7i.xlarge or m5.xlarge with prefix delegation runs up to 110 pods, in blocks of 16."""

LARGEST_MAX_PODS: Final = 49
"""HyperPod's largest pod limit, for types whose own is not published."""

ROUTER_CPU_MILLIS: Final = 250
ROUTER_BASE_MIB: Final = 256
ROUTER_TREE_MIB: Final = 288
"""Prefix tree of one engine at vllm-router's own bound: 2**25 entries of 8 bytes, and a little."""

MASTER_CPU_MILLIS: Final = 1000

_MORE_ROOM: Final = MappingProxyType(
    {
        "curvine": "Raise capacity_gib_per_node or lower reserved_gib_per_node",
        "managed": "Give hyperpod.tiered_storage_percentage",
        "directory": "Raise capacity_gib",
    }
)
"""How each kind of L2 gets more room."""
CURVINE_FILESYSTEM: Final = "fuse"
"""Type of a Curvine mount, or the beginning of it."""


def plan_file(path: Path | str) -> ServingPlan:
    """Read a configuration file and plan it.

    Args:
        path: The YAML file.

    Returns:
        The plan.

    Raises:
        InvalidConfigError: With every mistake in the file, those of its shape and those that
            only show when it is sized.
    """
    loaded = read_config(Path(path))
    if loaded.config is None:
        raise InvalidConfigError(loaded.source, loaded.problems)
    planner = _Planner(config=loaded.config, local_models=loaded.local_models)
    plan = planner.plan(sound=not loaded.problems)
    loaded = loaded.add(planner.problems)
    if loaded.problems or plan is None:
        raise InvalidConfigError(loaded.source, loaded.problems)
    return plan


def plan_serving(
    config: ServingConfig, *, local_models: Mapping[str, ModelFacts] | None = None
) -> ServingPlan:
    """Work out everything that follows from a configuration.

    Args:
        config: The configuration.
        local_models: Facts of models that the catalog lacks, by the model's short name.

    Returns:
        The plan.

    Raises:
        InvalidConfigError: With every mistake.
    """
    planner = _Planner(config=config, local_models=local_models or {})
    problems = list(check_config(config))
    plan = planner.plan(sound=not problems)
    problems += [p for p in planner.problems if p not in problems]
    if problems or plan is None:
        raise InvalidConfigError("configuration", problems)
    return plan


@dataclass(slots=True, kw_only=True)
class _Group:
    """A group of the file with what is known of its type and engines."""

    index: int
    config: InstanceGroupConfig
    instance: InstanceType
    packing: Packing = field(default_factory=lambda: pack((), nodes=0, gpus_per_node=0))
    capacity_gib: int = 0

    @property
    def usd_per_hour(self) -> Figure:
        """Price of one instance."""
        if self.config.usd_per_hour is not None:
            return Figure(value=self.config.usd_per_hour, unit="USD/h", reason="as configured")
        price = self.instance.usd_per_hour
        if price is None:
            return Figure(
                value=0.0,
                unit="USD/h",
                reason="no public price known; set usd_per_hour in the group",
            )
        return Figure(
            value=price,
            unit="USD/h",
            reason=f"EC2 on demand, {PRICE_REGION}, {PRICE_DATE}; HyperPod's own price may be 15 "
            "to 40 % higher",
        )


@dataclass(slots=True, kw_only=True)
class _Planner:
    """Collects problems on the way, so that one run reports all."""

    config: ServingConfig
    local_models: Mapping[str, ModelFacts]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def plan(self, *, sound: bool) -> ServingPlan | None:
        """Return the plan, or None when there are problems.

        Args:
            sound: False when mistakes are known already; then this only finds further ones.
        """
        groups = self._groups()
        inputs = self._inputs(groups)
        self._place(groups, inputs)
        self._pool_capacity(groups)
        carried = {name: self._daemons(group) for name, group in groups.items()}
        engines = self._engines(groups, inputs, carried)
        self._pod_slots(groups, carried)
        self._system_nodes()
        self._addresses(groups)
        self._general_warnings(groups)
        if sound:
            self.problems += shared_places(engines)
        if self.problems or not sound:
            return None
        return self._assemble(groups, engines, carried)

    # --- inputs ---------------------------------------------------------------------------

    def _groups(self) -> dict[str, _Group]:
        return {
            group.name: _Group(index=index, config=group, instance=INSTANCES[group.instance_type])
            for index, group in enumerate(self.config.instance_groups)
            if group.instance_type in INSTANCES
        }

    def _inputs(self, groups: Mapping[str, _Group]) -> list[EngineInput]:
        inputs = []
        only = next(iter(groups)) if len(self.config.instance_groups) == 1 and groups else None
        for index, model in enumerate(self.config.models):
            group = groups.get(model.instance_group or only or "")
            facts = self.local_models.get(model.name) or MODELS.get(model.model)
            if group is None or facts is None:
                continue
            isolated = model.tenancy.kind == "isolated"
            tenants = model.tenants if isolated else (None,)
            inputs += [
                EngineInput(
                    index=index,
                    # An isolated tenant's engine is a model of its own in all that follows.
                    model=model.model_copy(update={"name": name}),
                    facts=facts,
                    group=group.config,
                    group_index=group.index,
                    instance=group.instance,
                    packing=group.packing,
                    config=self.config,
                    image=self._image("engine"),
                    usd_per_hour=group.usd_per_hour,
                    tenant=tenant,
                )
                for name, tenant in zip(model.engine_names, tenants, strict=True)
            ]
        return inputs

    def _place(self, groups: Mapping[str, _Group], inputs: Sequence[EngineInput]) -> None:
        for group in groups.values():
            all_here = [given for given in inputs if given.group is group.config]
            # An engine larger than an instance is refused elsewhere, with its own sentence.
            mine = [given for given in all_here if given.tp <= group.instance.gpus]
            wanted = [given.tp for given in mine for _ in range(given.model.replicas)]
            count = group.config.count
            packing = pack(wanted, nodes=count, gpus_per_node=group.instance.gpus)
            group.packing = packing
            for given in all_here:
                given.packing = packing
            if not packing.left_over:
                continue
            needed = _nodes_for(wanted, group.instance.gpus)
            names = ", ".join(f"{g.model.replicas} x {g.model.name} (TP {g.tp})" for g in mine)
            self.problems.append(
                Problem(
                    path=("instance_groups", group.index, "count"),
                    message=f"{names} need {sum(wanted)} GPUs, but {count} x "
                    f"{group.config.instance_type} have {count * group.instance.gpus}. Set count "
                    f"to {needed} or lower `replicas`",
                    also_reads=(
                        ("instance_groups", group.index, "instance_type"),
                        *(path for given in mine for path in given.read_paths),
                        *(given.path(name) for given in mine for name in ("replicas", "tenancy")),
                    ),
                )
            )

    # --- sizing ---------------------------------------------------------------------------

    @property
    def _curvine(self) -> CurvineConfig | None:
        return self.config.cache.l2 if self.config.cache.l2.kind == "curvine" else None

    @property
    def _janitor(self) -> JanitorConfig | None:
        l2 = self.config.cache.l2
        if not isinstance(l2, CurvineConfig | DirectoryConfig) or not l2.janitor.enabled:
            return None
        return l2.janitor

    def _daemons(self, group: _Group) -> tuple[host.Daemon, ...]:
        from_s3 = [model for model in self.config.models if model.weights.kind == "s3"]
        return host.daemons(
            group.instance,
            curvine=self._curvine is not None,
            tiered_storage=self.config.hyperpod.tiered_storage_percentage is not None,
            s3_driver=bool(from_s3),
            s3_volumes=[model.name for model in from_s3 if self._runs_on(model, group)],
            janitor=self._janitor is not None,
        )

    def _pool_capacity(self, groups: Mapping[str, _Group]) -> None:
        l2 = self._curvine
        if l2 is None:
            return
        asked = l2.capacity_gib_per_node
        for group in groups.values():
            group.capacity_gib = asked or pool.default_capacity_gib(group.instance)
        if not groups:
            return
        least = min(groups.values(), key=lambda group: (group.instance.nvme_gb, group.index))
        kind, whole = least.config.instance_type, pool.nvme_gib(least.instance)
        most = int(whole * pool.MAX_SHARE)
        reads = (("instance_groups", least.index, "instance_type"),)
        if asked and asked > most:
            self.problems.append(
                Problem(
                    path=("cache", "l2", "capacity_gib_per_node"),
                    message=f"got {asked}, but {kind} has {whole} GiB of NVMe. Use at most {most} "
                    f"({pool.MAX_SHARE * 100:.0f} %), better "
                    f"{pool.default_capacity_gib(least.instance)} ({pool.NVME_SHARE * 100:.0f} %), "
                    "so that blocks that are deleted but not yet freed have room",
                    also_reads=reads,
                )
            )
        if least.capacity_gib <= l2.reserved_gib_per_node:
            self.problems.append(
                Problem(
                    path=("cache", "l2", "reserved_gib_per_node"),
                    message=f"got {l2.reserved_gib_per_node}, which takes all of the "
                    f"{least.capacity_gib} GiB that {kind} gives to the pool; lower it",
                    also_reads=(*reads, ("cache", "l2", "capacity_gib_per_node")),
                )
            )

    def _l2_share(self, given: EngineInput, groups: Mapping[str, _Group]) -> L2Share | None:
        l2, group = self.config.cache.l2, groups[given.group.name]
        match l2:
            case CurvineConfig():
                return curvine_share(l2, group.instance, node_gib=group.capacity_gib, gpus=given.tp)
            case ManagedConfig():
                percentage = self.config.hyperpod.tiered_storage_percentage
                if percentage is None:  # refused elsewhere
                    return None
                return managed_share(group.instance, percentage=percentage, gpus=given.tp)
            case DirectoryConfig():
                gpus = sum(each.instance.gpus * each.config.count for each in groups.values())
                return directory_share(l2, gpus=given.tp, all_gpus=gpus)
            case _:
                return None

    def _engines(
        self,
        groups: Mapping[str, _Group],
        inputs: Sequence[EngineInput],
        carried: Mapping[str, tuple[host.Daemon, ...]],
    ) -> list[EnginePlan]:
        planned: list[EnginePlan] = []
        told: set[int] = set()
        for given in inputs:
            share = self._l2_share(given, groups)
            if share is not None and share.capacity_gib < 1 and not self.problems:
                self.problems.append(
                    Problem(
                        path=("cache", "l2"),
                        message=f"the pool has no room for {given.model.name}: {share.reason}. "
                        f"{_MORE_ROOM[self.config.cache.l2.kind]}",
                        also_reads=(("instance_groups",), given.path("tensor_parallel")),
                    )
                )
            fits = sizing_engines.check_parallelism(given)
            gpus = sizing_engines.size_gpu(given) if fits else None
            ram = sizing_engines.size_host(given, carried[given.group.name]) if fits else None
            if gpus is not None and ram is not None:
                planned.append(
                    sizing_engines.plan_engine(
                        given,
                        gpus=gpus,
                        ram=ram,
                        l2=share,
                    )
                )
            # All tenants' engines of a model are alike, and so are their mistakes.
            if given.index not in told:
                self.problems += given.problems
                self.warnings += given.warnings
            told.add(given.index)
        return planned

    def _pod_slots(
        self, groups: Mapping[str, _Group], carried: Mapping[str, tuple[host.Daemon, ...]]
    ) -> None:
        for name, group in groups.items():
            self._daemons_fit(group, carried[name])
            slots = group.instance.max_pods
            wanted = len(carried[name]) + group.packing.engines_per_node
            path = ("instance_groups", group.index, "instance_type")
            if slots is None:
                self.warnings.append(
                    Problem(
                        path=path,
                        message=f"HyperPod's pod limit for {group.config.instance_type} is not "
                        f"published; {wanted} pods are wanted on each node",
                    )
                )
            elif wanted > slots:
                self.problems.append(
                    Problem(
                        path=path,
                        message=f"{group.config.instance_type} has {slots} pod slots on HyperPod, "
                        f"but {len(carried[name])} daemons and {group.packing.engines_per_node} "
                        "engines want one each; choose a larger type",
                        also_reads=(("instance_groups", group.index), ("models",)),
                    )
                )

    def _daemons_fit(self, group: _Group, carried: tuple[host.Daemon, ...]) -> None:
        """Refuse a node that its own daemons overload; one with engines is refused with them."""
        if group.packing.engines_per_node:
            return
        percentage = self.config.hyperpod.tiered_storage_percentage
        share = host.host_share(
            group.instance,
            gpus=group.instance.gpus,
            tiered_percentage=percentage,
            carried=carried,
        )
        if share.ram_mib < 0 or share.cpu_millis < 0:
            short = (
                f"they and tiered storage want {(share.daemon_mib + share.tiered_mib):,} MiB of "
                f"{group.instance.allocatable_ram_mib:,}; choose a type with more RAM or lower "
                "hyperpod.tiered_storage_percentage"
                if share.ram_mib < 0
                else f"they want {-share.cpu_millis / 1000:g} CPUs more than it has; choose a "
                "larger type"
            )
            self.problems.append(
                Problem(
                    path=("instance_groups", group.index, "instance_type"),
                    message=f"{group.config.instance_type} cannot even hold its daemons: {short}",
                    also_reads=(("hyperpod", "tiered_storage_percentage"),),
                )
            )

    def _addresses(self, groups: Mapping[str, _Group]) -> None:
        """Refuse a VPC that the nodes and their pods would exhaust."""
        system = self.config.kubernetes.system_group
        wanted = system.max_count * ADDRESSES_PER_SYSTEM_NODE
        for group in groups.values():
            slots = group.instance.max_pods or LARGEST_MAX_PODS
            # One address for the node, and pods in blocks of 16 (prefix delegation).
            wanted += group.config.count * (1 + -(-slots // 16) * 16)
        subnets = network.cut(self.config.network.vpc_cidr, zones=len(self.config.zones))
        room = sum(network.usable(cidr) for cidr in subnets.private)
        if wanted > room:
            self.problems.append(
                Problem(
                    path=("network", "vpc_cidr"),
                    message=f"the private subnets of {self.config.network.vpc_cidr} hold {room:,} "
                    f"addresses, but all nodes and their pods may take {wanted:,}; use a larger "
                    "VPC, up to a /16, or fewer nodes",
                    also_reads=(("instance_groups",), ("zones",)),
                )
            )

    def _general_warnings(self, groups: Mapping[str, _Group]) -> None:
        for group in groups.values():
            regions = OFFERED_IN.get(group.config.instance_type, ())
            if self.config.region in REGIONS and self.config.region not in regions:
                known = ", ".join(regions) or "none"
                self.warnings.append(
                    Problem(
                        path=("instance_groups", group.index, "instance_type"),
                        message=f"{group.config.instance_type} is not listed for "
                        f"{self.config.region} (listed: {known}); the list lags, so ask your AWS "
                        "team before you deploy",
                    )
                )
            idle = sum(group.packing.free_gpus)
            largest = max(
                (m.tensor_parallel for m in self.config.models if self._runs_on(m, group)),
                default=0,
            )
            if group.packing.engines_per_node and idle > largest:
                self.warnings.append(
                    Problem(
                        path=("instance_groups", group.index, "count"),
                        message=f"{idle} of {group.config.count * group.instance.gpus} GPUs of "
                        f"{group.config.name!r} run no model; {largest} would be enough for a "
                        "roll-out to surge",
                    )
                )
            if group.config.count and not group.packing.engines_per_node:
                self.warnings.append(
                    Problem(
                        path=("instance_groups", group.index),
                        message=f"no model runs on {group.config.name!r}; its {group.config.count} "
                        f"instances {'only store L2 blocks' if self._l2_gib(group) else 'idle'}",
                    )
                )
        region = REGIONS.get(self.config.region)
        if region and not region.health_agent_account and not self.config.images.health_agent:
            self.problems.append(
                Problem(
                    path=("images", "health_agent"),
                    message=f"AWS publishes no registry for HyperPod's health agent in "
                    f"{region.name}; name an image you mirrored, or choose another region",
                    also_reads=(("region",),),
                )
            )
        self._versions()
        self._l2_warnings()
        self._janitor_warnings()
        if not self.config.kubernetes.admin_role_arns:
            self.warnings.append(
                Problem(
                    path=("kubernetes", "admin_role_arns"),
                    message="no role may enter the cluster, so nobody can use kubectl"
                    + self._secrets_to_make()
                    + "; name one",
                )
            )
        theirs = [i for i, m in enumerate(self.config.models) if m.mode == "operator"]
        if theirs:
            self.warnings.append(
                Problem(
                    path=("models", theirs[0], "mode"),
                    message="HyperPod's inference operator is not installed from here: deploy the "
                    f"stacks up to {self.config.name}-cluster, add its EKS add-on, then deploy the "
                    "rest, which needs its kinds (docs/operator.md)",
                )
            )
        ours = len(theirs) < len(self.config.models)
        if self.config.images.router is None and ours:
            self.warnings.append(
                Problem(
                    path=("images", "router"),
                    message=f"{IMAGES['router'].reference} is a nightly build, the only kind that "
                    "is published; build images/router and name it here before production",
                )
            )

    def _versions(self) -> None:
        """Refuse programs that were never run together; of images of your own, only warn."""
        own = self.config.images
        if own.engine is not None:
            known = " and ".join(f"{k} {v}" for k, v in IMAGES["engine"].carries.items())
            self.warnings.append(
                Problem(
                    path=("images", "engine"),
                    message=f"nothing here knows what is in {own.engine}; its arguments are those "
                    f"of {known}, and other versions may understand each other and still never "
                    "hit. Run `kascade verify` once it is up",
                )
            )
            return
        roles = ["engine", *(["router"] if own.router is None else [])]
        carried = {k: v for role in roles for k, v in IMAGES[role].carries.items()}
        if run_together(carried):
            return
        named = ", ".join(f"{name} {version}" for name, version in carried.items())
        good = "; ".join(", ".join(f"{k} {v}" for k, v in row.items()) for row in KNOWN_GOOD)
        self.problems.append(
            Problem(
                path=("images",),
                message=f"the catalog's images carry {named}, which were never run together (known "
                f"to be good: {good}); name an engine image of your own to go on without that",
                also_reads=(("images", "engine"), ("images", "router")),
            )
        )

    def _l2_warnings(self) -> None:
        l2, percentage = self.config.cache.l2, self.config.hyperpod.tiered_storage_percentage
        names = {"curvine": "Curvine", "directory": "a directory", "none": "off"}
        if percentage is not None and l2.kind in names:
            self.warnings.append(
                Problem(
                    path=("hyperpod", "tiered_storage_percentage"),
                    message=f"{percentage} % of each node's RAM is lent to HyperPod's managed "
                    f"tier, which no engine here reads: L2 is {names[l2.kind]}. Leave the field "
                    "out to give that RAM to L1",
                )
            )
        if l2.kind == "directory" and not l2.janitor.enabled:
            self.warnings.append(
                Problem(
                    path=("cache", "l2"),
                    message="engines delete only what they wrote since their own start, so what "
                    f"restarted ones left fills {l2.claim} beyond {l2.capacity_gib} GiB; delete "
                    "old files there, or give the claim more room than that",
                )
            )

    def _janitor_warnings(self) -> None:
        l2 = self.config.cache.l2
        if not isinstance(l2, CurvineConfig | DirectoryConfig):
            return
        path = ("cache", "l2", "janitor")
        if not l2.janitor.enabled:
            self.warnings.append(
                Problem(
                    path=(*path, "enabled"),
                    message="nothing but age bounds the shared directories: LMCache evicts only "
                    "what it wrote since its own start, and no longer once files have vanished",
                )
            )
        elif l2.janitor.high_water < pool.EVICT_AT:
            self.warnings.append(
                Problem(
                    path=(*path, "high_water"),
                    message=f"got {l2.janitor.high_water}, below {pool.EVICT_AT} where LMCache "
                    "evicts what was not used lately: the janitor comes first and deletes what is "
                    "oldest, used or not",
                )
            )

    def _runs_on(self, model: ModelConfig, group: _Group) -> bool:
        return model.instance_group in {None, group.config.name}

    def _secrets_to_make(self) -> str:
        secrets = {m.huggingface_token_secret for m in self.config.models}
        names = ", ".join(sorted(name for name in secrets if name))
        return f", nor make the Secret {names} in namespace {self.config.name}" if names else ""

    def _system_nodes(self) -> None:
        """Refuse system nodes that cannot hold what needs no GPU."""
        system = self.config.kubernetes.system_group
        choice = CHOICES.get(self.config.router.strategy)
        ours = [model for model in self.config.models if model.mode == "deployment"]
        engines = sum(len(model.engine_names) for model in ours)
        routers = engines * (choice.replicas if choice else 1)
        doors = DOOR_REPLICAS * sum(
            len(model.tenants) for model in self.config.models if model.tenancy.kind == "salted"
        )
        masters = self._curvine.masters if self._curvine else 0
        wanted = SYSTEM_BASE_MILLIS + MASTER_CPU_MILLIS * masters + ROUTER_CPU_MILLIS * routers
        wanted += DOOR_CPU_MILLIS * doors + operated.system_cpu_millis(self.config)
        others = (
            ", Kyverno, HyperPod's inference operator"
            if len(ours) < len(self.config.models)
            else ""
        )
        each = SYSTEM_CPU_MILLIS[system.instance_type]
        # One node may be away for an update.
        needed = -(-wanted // each) + 1
        if needed > system.count:
            self.problems.append(
                Problem(
                    path=("kubernetes", "system_group", "count"),
                    message=f"got {system.count}; {routers} routers, "
                    f"{f'{doors} doors, ' if doors else ''}{masters} Curvine masters{others} and "
                    f"the add-ons ask for {wanted / 1000:g} CPUs, and one node may be away for an "
                    f"update. Use {needed} x {system.instance_type} or a larger type",
                    also_reads=(
                        ("kubernetes", "system_group", "instance_type"),
                        ("router", "strategy"),
                        ("cache", "l2"),
                        ("models",),
                    ),
                )
            )

    # --- the plan -------------------------------------------------------------------------

    def _image(self, role: str) -> str:
        chosen: str | None = getattr(self.config.images, role)
        if chosen is not None:
            return chosen
        if role == "health_agent":
            return health_agent_image(self.config.region)
        return IMAGES[role].reference

    @property
    def _namespaces(self) -> Namespaces:
        name = self.config.name
        return Namespaces(serving=name, cache=f"{name}-cache", hyperpod="aws-hyperpod")

    @property
    def _taint_keys(self) -> tuple[str, ...]:
        taints = {taint.key for group in self.config.instance_groups for taint in group.taints}
        return tuple(sorted(taints))

    def _assemble(
        self,
        groups: Mapping[str, _Group],
        engines: Sequence[EnginePlan],
        carried: Mapping[str, tuple[host.Daemon, ...]],
    ) -> ServingPlan:
        config = self.config
        cluster = self._cluster(groups, carried)
        # The operator brings a router of its own.
        routers = {e.name: self._router(e) for e in engines if e.operator is None}
        proofs = (
            verify_plan(engine, routers.get(engine.name), image=self._image("jobs"))
            for engine in engines
        )
        return ServingPlan(
            name=config.name,
            region=config.region,
            account=config.account,
            tags=dict(sorted(config.tags.items())),
            namespaces=self._namespaces,
            network=self._network(),
            cluster=cluster,
            platform=PlatformPlan(
                namespaces=self._namespaces,
                health_agent_image=self._image("health_agent"),
                device_plugin_image=self._image("nvidia_device_plugin"),
                efa_plugin_image=self._image("efa_device_plugin"),
                gpu_instance_types=cluster.gpu_instance_types,
                efa_instance_types=cluster.efa_instance_types,
                taint_keys=self._taint_keys,
                host_directory=sizing_engines.HOST_SHARED_MEMORY
                if config.cache.l2.kind == "managed"
                else None,
            ),
            curvine=self._curvine_plan(groups, engines),
            directories=self._directories(engines),
            jobs_image=self._image("jobs"),
            engines=tuple(engines),
            routers=tuple(routers.values()),
            doors=tuple(
                door
                for router in routers.values()
                for door in doors_of(router, image=self._image("door"))
            ),
            verifications=tuple(proof for proof in proofs if proof is not None),
            janitors=self._janitors(engines),
            observability=self._observability(),
            tiers=tuple(row for engine in engines for row in _tiers(engine)),
            usd_per_hour=self._usd_per_hour(groups),
            warnings=tuple(self.warnings),
            admission=operated.admission_plan(config),
        )

    def _network(self) -> NetworkPlan:
        config = self.config
        nat = {"one": 1, "per_zone": len(config.zones)}[config.network.nat]
        subnets = network.cut(config.network.vpc_cidr, zones=len(config.zones))
        return NetworkPlan(
            vpc_cidr=config.network.vpc_cidr,
            zones=config.zones,
            nat_gateways=nat,
            private_cidrs=subnets.private,
            public_cidrs=subnets.public,
            collector_cidrs=subnets.collector if config.observability.enabled else (),
            interface_endpoints=BUSY_ENDPOINTS,
            flow_log_retention_days=config.network.flow_log_retention_days,
        )

    def _cluster(
        self, groups: Mapping[str, _Group], carried: Mapping[str, tuple[host.Daemon, ...]]
    ) -> ClusterPlan:
        config = self.config
        system = config.kubernetes.system_group
        return ClusterPlan(
            eks_name=config.name,
            hyperpod_name=config.name,
            kubernetes_version=config.kubernetes.version,
            public_access_cidrs=config.kubernetes.public_access_cidrs,
            admin_role_arns=config.kubernetes.admin_role_arns,
            addons=_addons(config.kubernetes.version, s3_driver=bool(self._weights_in_s3)),
            system_group=SystemGroupPlan(
                instance_type=system.instance_type,
                count=system.count,
                max_count=system.max_count,
                root_volume_gib=system.root_volume_gib,
            ),
            groups=tuple(self._group(group, carried[name]) for name, group in groups.items()),
            tiered_storage_percentage=config.hyperpod.tiered_storage_percentage,
            node_recovery=config.hyperpod.node_recovery,
            nvme_mount=config.hyperpod.nvme_mount,
            cache_host_path=f"{config.hyperpod.nvme_mount}/kascade/{config.name}",
            weights=self._weights_in_s3,
            log_retention_days=config.kubernetes.log_retention_days,
        )

    @property
    def _weights_in_s3(self) -> tuple[BucketAccess, ...]:
        """Every folder that some model mounts, once."""
        found = {
            BucketAccess(
                bucket=model.weights.bucket,
                prefix=model.weights.prefix,
                kms_key_arn=model.weights.kms_key_arn,
            )
            for model in self.config.models
            if model.weights.kind == "s3"
        }
        return tuple(sorted(found, key=lambda a: (a.bucket, a.prefix, a.kms_key_arn or "")))

    def _group(self, group: _Group, carried: tuple[host.Daemon, ...]) -> InstanceGroupPlan:
        instance, config = group.instance, group.config
        return InstanceGroupPlan(
            name=config.name,
            instance_type=config.instance_type,
            count=config.count,
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
            usd_per_hour=group.usd_per_hour,
            allocatable_ram=Figure(
                value=instance.allocatable_ram_mib,
                unit="MiB",
                reason=f"of {instance.ram_gib} GiB, by Karpenter's model of the kubelet's reserve",
            ),
            l2_gib=self._l2_gib(group),
        )

    def _l2_gib(self, group: _Group) -> int:
        if self.config.cache.l2.kind != "managed":
            return group.capacity_gib
        percentage = self.config.hyperpod.tiered_storage_percentage or 0
        return pool.lent_gib(group.instance, percentage)

    def _curvine_plan(
        self, groups: Mapping[str, _Group], engines: Sequence[EnginePlan]
    ) -> CurvinePlan | None:
        l2 = self._curvine
        if l2 is None:
            return None
        workers = [group for group in groups.values() if group.capacity_gib and group.config.count]
        equal = len({group.capacity_gib for group in workers}) <= 1
        return CurvinePlan(
            namespace=self._namespaces.cache,
            cluster_id=self.config.name,
            image=self._image("curvine"),
            csi_image=self._image("curvine_csi"),
            provisioner_image=self._image("csi_provisioner"),
            registrar_image=self._image("csi_registrar"),
            masters=l2.masters,
            master_size=ContainerSize(
                cpu_millis=MASTER_CPU_MILLIS, memory_mib=2048, memory_limit_mib=4096
            ),
            csi_size=ContainerSize(
                cpu_millis=host.CURVINE_CSI_CPU, memory_mib=host.CURVINE_CSI_MIB
            ),
            meta_volume_gib=20,
            journal_volume_gib=20,
            master_rpc_port=8995,
            master_journal_port=8996,
            master_web_port=9000,
            worker_rpc_port=8997,
            worker_web_port=9001,
            fuse_web_port=9002,
            host_path=f"{self.config.hyperpod.nvme_mount}/kascade/{self.config.name}",
            nvme_mount=self.config.hyperpod.nvme_mount,
            reserved_gb=l2.reserved_gib_per_node,
            workers=tuple(
                CurvineWorkerPlan(
                    group=group.config.name,
                    instance_type=group.config.instance_type,
                    nodes=group.config.count,
                    capacity_gb=group.capacity_gib,
                    size=ContainerSize(
                        cpu_millis=host.curvine_worker_cpu(group.instance),
                        memory_mib=host.curvine_worker_mib(group.instance),
                    ),
                )
                for group in workers
            ),
            volumes=tuple(
                CurvineVolumePlan(
                    name=attached.volume,
                    curvine_path=attached.directory,
                    claim_namespace=self._namespaces.serving,
                )
                for engine in engines
                if isinstance(attached := engine.lmcache.l2, CurvineL2Plan)
            ),
            block_size_mb=pool.BLOCK_SIZE_MB,
            ttl_hours=l2.ttl_hours,
            client_timeout_ms=sizing_engines.CLIENT_TIMEOUT_MS,
            worker_policy="robin" if equal else "load_based",
        )

    def _directories(self, engines: Sequence[EnginePlan]) -> DirectoriesPlan | None:
        attached = [
            engine.lmcache.l2
            for engine in engines
            if isinstance(engine.lmcache.l2, DirectoryL2Plan)
        ]
        if not attached:
            return None
        return DirectoriesPlan(
            namespace=self._namespaces.serving,
            claim=attached[0].claim,
            file_system=attached[0].file_system,
            directories=tuple(l2.directory for l2 in attached),
        )

    def _janitors(self, engines: Sequence[EnginePlan]) -> tuple[JanitorPlan, ...]:
        settings = self._janitor
        if settings is None:
            return ()
        l2 = self.config.cache.l2
        filesystem = CURVINE_FILESYSTEM if l2.kind == "curvine" else ""
        if isinstance(l2, DirectoryConfig):
            filesystem = l2.file_system or ""
        planned = (
            janitor_plan(engine, settings, image=self._image("jobs"), filesystem=filesystem)
            for engine in engines
        )
        return tuple(one for one in planned if one is not None)

    def _router(self, engine: EnginePlan) -> RouterPlan:
        choice = CHOICES[self.config.router.strategy]
        return RouterPlan(
            name=f"{engine.name}-router",
            namespace=engine.namespace,
            image=self._image("router"),
            engine=engine.name,
            engine_port=engine.port,
            strategy=self.config.router.strategy,
            program=choice.program,
            policy=choice.policy,
            reason=choice.reason,
            replicas=choice.replicas,
            replicas_reason=choice.replicas_reason,
            spread_zones=len(self.config.zones) > 1,
            port=8000,
            metrics_port=29000,
            size=ContainerSize(
                cpu_millis=ROUTER_CPU_MILLIS,
                memory_mib=ROUTER_BASE_MIB,
                memory_limit_mib=ROUTER_BASE_MIB + ROUTER_TREE_MIB * engine.replicas,
            ),
            request_timeout_seconds=self.config.router.request_timeout_seconds,
            max_payload_mib=self.config.router.max_payload_mib,
            max_concurrent_requests=4 * engine.replicas * engine.max_num_seqs,
            tenancy=engine.tenancy,
            client_label=client_label(engine.tenancy),
        )

    def _observability(self) -> ObservabilityPlan | None:
        settings = self.config.observability
        if not settings.enabled:
            return None
        name = self.config.name
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
            log_retention_days=self.config.kubernetes.log_retention_days,
        )

    def _usd_per_hour(self, groups: Mapping[str, _Group]) -> Figure:
        system = self.config.kubernetes.system_group
        parts = [
            (group.config.count, group.config.instance_type, group.usd_per_hour.value)
            for group in groups.values()
        ]
        parts.append(
            (system.count, system.instance_type, SYSTEM_USD_PER_HOUR[system.instance_type])
        )
        total = sum(count * price for count, _, price in parts) + EKS_USD_PER_HOUR
        words = [f"{count} x {kind} at {price:g}" for count, kind, price in parts]
        return Figure(
            value=round(total, 2),
            unit="USD/h",
            reason=f"{', '.join(words)}, EKS at {EKS_USD_PER_HOUR:.2f}; EC2 on-demand prices of "
            f"{PRICE_REGION} unless configured. Not in it: NAT, endpoints, EBS, logs, metrics",
        )


def _nodes_for(engines: Sequence[int], gpus_per_node: int) -> int:
    nodes = -(-sum(engines) // gpus_per_node)
    while pack(engines, nodes=nodes, gpus_per_node=gpus_per_node).left_over:
        nodes += 1
    return nodes


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
        rows.append(("aws-mountpoint-s3-csi-driver", True, tolerant))
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
            size_bytes=engine.lmcache.l1_gb * GIB * replicas,
            tokens=l1 * replicas,
            reason=f"{replicas} x {figures.l1_tokens.reason}",
        ),
    ]
    if l2_plan is not None:
        usable = 1.0 if isinstance(l2_plan, ManagedL2Plan) else l2_plan.evict_at
        size = int(l2_plan.capacity_gb * GIB * usable) * replicas
        rows.append(
            TierSummary(
                model=engine.name,
                tier="L2",
                where=f"{_place(l2_plan)}, shared by all replicas",
                size_bytes=size,
                tokens=l2 * replicas,
                reason=f"{replicas} x {l2_plan.capacity_gb} GiB: {figures.l2_tokens.reason}",
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
