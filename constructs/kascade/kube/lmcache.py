"""The LMCache multi-process server beside a vLLM engine: tiers L1 and L2.

Flags and JSON keys are those of lmcache 0.5.6 (``lmcache/cli/commands/server.py`` and
``lmcache/v1/distributed/l2_adapters/config.py``). The server refuses unknown flags but no unknown
key of the adapter's JSON.
"""

from __future__ import annotations

import json
from typing import Final

from kascade.kube._labels import LMCACHE_PORT
from kascade.kube._objects import Fields
from kascade.kube._pods import (
    HELPER_RESOURCES,
    NO_PRIVILEGES,
    field_env,
    http_probe,
    plain_env,
    resources,
)
from kascade.kube.cache_keys import KEY_BITS, KEY_FILE
from kascade.kube.curvine.names import MARKER
from kascade.sizing.plan import EnginePlan, L2Plan

CACHE_VOLUME: Final = "cache"
KEY_VOLUME: Final = "cache-key"
SHM_VOLUME: Final = "shm"

SHM_MOUNT: Final[Fields] = {"name": SHM_VOLUME, "mountPath": "/dev/shm"}  # noqa: S108 - shared memory

_KEY_MOUNT: Final = "/var/run/kascade/cache-key"

SHARED_ENV: Final = {
    # Chunk names must not depend on the process. LMCache's blake3 does not, but any hash that falls
    # back to Python's hash() would, and then no replica finds another's chunks.
    "PYTHONHASHSEED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "LMCACHE_TRACK_USAGE": "false",
    "LMCACHE_DISABLE_BANNER": "1",
}
"""Environment of the server and the engine alike."""

_STARTED: Final = "/dev/shm/kascade-lmcache-started"  # noqa: S108 - shared memory
"""Made by the pod's first server; shared memory outlives a container and not its pod."""

_GUARD_SECONDS: Final = 120
"""Longer than a bootstrap Job needs once its master runs, shorter than a person's patience with a
pod that will not start by itself."""

# LMCache makes a missing base path with all its parents, so without this check an absent mount
# would fill the container's own disk and nothing would be shared.
_GUARD: Final = """\
import os, sys, time

mount, marker, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
deadline = time.monotonic() + seconds
while True:
    kind = "nothing"
    with open("/proc/self/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[1] == mount:
                kind = fields[2]
    if not kind.startswith("fuse"):
        sys.exit(f"{mount} is {kind}, not FUSE: the cache would fill this container's disk")
    if os.path.exists(os.path.join(mount, marker)):
        print(f"{mount} is {kind} and has its marker")
        break
    if time.monotonic() > deadline:
        sys.exit(f"{mount} has no {marker}: has the curvine-bootstrap Job succeeded?")
    time.sleep(2)
"""


