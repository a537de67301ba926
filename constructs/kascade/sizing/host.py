"""What a node holds beside its GPUs: daemons, engines, L1. Memory in MiB, CPU in millicores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kascade.catalog.instances import InstanceType
from kascade.sizing import transfer
from kascade.units import GB, MIB_PER_GIB

PAGE_CACHE_SPARE_MIB: Final = 1024
"""RAM left to the page cache and to estimates that are a little off."""

ENGINE_BASE_MIB: Final = 6144
ENGINE_PER_GPU_MIB: Final = 2048
"""Host memory of vLLM: an API server and engine core, and one worker per GPU. A CPU engine was
measured at 3.3 GB; CUDA contexts and pinned buffers are assumed to double that."""

SHM_PER_GPU_MIB: Final = 1024
"""Shared memory of an engine: message queues between vLLM's processes; the usual 64 MiB is too
little with tensor parallelism."""

LMCACHE_BASE_MIB: Final = 1536
LMCACHE_PER_GPU_MIB: Final = 768
L1_PAGE_SHARE: Final = 0.005
"""The LMCache server beside its L1: 1.5 GB measured with an L1 of 1 GB; a CUDA context and buffers
for each GPU (assumed); page tables and block records, together a two hundredth of L1 (assumed)."""

LMCACHE_CPU_MILLICORES: Final = 500
LMCACHE_CPU_PER_GPU_MILLICORES: Final = 250
ENGINE_MIN_CPU_MILLICORES: Final = 1000
CPU_SPARE_MILLICORES: Final = 250
"""What pods of others may take on a node without keeping an engine off it: EKS puts CoreDNS (100
millicores) and controllers of add-ons (60) wherever there is room."""

ENGINE_CPU_PER_GPU_MILLICORES: Final = 3000
"""vLLM keeps about one core busy per process; requests above it only help tokenizing."""

OPERATOR_SIDECARS_MIB: Final = 768
OPERATOR_SIDECARS_MILLIS: Final = 500
"""What the inference operator adds to each of its pods, a proxy (nginx) and an OpenTelemetry
collector. It publishes neither's requests; an assumption on the safe side."""

SMALL_NODE_RAM_GIB: Final = 64
"""Nodes up to this size get the small Curvine containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A pod that every node of a group carries.

    Attributes:
        memory_mib: Its limit, or an estimate where its maker sets none.
        cpu_millicores: Its request.
    """

    name: str
    memory_mib: int
    cpu_millicores: int
    reason: str


def curvine_worker_mib(instance: InstanceType) -> int:
    """Memory of a Curvine worker on an instance type."""
    return 2048 if instance.ram_gib <= SMALL_NODE_RAM_GIB else 4096


CURVINE_WORKER_SMALL_CPU: Final = 250
CURVINE_WORKER_CPU: Final = 1000
CURVINE_CSI_MIB: Final = 4096
CURVINE_CSI_CPU: Final = 250
"""The least that each asks for, however slow the network."""

FUSE_CPU_MILLICORES: Final = 1100
WORKER_CPU_MILLICORES: Final = 1050
CLIENT_CPU_MILLICORES: Final = 650
"""CPU that a gigabyte a second takes in Curvine's FUSE, in the workers that serve it and in the
LMCache server that reads it: 0.9 to 1.3, 0.9 to 1.2 and 0.5 to 0.8 CPU seconds a GB, measured with
v0.4.1 and files of 14.7 MB on two cores."""

L2_CPU_SHARE: Final = 0.45
"""Most of a node's CPU that FUSE and the worker ask for. A node whose network is faster than that
reads L2 more slowly; the rest opens blocks and feeds the GPUs."""

MOUNTPOINT: Final = "mountpoint-s3"
MOUNTPOINT_MIB: Final = 2048
MOUNTPOINT_CPU_MILLICORES: Final = 250
"""Mountpoint reads ahead in memory, up to 95 % of its limit. Its maker measured 37 Gbit/s with
2 GiB on a large instance (docs/MEMORY.md of the driver) and asks for 512 MiB at least."""


