"""Tier L2 of the whole deployment: the pool or directory, each engine's part, its janitors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kascade.config.blocks import (
    CurvineConfig,
    DirectoryConfig,
    ManagedConfig,
)
from kascade.errors import Problem, Remedy
from kascade.plan import (
    ContainerSize,
    CurvineL2Plan,
    CurvinePlan,
    CurvineVolumePlan,
    CurvineWorkerPlan,
    DirectoriesPlan,
    DirectoryL2Plan,
    EnginePlan,
    JanitorPlan,
)
from kascade.sizing import host, pool
from kascade.sizing.draft import Draft, Group
from kascade.sizing.fit import MASTER_CPU_MILLICORES
from kascade.sizing.inputs import EngineInput
from kascade.sizing.janitor import janitor_plan
from kascade.sizing.l2 import CLIENT_TIMEOUT_MS, L2Share
from kascade.sizing.remedies import setting
from kascade.sizing.shares import curvine_share, directory_share, managed_share

CURVINE_FILESYSTEM: Final = "fuse"
"""Type of a Curvine mount, or the beginning of it."""


def give_to_the_pool(draft: Draft, groups: Mapping[str, Group]) -> None:
    """Decide what each group gives to the pool; reject what it does not have."""
    l2 = draft.curvine
    if l2 is None:
        return
    asked = l2.capacity_gib_per_node
    for group in groups.values():
        group.capacity_gib = asked or pool.default_capacity_gib(group.instance)
    if not groups:
        return
    least = min(groups.values(), key=lambda group: (group.instance.nvme_gb, group.index))
    kind, whole = least.instance.name, pool.nvme_gib(least.instance)
    most = int(whole * pool.MAX_SHARE)
    reads = (("instance_groups", least.index, least.config.types_field),)
    if asked and asked > most:
        draft.problems.append(
            Problem(
                path=("cache", "l2", "capacity_gib_per_node"),
                message=f"got {asked}, but {kind} has {whole} GiB of NVMe, of which at most {most} "
                f"({pool.MAX_SHARE * 100:.0f} %) may be given away, better "
                f"{pool.default_capacity_gib(least.instance)} ({pool.NVME_SHARE * 100:.0f} %), "
                "so that blocks that are deleted but not yet freed have room",
                also_reads=reads,
                remedies=(
                    tuple(
                        setting(("cache", "l2", "capacity_gib_per_node"), n)
                        for n in (pool.default_capacity_gib(least.instance), most)
                    ),
                ),
                code="l2-of-nvme",
            )
        )
    if least.capacity_gib <= l2.reserved_gib_per_node:
        draft.problems.append(
            Problem(
                path=("cache", "l2", "reserved_gib_per_node"),
                message=f"got {l2.reserved_gib_per_node}, which takes all of the "
                f"{least.capacity_gib} GiB that {kind} gives to the pool",
                remedies=(
                    (setting(("cache", "l2", "reserved_gib_per_node"), least.capacity_gib // 2),),
                    (
                        setting(
                            ("cache", "l2", "capacity_gib_per_node"),
                            pool.default_capacity_gib(least.instance),
                        ),
                    ),
                ),
                code="l2-reserve",
                also_reads=(*reads, ("cache", "l2", "capacity_gib_per_node")),
            )
        )


def share_of(draft: Draft, given: EngineInput, groups: Mapping[str, Group]) -> L2Share | None:
    """Return an engine's part of L2, or None without one."""
    l2, group = draft.config.cache.l2, groups[given.group.name]
    match l2:
        case CurvineConfig():
            return curvine_share(l2, group.instance, node_gib=group.capacity_gib, gpus=given.tp)
        case ManagedConfig():
            percentage = draft.config.hyperpod.tiered_storage_percentage
            if percentage is None:  # rejected elsewhere
                return None
            return managed_share(group.instance, percentage=percentage, gpus=given.tp)
        case DirectoryConfig():
            serving = [each for each in groups.values() if each.packing.engines_per_node]
            gpus = sum(each.instance.gpus * each.config.count for each in serving)
            return directory_share(l2, gpus=given.tp, all_gpus=gpus)
        case _:
            return None