def guard_container(engine: EnginePlan, l2: L2Plan) -> Fields:
    """Init container that starts nothing on a mount that is not the cache."""
    return {
        "name": "prove-cache",
        "image": engine.image,
        "command": ["python3", "-c", _GUARD],
        "args": [l2.mount_path, MARKER, str(_GUARD_SECONDS)],
        "resources": HELPER_RESOURCES,
        # Root like the server: what that one may read is what is proven.
        "securityContext": {**NO_PRIVILEGES, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": CACHE_VOLUME, "mountPath": l2.mount_path}],
    }


def server_container(engine: EnginePlan) -> Fields:
    """Native sidecar: it is up before vLLM, which exits at start without it, and ends after it.

    There is no readiness probe: an engine that loses its server recomputes and serves on, and must
    stay in the router's list. Both probes ask ``/healthcheck``, which never touches the mount.
    """
    plan = engine.lmcache
    mounts: list[Fields] = [SHM_MOUNT]
    if plan.l2 is not None:
        mounts.append({"name": CACHE_VOLUME, "mountPath": plan.l2.mount_path})
        if plan.l2.key_secret is not None:
            mounts.append({"name": KEY_VOLUME, "mountPath": _KEY_MOUNT, "readOnly": True})
    return {
        "name": "lmcache",
        "image": engine.image,
        "restartPolicy": "Always",
        "command": [*_after_a_pause(plan.restart_pause_seconds), "lmcache", "server"],
        "args": server_args(engine),
        "env": [
            field_env("POD_NAME", "metadata.name"),
            *plain_env(
                {
                    **SHARED_ENV,
                    # It opens vLLM's KV tensors by CUDA IPC and must see the same GPUs. Requesting
                    # one would claim another GPU; the nvidia runtime reads this instead.
                    "NVIDIA_VISIBLE_DEVICES": "all",
                    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
                }
            ),
        ],
        "ports": [{"name": LMCACHE_PORT, "containerPort": plan.http_port}],
        # 5 to 13 s measured without a GPU; pinning host memory comes on top. Ten minutes in all.
        "startupProbe": http_probe("/healthcheck", LMCACHE_PORT, period=5, failures=120),
        # Lax: a restart empties L1.
        "livenessProbe": http_probe(
            "/healthcheck", LMCACHE_PORT, period=10, failures=6, ends_within=10
        ),
        "resources": resources(plan.size),
        # Root, as the image has no other user; and one user for all replicas' files in L2.
        "securityContext": NO_PRIVILEGES,
        "volumeMounts": mounts,
    }


def _after_a_pause(seconds: int) -> list[str]:
    """Program that runs its arguments, after a pause unless it is the pod's first time.

    An engine that has not noticed that its server was away never registers with the new one.
    """
    return ["sh", "-c", f'mkdir "$0" 2>/dev/null || sleep {seconds}; exec "$@"', _STARTED]


def server_args(engine: EnginePlan) -> list[str]:
    """Arguments of ``lmcache server``."""
    plan = engine.lmcache
    args = [
        "--instance-id=$(POD_NAME)",
        # vLLM is in the same pod, nobody else has business on this port.
        "--host=127.0.0.1",
        f"--port={plan.port}",
        # Probes and the collector of metrics come from outside. The admin API shares the port and
        # has no login; the NetworkPolicy is its only guard.
        "--http-host=0.0.0.0",
        f"--http-port={plan.http_port}",
        f"--chunk-size={plan.chunk_size}",
        f"--hash-algorithm={plan.hash_algorithm}",
        f"--l1-size-gb={plan.l1_gb}",
        f"--eviction-policy={plan.l1_eviction_policy}",
        f"--l2-prefetch-policy={plan.prefetch_policy}",
        f"--max-workers={plan.max_workers}",
        # Neither hostIPC nor a common user id is needed then; vLLM's connector says the same.
        "--isolated-ipc",
    ]
    if plan.l2 is not None:
        adapter = json.dumps(l2_adapter(plan.l2), separators=(",", ":"))
        args.append(f"--l2-adapter={adapter}")
    return args


def l2_adapter(l2: L2Plan) -> Fields:
    """Configuration of the shared directory."""
    adapter: dict[str, object] = {
        "type": "fs_native",
        "base_path": l2.base_path,
        # One level, below base_path, other in every pod: with a common one, 47 of 120 stores of
        # two replicas failed and half-written files became visible.
        "relative_tmp_dir": ".tmp-$(POD_NAME)",
        "shared": True,
        "num_workers": l2.workers,
        "max_capacity_gb": l2.capacity_gb,
        # Without this block the capacity bounds nothing.
        "eviction": {
            "eviction_policy": "LRU",
            "trigger_watermark": l2.evict_at,
            "eviction_ratio": l2.evict_ratio,
        },
    }
    if l2.key_secret is not None:
        # Plain files have no checksum: a damaged one of the right length is a wrong answer.
        adapter["serde"] = {
            "type": "aesgcm",
            "master_key_path": f"{_KEY_MOUNT}/{KEY_FILE}",
            "aes_bits": KEY_BITS,
            # One thread by default, slower than the network.
            "max_workers": l2.serde_workers,
        }
    return adapter


def cache_volumes(engine: EnginePlan) -> list[Fields]:
    """Volumes of the pod that only this server mounts."""
    l2 = engine.lmcache.l2
    if l2 is None:
        return []
    volumes: list[Fields] = [
        {"name": CACHE_VOLUME, "persistentVolumeClaim": {"claimName": l2.volume}}
    ]
    if l2.key_secret is not None:
        volumes.append(
            {
                "name": KEY_VOLUME,
                "secret": {
                    "secretName": l2.key_secret,
                    "items": [{"key": KEY_FILE, "path": KEY_FILE}],
                    "defaultMode": 0o400,
                },
            }
        )
    return volumes