JANITOR_MIB: Final = 192
"""Two Python processes of 20 and 30 MB measured, whatever the number of files. The rest is for the
kernel's memory of files it has looked at, about 1 KiB each (assumed), which it gives back when the
limit is reached."""

JANITOR_CPU: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineTraffic:
    """What a node reads of Curvine at most, and the CPU that takes.

    Every node serves as much as it reads, since the blocks of each lie on all.

    Attributes:
        bytes_per_second: The node's rate.
        fuse_millicores: Of the CSI driver, which FUSE runs in.
        worker_millicores: Of the worker; 0 without one.
        wanted_millicores: What both would take at the rate of network and mount.
        cpu_bound: True where the node has too few CPUs for that rate.
    """

    bytes_per_second: float
    fuse_millicores: int
    worker_millicores: int
    wanted_millicores: int
    cpu_bound: bool

    @property
    def limit(self) -> transfer.Limit:
        """What stands between the network and LMCache on such a node."""
        if not self.cpu_bound:
            return transfer.FUSE
        return transfer.Limit(
            bytes_per_second=self.bytes_per_second,
            name=f"{(self.fuse_millicores + self.worker_millicores) / 1000:.1f} CPUs for Curvine",
        )

    @property
    def reason(self) -> str:
        """Where the CPU goes."""
        rate = f"{self.bytes_per_second / GB:.2f} GB/s of L2"
        parts = f"FUSE {FUSE_CPU_MILLICORES / 1000:g}"
        if self.worker_millicores:
            parts += f" and worker {WORKER_CPU_MILLICORES / 1000:g}"
        bound = f", {L2_CPU_SHARE:.0%} of the CPUs" if self.cpu_bound else ""
        return f"{rate} x {parts} CPU seconds a GB, measured{bound}"


def curvine_traffic(instance: InstanceType) -> CurvineTraffic:
    """Size what moves Curvine's bytes on a node.

    >>> from kascade.catalog.instances import INSTANCES
    >>> curvine_traffic(INSTANCES["ml.g6e.4xlarge"]).fuse_millicores
    2172
    """
    rate = transfer.load_rate(instance.network_gbps, mount=transfer.FUSE).bytes_per_second
    each = FUSE_CPU_MILLICORES + (WORKER_CPU_MILLICORES if instance.nvme_gb else 0)
    wanted = int(rate / GB * each)
    most = int(allocatable_cpu_millicores(instance.vcpus) * L2_CPU_SHARE)
    if wanted > most:
        rate = most / each * GB
    return CurvineTraffic(
        bytes_per_second=rate,
        fuse_millicores=max(CURVINE_CSI_CPU, int(rate / GB * FUSE_CPU_MILLICORES)),
        worker_millicores=curvine_worker_cpu(instance, bytes_per_second=rate),
        wanted_millicores=wanted,
        cpu_bound=wanted > most,
    )


def curvine_worker_cpu(instance: InstanceType, *, bytes_per_second: float) -> int:
    """CPU request of a Curvine worker on an instance type, 0 where it has none.

    Args:
        instance: The node's type.
        bytes_per_second: What it serves.
    """
    if not instance.nvme_gb:
        return 0
    small = instance.ram_gib <= SMALL_NODE_RAM_GIB
    least = CURVINE_WORKER_SMALL_CPU if small else CURVINE_WORKER_CPU
    return max(least, int(bytes_per_second / GB * WORKER_CPU_MILLICORES))


def client_cpu_millicores(instance: InstanceType, gpus: int) -> int:
    """CPU that one engine's LMCache server takes for its part of what its node reads.

    >>> from kascade.catalog.instances import INSTANCES
    >>> client_cpu_millicores(INSTANCES["ml.g6e.4xlarge"], 1)
    1283
    """
    rate = curvine_traffic(instance).bytes_per_second
    return int(rate / GB * CLIENT_CPU_MILLICORES) * gpus // instance.gpus