def more_room(draft: Draft, group: Group, *, gpus: int) -> tuple[tuple[Remedy, ...], ...]:
    """Give L2 the least that leaves one engine a GiB, or twice that."""
    l2, each = draft.config.cache.l2, -(-group.instance.gpus // gpus)
    match l2:
        case CurvineConfig():
            least = l2.reserved_gib_per_node + each
            spare = group.capacity_gib - each
            return (
                tuple(
                    setting(("cache", "l2", "capacity_gib_per_node"), n) for n in (least, 2 * least)
                ),
                (setting(("cache", "l2", "reserved_gib_per_node"), spare),) if spare >= 0 else (),
            )
        case ManagedConfig():
            path = ("hyperpod", "tiered_storage_percentage")
            least = -(-100 * each // group.instance.ram_gib)
            return (tuple(setting(path, n) for n in (20, least, 2 * least, 50)),)
        case DirectoryConfig():
            nodes = sum(one.count for one in draft.config.instance_groups)
            least = each * max(1, nodes)
            return (
                tuple(setting(("cache", "l2", "capacity_gib"), n * least) for n in (1, 2, 8, 64)),
            )
        case _:
            return ()


def curvine_plan(
    draft: Draft, groups: Mapping[str, Group], engines: Sequence[EnginePlan]
) -> CurvinePlan | None:
    """Plan the pool, or None where L2 is something else."""
    l2 = draft.curvine
    if l2 is None:
        return None
    workers = [group for group in groups.values() if group.capacity_gib and group.config.count]
    equal = len({group.capacity_gib for group in workers}) <= 1
    return CurvinePlan(
        namespace=draft.namespaces.cache,
        cluster_id=draft.config.name,
        image=draft.image("curvine"),
        driver_groups=(() if draft.config.hyperpod.existing is None else tuple(sorted(groups))),
        csi_image=draft.image("curvine_csi"),
        provisioner_image=draft.image("csi_provisioner"),
        registrar_image=draft.image("csi_registrar"),
        masters=l2.masters,
        master_size=ContainerSize(
            cpu_millicores=MASTER_CPU_MILLICORES, memory_mib=2048, memory_limit_mib=4096
        ),
        csi_size=_csi_size(groups),
        meta_volume_gib=20,
        journal_volume_gib=20,
        master_rpc_port=8995,
        master_journal_port=8996,
        master_web_port=9000,
        worker_rpc_port=8997,
        worker_web_port=9001,
        fuse_web_port=9002,
        host_path=draft.cache_host_path,
        nvme_mount=draft.config.hyperpod.nvme_mount,
        reserved_gib=l2.reserved_gib_per_node,
        workers=tuple(
            CurvineWorkerPlan(
                group=group.config.name,
                instance_type=group.types[0].name,
                other_types=tuple(kind.name for kind in group.types[1:]),
                nodes=group.config.count,
                capacity_gib=group.capacity_gib,
                size=ContainerSize(
                    cpu_millicores=host.curvine_traffic(group.instance).worker_millicores,
                    memory_mib=host.curvine_worker_mib(group.instance),
                ),
            )
            for group in workers
        ),
        volumes=tuple(
            CurvineVolumePlan(
                name=attached.volume,
                curvine_path=attached.directory,
                claim_namespace=draft.namespaces.serving,
            )
            for engine in engines
            if isinstance(attached := engine.lmcache.l2, CurvineL2Plan)
        ),
        block_size_mib=pool.BLOCK_SIZE_MIB,
        ttl_hours=l2.ttl_hours,
        client_timeout_ms=CLIENT_TIMEOUT_MS,
        worker_policy="robin" if equal else "load_based",
    )


def _csi_size(groups: Mapping[str, Group]) -> ContainerSize:
    """Size of the driver's one DaemonSet, which has to fit the smallest of its nodes.

    The plan keeps on each node what that node's own rate takes, so where groups differ the rest is
    there although nobody asks for it.
    """
    asked = [host.curvine_traffic(group.instance).fuse_millicores for group in groups.values()]
    return ContainerSize(
        cpu_millicores=min(asked, default=host.CURVINE_CSI_CPU), memory_mib=host.CURVINE_CSI_MIB
    )


def directories_plan(draft: Draft, engines: Sequence[EnginePlan]) -> DirectoriesPlan | None:
    """Plan the folders of a person's claim, or None where L2 is something else."""
    attached = [
        engine.lmcache.l2 for engine in engines if isinstance(engine.lmcache.l2, DirectoryL2Plan)
    ]
    if not attached:
        return None
    return DirectoriesPlan(
        namespace=draft.namespaces.serving,
        claim=attached[0].claim,
        file_system=attached[0].file_system,
        directories=tuple(l2.directory for l2 in attached),
    )


def janitor_plans(draft: Draft, engines: Sequence[EnginePlan]) -> tuple[JanitorPlan, ...]:
    """Plan a janitor for each engine's directory; none where they are turned off."""
    settings = draft.janitor
    if settings is None:
        return ()
    l2 = draft.config.cache.l2
    filesystem = CURVINE_FILESYSTEM if l2.kind == "curvine" else ""
    if isinstance(l2, DirectoryConfig):
        filesystem = l2.file_system or ""
    planned = (
        janitor_plan(engine, settings, image=draft.image("jobs"), filesystem=filesystem)
        for engine in engines
    )
    return tuple(one for one in planned if one is not None)
