"""What must fit: engines on GPUs, pods on nodes, the rest on system nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from kascade.catalog.instances import InstanceType
from kascade.errors import Problem
from kascade.sizing import features, host, operator_managed
from kascade.sizing.draft import Draft, Group
from kascade.sizing.inputs import EngineInput
from kascade.sizing.nodes import pack
from kascade.sizing.remedies import other_types, setting, settings
from kascade.sizing.routing import CHOICES
from kascade.sizing.tenancy import (
    GATEWAY_CPU_MILLICORES,
    GATEWAY_REPLICAS,
)
from kascade.units import counted

SYSTEM_CPU_MILLICORES: Final = MappingProxyType(
    {"m7i.xlarge": 3700, "m5.xlarge": 3700, "m5.2xlarge": 7650}
)
"""CPU that one system node has for pods: EKS keeps 80 or 90, its own daemons ask for about 200."""

SYSTEM_BASE_MILLICORES: Final = 700
"""CoreDNS, the EBS controller and Curvine's CSI controller, as they request it."""

ROUTER_CPU_MILLICORES: Final = 250

MASTER_CPU_MILLICORES: Final = 1000


def gpus_fit(draft: Draft, groups: Mapping[str, Group], inputs: Sequence[EngineInput]) -> None:
    """Place all engines on their groups' GPUs; reject a group that has too few."""
    for group in groups.values():
        all_here = [given for given in inputs if given.group is group.config]
        # An engine larger than an instance is rejected elsewhere, with its own sentence.
        mine = [given for given in all_here if given.tp <= group.instance.gpus]
        wanted = [given.tp for given in mine for _ in range(given.model.replicas)]
        count = group.config.count
        packing = pack(wanted, nodes=count, gpus_per_node=group.instance.gpus)
        group.packing = packing
        for given in all_here:
            given.packing = packing
        # With autoscaling a count of 0 has a sentence of its own.
        if not packing.left_over or (draft.config.hyperpod.autoscaling and not count):
            continue
        needed = _nodes_for(wanted, group.instance.gpus)
        names = ", ".join(f"{g.model.replicas} x {g.model.name} (TP {g.tp})" for g in mine)
        draft.problems.append(
            Problem(
                path=("instance_groups", group.index, "count"),
                message=f"{names} need {counted(sum(wanted), 'GPU')}, but {count} x "
                f"{group.instance.name} have {count * group.instance.gpus}",
                remedies=(
                    (setting(("instance_groups", group.index, "count"), needed),),
                    tuple(
                        setting(given.path("replicas"), n)
                        for given in mine
                        for n in (given.model.replicas - len(packing.left_over), 1)
                        if 0 < n < given.model.replicas
                    ),
                ),
                code="gpus-of-a-group",
                also_reads=(
                    ("instance_groups", group.index, group.config.types_field),
                    *(path for given in mine for path in given.read_paths),
                    *(given.path(name) for given in mine for name in ("replicas", "tenancy")),
                ),
            )
        )


def pods_fit(
    draft: Draft, groups: Mapping[str, Group], carried: Mapping[str, tuple[host.Daemon, ...]]
) -> None:
    """Reject instances without room for their daemons, or slots for their pods."""
    for name, group in groups.items():
        _daemons_fit(draft, group, carried[name])
        slots = group.instance.max_pods
        wanted = len(carried[name]) + group.packing.engines_per_node
        path = ("instance_groups", group.index, group.config.types_field)
        if slots is None:
            draft.warnings.append(
                Problem(
                    path=path,
                    message=f"HyperPod's pod limit for {group.instance.name} is not "
                    f"published; each node is to run {counted(wanted, 'pod')}",
                )
            )
        elif wanted > slots:
            draft.problems.append(
                Problem(
                    path=path,
                    message=f"{group.instance.name} has {counted(slots, 'pod slot')} on HyperPod, "
                    f"but {counted(len(carried[name]), 'daemon')} and "
                    f"{counted(group.packing.engines_per_node, 'engine')} want one each",
                    remedies=(
                        other_types(
                            draft.config,
                            group.index,
                            group.config,
                            fits=partial(_has_slots, wanted),
                        ),
                    ),
                    code="pod-slots",
                    also_reads=(("instance_groups", group.index), ("models",)),
                )
            )


def _has_slots(wanted: int, kind: InstanceType) -> bool:
    return (kind.max_pods or 0) >= wanted