def daemons(  # noqa: PLR0913 - keyword-only but for one, and most of them switches
    instance: InstanceType,
    *,
    curvine: bool,
    tiered_storage: bool,
    s3_driver: bool = False,
    s3_volumes: Iterable[str] = (),
    janitor: bool = False,
    fsx_driver: bool = False,
) -> tuple[Daemon, ...]:
    """Every pod that stands on a node before any engine, or may have to.

    Args:
        instance: The node's type.
        curvine: True when L2 is Curvine.
        tiered_storage: True when HyperPod's managed tier is on. Its daemon's RAM is the
            percentage, counted apart; here it only takes a pod slot.
        s3_driver: True when some model of the deployment mounts its weights from S3, or the
            inference operator is installed.
        s3_volumes: Models that do so on this kind of node: each has a Mountpoint of its own.
        janitor: True when each engine's shared directory has one. There is one pod for each engine
            of the group, on whichever node has room. A group has no more engines than GPUs, so room
            for one beside each GPU is enough, and does not change with the models.
        fsx_driver: True when the inference operator, which wants the driver, is installed.

    >>> from kascade.catalog.instances import INSTANCES
    >>> small = daemons(INSTANCES["ml.g6e.2xlarge"], curvine=True, tiered_storage=True)
    >>> len(small), [d.name for d in small if "efa" in d.name]
    (9, [])
    """
    found = [
        Daemon(name="aws-node", memory_mib=200, cpu_millicores=50, reason="VPC CNI, estimate"),
        Daemon(name="kube-proxy", memory_mib=64, cpu_millicores=100, reason="EKS add-on, estimate"),
        Daemon(
            name="eks-pod-identity-agent",
            memory_mib=64,
            cpu_millicores=20,
            reason="EKS add-on, estimate",
        ),
        Daemon(
            name="ebs-csi-node", memory_mib=256, cpu_millicores=30, reason="EKS add-on, estimate"
        ),
        Daemon(
            name="health-monitoring-agent",
            memory_mib=512,
            cpu_millicores=500,
            reason="request and limit in HyperPod's chart",
        ),
        Daemon(
            name="nvidia-device-plugin",
            memory_mib=128,
            cpu_millicores=50,
            reason="sets none, estimate",
        ),
    ]
    if instance.efa_interfaces:
        found.append(
            Daemon(
                name="efa-device-plugin",
                memory_mib=64,
                cpu_millicores=10,
                reason="requests 20 Mi in its chart, estimate",
            )
        )
    if curvine:
        traffic = curvine_traffic(instance)
        found.append(
            Daemon(
                name="curvine-csi-node",
                memory_mib=CURVINE_CSI_MIB,
                cpu_millicores=traffic.fuse_millicores,
                reason=f"our limit; {traffic.reason}",
            )
        )
        if instance.nvme_gb:
            found.append(
                Daemon(
                    name="curvine-worker",
                    memory_mib=curvine_worker_mib(instance),
                    cpu_millicores=traffic.worker_millicores,
                    reason=f"our limit; {traffic.reason}",
                )
            )
    if s3_driver:
        found.append(
            Daemon(
                name="s3-csi-node",
                memory_mib=256,
                cpu_millicores=30,
                reason="limit of its plugin and requests of its three containers, in its chart",
            )
        )
    if fsx_driver:
        found.append(
            Daemon(
                name="fsx-csi-node",
                memory_mib=256,
                cpu_millicores=30,
                reason="estimate, as the S3 driver's: three containers of the same kind",
            )
        )
    found += [
        Daemon(
            name=f"{MOUNTPOINT}-{model}",
            memory_mib=MOUNTPOINT_MIB,
            cpu_millicores=MOUNTPOINT_CPU_MILLICORES,
            reason="our limit",
        )
        for model in s3_volumes
    ]
    if janitor:
        one = Daemon(
            name="janitor",
            memory_mib=JANITOR_MIB,
            cpu_millicores=JANITOR_CPU,
            reason="our limit; room beside each GPU, since any node may carry it",
        )
        found += [one] * instance.gpus
    if tiered_storage:
        found.append(
            Daemon(
                name="ai-toolkit",
                memory_mib=0,
                cpu_millicores=100,
                reason="its RAM is the tiered-storage percentage; CPU is an estimate",
            )
        )
    return tuple(found)


