"""One engine's part of tier L2: how it is reached, and the directory that names all of it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Final

from kascade.catalog.kubernetes import KEY_SECRET
from kascade.config.blocks import (
    CurvineConfig,
    DirectoryConfig,
    ManagedConfig,
)
from kascade.plan import (
    CurvineL2Plan,
    DirectoryL2Plan,
    L2Plan,
    ManagedL2Plan,
)
from kascade.sizing import pool, transfer
from kascade.sizing.inputs import EngineInput
from kascade.sizing.weights import short_hash, weights_identity
from kascade.units import MIB_PER_GIB

L2_WORKERS: Final = 16
"""Least number of threads that read and write chunks; Curvine's published fio runs need 16 to use
the network, and one stream was measured at 0.3 GB/s."""

MOST_WORKERS: Final = 256
"""Most of them: as many requests as FUSE keeps in the background."""

L2_EVICT_RATIO: Final = 0.1

HASH_ALGORITHM: Final = "blake3"
"""LMCache's default; file names do not depend on PYTHONHASHSEED with it."""

CLIENT_TIMEOUT_MS: Final = 5000
"""Curvine waits two minutes by default; a lost master should be a miss, not a hung request. A lost
node costs a prompt this once, see `curvine_workers`."""

CACHE_MOUNT: Final = "/mnt/kv"

TIERED_STORAGE_PORT: Final = 9200

SHARED_MEMORY: Final = "ai_toolkit_cache"

HOST_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - shared memory
"""Where HyperPod's daemon answers on every node, and its file in the host's shared memory (AWS blog
on managed tiered KV cache; LMCache PR 4138). LMCache's own default is another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Share:
    """One engine's part of L2.

    Attributes:
        capacity_gib: What it may write.
        usable: Part of that which is full before something is evicted.
        mount_limit: What the way to it delivers beside the network, and its name; None without a
            bound of its own.
        workers: Threads that read and write it.
    """

    capacity_gib: int
    usable: float
    reason: str
    mount_limit: transfer.Limit | None
    workers: int = L2_WORKERS


def curvine_workers(*, objects: int, share_gib: int) -> int:
    """Threads of one LMCache server on Curvine: one for each chunk of the longest prompt.

    LMCache deals the chunks of a prompt out to its threads beforehand, and each reads its own one
    after the other. So a thread with two chunks of a lost node waits twice for the client's time
    limit; with one chunk each all wait at the same time.

    Args:
        objects: Chunks of the longest prompt, on all ranks.
        share_gib: The engine's part of the pool: each open file reserves a block of it, and all
            together may reserve an eighth.

    >>> [curvine_workers(objects=n, share_gib=313) for n in (4, 128, 1024)]
    [16, 128, 256]
    >>> curvine_workers(objects=128, share_gib=100)
    100
    """
    most = share_gib * MIB_PER_GIB // pool.BLOCK_SIZE_MIB // 8
    return max(L2_WORKERS, min(objects, most, MOST_WORKERS))


def room_for_writers(share: L2Share, *, objects: int) -> L2Share:
    """Take what open files reserve from what an engine may write on Curvine.

    An open file reserves a whole block until it is closed, and a pool without room for that rejects
    every write with EIO, never with ENOSPC.
    """
    workers = curvine_workers(objects=objects, share_gib=share.capacity_gib)
    reserved = math.ceil(workers * pool.BLOCK_SIZE_MIB / MIB_PER_GIB)
    return replace(
        share,
        workers=workers,
        capacity_gib=max(0, share.capacity_gib - reserved),
        reason=f"{share.reason}, less {reserved} GiB that {workers} open files reserve",
    )


def l2_plan(given: EngineInput, l2: L2Share | None, serde_workers: int) -> L2Plan | None:
    """Say how one engine reaches L2, or None without one."""
    settings = given.config.cache.l2
    if l2 is None or settings.kind == "none":
        return None
    key_secret = _key_secret(given) if settings.encryption == "aesgcm" else None
    if isinstance(settings, ManagedConfig):
        return _managed(given, l2, serde_workers, key_secret)
    if isinstance(settings, DirectoryConfig):
        # The deployment too, since another one may mount the same file system.
        top = f"{settings.path}/{given.config.name}"
        return DirectoryL2Plan(
            claim=settings.claim,
            directory=f"{top}{directory_of(given, settings.encryption)}",
            file_system=settings.file_system,
            mount_path=CACHE_MOUNT,
            # Only the engine's own directory is mounted, so no engine can reach another's.
            base_path=CACHE_MOUNT,
            capacity_gib=l2.capacity_gib,
            workers=l2.workers,
            serde_workers=serde_workers,
            evict_at=l2.usable,
            evict_ratio=L2_EVICT_RATIO,
            key_secret=key_secret,
        )
    return CurvineL2Plan(
        volume=_volume(given, settings),
        directory=directory_of(given, settings.encryption),
        mount_path=CACHE_MOUNT,
        # LMCache makes missing directories through the mount, which would stamp them with the
        # volume's time to live; so the volume itself is the base path and nothing is made below.
        base_path=CACHE_MOUNT,
        capacity_gib=l2.capacity_gib,
        workers=l2.workers,
        serde_workers=serde_workers,
        evict_at=l2.usable,
        evict_ratio=L2_EVICT_RATIO,
        key_secret=key_secret,
    )


def _volume(given: EngineInput, settings: CurvineConfig) -> str:
    directory = directory_of(given, settings.encryption)
    # Whatever becomes an attribute of the volume.
    parts = (settings.ttl_hours, settings.masters, CLIENT_TIMEOUT_MS, pool.BLOCK_SIZE_MIB)
    fixed = f"{directory} {parts}"
    return f"kv-{given.model.name}-{short_hash(fixed)}"


def _managed(
    given: EngineInput, l2: L2Share, serde_workers: int, key_secret: str | None
) -> ManagedL2Plan:
    encryption = "none" if key_secret is None else "aesgcm"
    # The daemon's keys hold the model string and the rank layout, but not the rest of it.
    fixed = hashlib.sha256(directory_of(given, encryption).encode()).hexdigest()[:8]
    return ManagedL2Plan(
        bucket=f"kv-{given.model.name}-{fixed}",
        port=TIERED_STORAGE_PORT,
        shared_memory=SHARED_MEMORY,
        host_directory=HOST_SHARED_MEMORY,
        mount_path=CACHE_MOUNT,
        capacity_gib=l2.capacity_gib,
        serde_workers=serde_workers,
        key_secret=key_secret,
    )


def _key_secret(given: EngineInput) -> str:
    """One key for all who share, and one for each isolated tenant of a model."""
    return KEY_SECRET if given.tenant is None else f"{KEY_SECRET}-{given.model.name}"


def directory_of(given: EngineInput, encryption: str) -> str:
    """Everything that must agree between two replicas that share files, as a path.

    LMCache's file names hold the model string and the rank layout, but not the rest of it.
    """
    model, cache = given.model, given.config.cache
    kind = given.facts.dtype if model.kv_cache_dtype == "auto" else model.kv_cache_dtype
    weights = f"-{model.quantization}" if model.quantization else ""
    # The layout of a block is the engine's and LMCache's own affair and may change with either.
    image = short_hash(given.image)
    return (
        f"/kv/{model.name}/{model.model.replace('/', '--')}-{weights_identity(given)}{weights}/"
        f"{kind}-tp{given.tp}-c{cache.chunk_size}-{HASH_ALGORITHM}-{encryption}-{image}"
    )