def _daemons_fit(draft: Draft, group: Group, carried: tuple[host.Daemon, ...]) -> None:
    """Reject a node that its own daemons overload; one with engines is rejected with them."""
    if group.packing.engines_per_node:
        return
    percentage = draft.config.hyperpod.tiered_storage_percentage
    share = host.host_share(
        group.instance,
        gpus=group.instance.gpus,
        tiered_percentage=percentage,
        carried=carried,
    )
    if share.ram_mib < 0 or share.cpu_millicores < 0:
        short = (
            f"they and tiered storage want {(share.daemon_mib + share.tiered_mib):,} MiB of "
            f"{group.instance.allocatable_ram_mib:,}"
            if share.ram_mib < 0
            else f"they want {-share.cpu_millicores / 1000:g} CPUs more than it has"
        )
        draft.problems.append(
            Problem(
                path=("instance_groups", group.index, group.config.types_field),
                message=f"{group.instance.name} cannot even hold its daemons: {short}",
                remedies=(
                    (setting(("hyperpod", "tiered_storage_percentage"), None),)
                    if percentage
                    else (),
                    other_types(
                        draft.config,
                        group.index,
                        group.config,
                        fits=lambda kind: kind.ram_gib >= group.instance.ram_gib,
                    ),
                ),
                code="daemons",
                also_reads=(("hyperpod", "tiered_storage_percentage"),),
            )
        )


def system_nodes_fit(draft: Draft) -> None:
    """Reject system nodes that cannot hold what needs no GPU."""
    system = draft.config.kubernetes.system_group
    choice = CHOICES.get(draft.config.router.strategy)
    ours = [model for model in draft.config.models if model.mode == "deployment"]
    engines = sum(len(model.engine_names) for model in ours)
    routers = engines * (choice.replicas if choice else 1)
    tenant_gateways = GATEWAY_REPLICAS * sum(
        len(model.tenants) for model in draft.config.models if model.tenancy.kind == "salted"
    )
    masters = draft.curvine.masters if draft.curvine else 0
    wanted = (
        SYSTEM_BASE_MILLICORES + MASTER_CPU_MILLICORES * masters + ROUTER_CPU_MILLICORES * routers
    )
    wanted += GATEWAY_CPU_MILLICORES * tenant_gateways + operator_managed.system_cpu_millicores(
        draft.config
    )
    others = (
        ", Kyverno, HyperPod's inference operator" if len(ours) < len(draft.config.models) else ""
    )
    each = SYSTEM_CPU_MILLICORES[system.instance_type]
    # One node may be away for an update.
    needed = -(-wanted // each) + 1
    where = ("kubernetes", "system_group")
    if needed > system.count:
        draft.problems.append(
            Problem(
                path=("kubernetes", "system_group", "count"),
                message=f"got {system.count}; {counted(routers, 'router')}, "
                f"{counted(tenant_gateways, 'tenant gateway') + ', ' if tenant_gateways else ''}"
                f"{counted(masters, 'Curvine master')}{others} and "
                f"the add-ons ask for {wanted / 1000:g} CPUs, and one node may be away for an "
                "update",
                remedies=(
                    (
                        settings(
                            {
                                (*where, "count"): needed,
                                (*where, "max_count"): max(needed, system.max_count),
                            }
                        )
                        if needed > system.max_count
                        else setting((*where, "count"), needed),
                    ),
                    tuple(
                        setting((*where, "instance_type"), kind)
                        for kind, millis in SYSTEM_CPU_MILLICORES.items()
                        if millis > each
                    ),
                ),
                code="system-cpu",
                also_reads=(
                    ("kubernetes", "system_group", "instance_type"),
                    ("router", "strategy"),
                    ("cache", "l2"),
                    ("models",),
                ),
            )
        )
    slots = features.pod_slots_fit(
        draft.config, pods=routers + tenant_gateways + masters + operator_managed.KYVERNO_REPLICAS
    )
    if slots is not None:
        draft.problems.append(slots)


def _nodes_for(engines: Sequence[int], gpus_per_node: int) -> int:
    nodes = -(-sum(engines) // gpus_per_node)
    while pack(engines, nodes=nodes, gpus_per_node=gpus_per_node).left_over:
        nodes += 1
    return nodes


def daemons_on(draft: Draft, group: Group) -> tuple[host.Daemon, ...]:
    """Return what stands on each instance of a group before any engine."""
    from_s3 = [model for model in draft.config.models if model.weights.kind == "s3"]
    # A node of a type with EFA runs its plugin, also where another type of the group has none.
    most_efa = max(kind.efa_interfaces for kind in group.types)
    return host.daemons(
        replace(group.instance, efa_interfaces=most_efa),
        curvine=draft.curvine is not None,
        tiered_storage=draft.config.hyperpod.tiered_storage_percentage is not None,
        s3_driver=bool(from_s3) or features.operator_managed(draft.config),
        s3_volumes=[
            name for model in from_s3 if draft.runs_on(model, group) for name in model.engine_names
        ],
        janitor=draft.janitor is not None,
        fsx_driver=features.operator_managed(draft.config),
    )
