"""The tiers of the cache as planned: LMCache, what L2 is, and the janitor of it."""

from __future__ import annotations

from dataclasses import dataclass

from kascade.plan.values import ContainerSize, Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineWorkerPlan:
    """The Curvine worker DaemonSet of one instance group (data size differs by type)."""

    group: str
    instance_type: str
    nodes: int
    capacity_gib: int
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
        block_size_mib: Curvine's own block size; holds one KV chunk.
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
    reserved_gib: int
    workers: tuple[CurvineWorkerPlan, ...]
    volumes: tuple[CurvineVolumePlan, ...]
    block_size_mib: int
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
        capacity_gib: Bound on what one pod writes, so that all pods together fit the pool.
        serde_workers: Threads that seal and open blocks.
        key_secret: Secret with the aesgcm key, made inside the cluster, or None without serde.
    """

    volume: str
    directory: str
    mount_path: str
    base_path: str
    capacity_gib: int
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
        capacity_gib: Bound on what one pod writes, so that all pods together fit the capacity.
        serde_workers: Threads that seal and open blocks.
        key_secret: Secret with the aesgcm key, made inside the cluster, or None without serde.
    """

    claim: str
    directory: str
    file_system: str | None
    mount_path: str
    base_path: str
    capacity_gib: int
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
        capacity_gib: The engine's part of what its node lends; the daemon owns eviction.
        serde_workers: Threads that seal and open blocks.
        key_secret: Secret with the aesgcm key, made inside the cluster, or None without serde.
    """

    bucket: str
    port: int
    shared_memory: str
    host_directory: str
    mount_path: str
    capacity_gib: int
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
        l1_gib: L1 in the unit of ``--l1-size-gb`` (LMCache's "GB" is 1024**3 bytes).
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
    l1_gib: int
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
