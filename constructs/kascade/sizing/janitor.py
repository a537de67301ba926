"""How the janitor of a shared directory is sized: its marks, and what it waits for."""

from __future__ import annotations

from typing import Final

from kascade.config.blocks import JanitorConfig
from kascade.plan import (
    ContainerSize,
    DirectoryL2Plan,
    EnginePlan,
    Figure,
    JanitorPlan,
    ManagedL2Plan,
)
from kascade.sizing import host, objects
from kascade.units import GIB

PORT: Final = 9100

STEP_SECONDS: Final = 60
"""A call on a Curvine mount ends after two or three times the client's time limit of 5 s, with an
error at the latest; one that takes this long will not come back."""

UNREADABLE_SECONDS: Final = 1200
"""A node that reboots or is updated takes about ten minutes, and its worker has its files readable
again seconds after it started; a worker that was only restarted at once."""

DISK_FULL_AT: Final = 0.97
"""Above what any directory's own mark leads to, since the pool is larger than all of them together:
the last resort when something else fills it."""


def janitor_plan(
    engine: EnginePlan, settings: JanitorConfig, *, image: str, filesystem: str
) -> JanitorPlan | None:
    """Plan the janitor of one engine's directory.

    The budget is what its replicas may write together, as each LMCache server bounds itself. They
    cannot bound the sum: a server counts only what it has written since its own start.

    Args:
        engine: The engine.
        settings: Its marks.
        image: Any image with a Python 3.
        filesystem: Beginning of the type that the mount must have; empty accepts any.

    Returns:
        None without an L2, with one that others keep in bounds, or when it is turned off.
    """
    l2 = engine.lmcache.l2
    if l2 is None or isinstance(l2, ManagedL2Plan) or not settings.enabled:
        return None
    budget = engine.replicas * l2.capacity_gib * GIB
    encrypted, chunk = l2.key_secret is not None, engine.lmcache.chunk_size
    kv = int(engine.figures.kv_per_token_per_gpu.value)
    return JanitorPlan(
        name=f"{engine.name}-janitor",
        namespace=engine.namespace,
        engine=engine.name,
        image=image,
        group=engine.group,
        instance_type=engine.instance_type,
        other_types=engine.other_types,
        taint_keys=engine.taint_keys,
        claim=l2.claim if isinstance(l2, DirectoryL2Plan) else l2.volume,
        folder=l2.directory if isinstance(l2, DirectoryL2Plan) else None,
        mount_path=l2.mount_path,
        filesystem=filesystem,
        budget=Figure(
            value=budget,
            unit="bytes",
            reason=f"{engine.replicas} x {l2.capacity_gib} GiB that each replica may write",
        ),
        object_bytes=Figure(
            value=objects.object_bytes(kv, chunk_size=chunk, encrypted=encrypted),
            unit="bytes",
            reason=f"{chunk} tokens x {kv:,} B on each GPU"
            + (f" + {objects.FRAME_BYTES} B of the seal" if encrypted else ""),
        ),
        high_bytes=int(budget * settings.high_water),
        low_bytes=int(budget * settings.low_water),
        fresh_seconds=settings.fresh_seconds,
        interval_seconds=settings.interval_seconds,
        step_seconds=STEP_SECONDS,
        unreadable_seconds=UNREADABLE_SECONDS,
        disk_full_at=DISK_FULL_AT,
        port=PORT,
        size=ContainerSize(cpu_millicores=host.JANITOR_CPU, memory_mib=host.JANITOR_MIB),
    )
