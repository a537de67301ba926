"""What an engine's pod carries so that its LMCache server reaches L2, whatever kind that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kascade.kube._objects import Fields
from kascade.kube._pods import SHM_MOUNT, field_env
from kascade.kube._policies import egress_to
from kascade.kube.cache_keys import KEY_BITS, KEY_FILE
from kascade.kube.l2.adapters import Adapter, AesGcm, Eviction, FsNativeAdapter, HyperPodAdapter
from kascade.kube.l2.guards import (
    GUARD_SECONDS,
    MARKER,
    PROVE_DIRECTORY,
    PROVE_FUSE,
    PROVE_SHARED_MEMORY,
    guard_container,
)
from kascade.plan import (
    CurvineL2Plan,
    DirectoryL2Plan,
    EnginePlan,
    L2Plan,
    ManagedL2Plan,
    NetworkPlan,
)

CACHE_VOLUME: Final = "cache"

TEMP_PREFIX: Final = ".tmp-"
"""Beginning of the directory, beside the chunk files, in which a pod writes before it publishes;
the pod's name follows."""

KEY_VOLUME: Final = "cache-key"

_KEY_MOUNT: Final = "/var/run/kascade/cache-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One engine's way to L2.

    Attributes:
        adapter: For ``--l2-adapter``.
        guard: Init container that proves it before anything starts.
        mounts: Of the LMCache server alone.
        volumes: Of the pod.
        env: Of the LMCache server, for what the adapter names by a variable.
        egress: Rules that the pod needs for it.
    """

    adapter: Adapter
    guard: Fields
    mounts: tuple[Fields, ...]
    volumes: tuple[Fields, ...]
    env: tuple[Fields, ...] = ()
    egress: tuple[Fields, ...] = ()


def attach(engine: EnginePlan, network: NetworkPlan) -> Attachment | None:
    """Return how an engine reaches L2, or None where it has none.

    Args:
        engine: The plan's slice.
        network: Addresses of the VPC, where the nodes are.
    """
    match engine.lmcache.l2:
        case CurvineL2Plan() as l2:
            return _curvine(engine, l2)
        case DirectoryL2Plan() as l2:
            return _directory(engine, l2)
        case ManagedL2Plan() as l2:
            return _managed(engine, l2, network)
        case None:
            return None


def _curvine(engine: EnginePlan, l2: CurvineL2Plan) -> Attachment:
    # The mount is the kubelet's, not the pod's, so it needs no rule for traffic.
    mount: Fields = {"name": CACHE_VOLUME, "mountPath": l2.mount_path}
    return Attachment(
        adapter=_files(l2),
        guard=guard_container(
            engine.image, PROVE_FUSE, [l2.mount_path, MARKER, str(GUARD_SECONDS)], mount
        ),
        mounts=(mount, *_key_mounts(l2)),
        volumes=(_claim(l2.volume), *_key_volumes(l2)),
    )


def _directory(engine: EnginePlan, l2: DirectoryL2Plan) -> Attachment:
    # The engine's own directory and no more of the claim. The kubelet makes a missing one, but
    # without the marker that the guard asks for.
    mount: Fields = {
        "name": CACHE_VOLUME,
        "mountPath": l2.mount_path,
        "subPath": l2.directory,
    }
    args = [l2.mount_path, l2.file_system or "", MARKER, str(GUARD_SECONDS)]
    return Attachment(
        adapter=_files(l2),
        guard=guard_container(engine.image, PROVE_DIRECTORY, args, mount),
        mounts=(mount, *_key_mounts(l2)),
        volumes=(_claim(l2.claim), *_key_volumes(l2)),
    )


def _files(l2: CurvineL2Plan | DirectoryL2Plan) -> FsNativeAdapter:
    return FsNativeAdapter(
        base_path=l2.base_path,
        relative_tmp_dir=f"{TEMP_PREFIX}$(POD_NAME)",
        num_workers=l2.workers,
        max_capacity_gb=l2.capacity_gib,
        eviction=Eviction(
            eviction_policy="LRU", trigger_watermark=l2.evict_at, eviction_ratio=l2.evict_ratio
        ),
        serde=_serde(l2),
    )


def _managed(engine: EnginePlan, l2: ManagedL2Plan, network: NetworkPlan) -> Attachment:
    # Read-only: blocks are written through the daemon's port. The directory and not the file alone,
    # although that shows the server what else is in the host's shared memory: a container keeps the
    # file that it was started with, and when the daemon makes it anew LMCache would find other
    # blocks at the new places. They were measured to come through aesgcm, which encrypts each block
    # but not its name, as wrong answers.
    mount: Fields = {"name": CACHE_VOLUME, "mountPath": l2.mount_path, "readOnly": True}
    volume: Fields = {
        "name": CACHE_VOLUME,
        "hostPath": {"path": l2.host_directory, "type": "Directory"},
    }
    # LMCache looks in its own shared memory, so there a link stands for the daemon's file.
    args = [
        f"{l2.mount_path}/{l2.shared_memory}",
        f"{SHM_MOUNT['mountPath']}/{l2.shared_memory}",
        str(GUARD_SECONDS),
    ]
    nodes: list[Fields] = [{"ipBlock": {"cidr": cidr}} for cidr in network.private_cidrs]
    return Attachment(
        adapter=HyperPodAdapter(
            url=f"sagemaker-hyperpod://$(NODE_IP):{l2.port}",
            bucket=l2.bucket,
            shared_memory_name="ai_toolkit_cache",
            serde=_serde(l2),
        ),
        guard=guard_container(engine.image, PROVE_SHARED_MEMORY, args, mount, SHM_MOUNT),
        mounts=(mount, *_key_mounts(l2)),
        volumes=(volume, *_key_volumes(l2)),
        env=(field_env("NODE_IP", "status.hostIP"),),
        # The daemon of the pod's own node. Its address is known only to the pod, so the rule names
        # the subnets of all nodes, and nothing else listens on this port there.
        egress=(egress_to(nodes, l2.port),),
    )


def _claim(name: str) -> Fields:
    return {"name": CACHE_VOLUME, "persistentVolumeClaim": {"claimName": name}}


def _serde(l2: L2Plan) -> AesGcm | None:
    if l2.key_secret is None:
        return None
    return AesGcm(
        master_key_path=f"{_KEY_MOUNT}/{KEY_FILE}",
        aes_bits=KEY_BITS,
        max_workers=l2.serde_workers,
    )


def _key_mounts(l2: L2Plan) -> list[Fields]:
    if l2.key_secret is None:
        return []
    return [{"name": KEY_VOLUME, "mountPath": _KEY_MOUNT, "readOnly": True}]


def _key_volumes(l2: L2Plan) -> list[Fields]:
    if l2.key_secret is None:
        return []
    return [
        {
            "name": KEY_VOLUME,
            "secret": {
                "secretName": l2.key_secret,
                "items": [{"key": KEY_FILE, "path": KEY_FILE}],
                "defaultMode": 0o400,
            },
        }
    ]