def allocatable_cpu_millicores(vcpus: int) -> int:
    """CPU that EKS leaves to pods: it reserves 6 %, 1 %, 0.5 %, 0.5 % and 0.25 % of the rest.

    >>> allocatable_cpu_millicores(16)
    15890
    """
    reserved = 60 + 10 * (vcpus > 1) + 5 * min(2, max(0, vcpus - 2)) + 2.5 * max(0, vcpus - 4)
    return int(vcpus * 1000 - reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """RAM and CPU of one engine pod, by its share of the node's GPUs."""

    ram_mib: int
    cpu_millicores: int
    tiered_mib: int
    daemon_mib: int


def host_share(
    instance: InstanceType,
    *,
    gpus: int,
    tiered_percentage: int | None,
    carried: tuple[Daemon, ...],
) -> HostShare:
    """What one engine pod may use of a node.

    Args:
        instance: The node's type.
        gpus: GPUs of the pod.
        tiered_percentage: Share of all RAM lent to HyperPod's managed tier.
        carried: The node's daemons.

    Returns:
        The share; negative RAM when the daemons alone are too large.
    """
    tiered = instance.ram_gib * MIB_PER_GIB * (tiered_percentage or 0) // 100
    daemon_mib = sum(daemon.memory_mib for daemon in carried)
    ram = instance.allocatable_ram_mib - tiered - daemon_mib - PAGE_CACHE_SPARE_MIB
    taken = sum(daemon.cpu_millicores for daemon in carried)
    cpu = allocatable_cpu_millicores(instance.vcpus) - taken - CPU_SPARE_MILLICORES
    return HostShare(
        ram_mib=ram * gpus // instance.gpus,
        cpu_millicores=cpu * gpus // instance.gpus,
        tiered_mib=tiered,
        daemon_mib=daemon_mib,
    )


def engine_mib(gpus: int) -> int:
    """Memory of the vLLM container without /dev/shm.

    >>> engine_mib(1), engine_mib(4)
    (8192, 14336)
    """
    return ENGINE_BASE_MIB + ENGINE_PER_GPU_MIB * gpus


def l1_room_gib(share: HostShare, gpus: int) -> int:
    """Whole GiB that one replica can give to L1; below 1 when nothing is left.

    >>> l1_room_gib(HostShare(ram_mib=40_960, cpu_millicores=8000, tiered_mib=0, daemon_mib=0), 1)
    28
    """
    fixed = engine_mib(gpus) + SHM_PER_GPU_MIB * gpus + lmcache_mib(0, gpus)
    return int((share.ram_mib - fixed) / (1 + L1_PAGE_SHARE)) // MIB_PER_GIB


def lmcache_mib(l1_gib: int, gpus: int) -> int:
    """Memory of the LMCache server with its L1.

    >>> lmcache_mib(0, 1), lmcache_mib(100, 1) - lmcache_mib(0, 1)
    (2304, 102912)
    """
    l1 = l1_gib * MIB_PER_GIB
    return LMCACHE_BASE_MIB + LMCACHE_PER_GPU_MIB * gpus + l1 + math.ceil(l1 * L1_PAGE_SHARE)


def serde_workers(share: HostShare) -> int:
    """Threads that seal and open blocks: half as many as the pod has CPUs, 16 at most.

    >>> serde_workers(HostShare(ram_mib=0, cpu_millicores=14_000, tiered_mib=0, daemon_mib=0))
    7
    """
    return max(1, min(16, round(share.cpu_millicores / 2000)))
