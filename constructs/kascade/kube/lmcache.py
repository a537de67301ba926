"""The LMCache multi-process server beside a vLLM engine: tiers L1 and L2.

Flags are those of lmcache 0.5.6 (``lmcache/cli/commands/server.py``), which rejects unknown ones.
"""

from __future__ import annotations

from typing import Final

from kascade.kube._labels import LMCACHE_PORT
from kascade.kube._objects import Fields
from kascade.kube._pods import (
    NO_PRIVILEGES,
    NVIDIA_ENV,
    SHM_MOUNT,
    field_env,
    http_probe,
    plain_env,
    resources,
)
from kascade.kube.cache_program import (
    CACHE_MODULE_ENV,
    CACHE_MODULE_MOUNT,
    cache_module_arg,
)
from kascade.kube.engine_program import GPUS_FILE
from kascade.kube.l2.adapters import adapter_json
from kascade.kube.l2.attachment import Attachment
from kascade.plan import EnginePlan

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

_OWN_GPUS: Final = f"[ ! -s {GPUS_FILE} ] || export CUDA_VISIBLE_DEVICES=$(cat {GPUS_FILE})"
"""Limits the server to its engine's GPUs. It finds a device by its UUID, so their order is free;
without this every server of a node has its context, some 0.6 GiB, on the node's first GPU."""


def server_container(engine: EnginePlan, l2: Attachment | None) -> Fields:
    """Native sidecar: it is up before vLLM, which exits at start without it, and ends after it.

    There is no readiness probe: an engine that loses its server recomputes and serves on, and must
    stay in the router's list. Both probes ask ``/healthcheck``, which never touches the mount.
    """
    plan = engine.lmcache
    return {
        "name": "lmcache",
        "image": engine.image,
        "restartPolicy": "Always",
        "command": [*_after_a_pause(plan.restart_pause_seconds), "lmcache", "server"],
        "args": server_args(engine, l2),
        "env": [
            field_env("POD_NAME", "metadata.name"),
            *(() if l2 is None else l2.env),
            *plain_env(
                {
                    **SHARED_ENV,
                    **CACHE_MODULE_ENV,
                    # It opens vLLM's KV tensors by CUDA IPC and must see the same GPUs. Requesting
                    # one would claim another GPU; the nvidia runtime reads this instead, and an
                    # init container has proved that it does.
                    **NVIDIA_ENV,
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
        "volumeMounts": [SHM_MOUNT, CACHE_MODULE_MOUNT, *(() if l2 is None else l2.mounts)],
    }


def _after_a_pause(seconds: int) -> list[str]:
    """Program that runs its arguments, after a pause unless it is the pod's first time.

    An engine that has not noticed that its server was away never registers with the new one.
    """
    script = f'mkdir "$0" 2>/dev/null || sleep {seconds}; {_OWN_GPUS}; exec "$@"'
    return ["sh", "-c", script, _STARTED]


def server_args(engine: EnginePlan, l2: Attachment | None) -> list[str]:
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
        f"--l1-size-gb={plan.l1_gib}",
        f"--eviction-policy={plan.l1_eviction_policy}",
        f"--l2-prefetch-policy={plan.prefetch_policy}",
        f"--max-workers={plan.max_workers}",
        # What has pinged and fell silent is dead, and its GPU memory stays mapped until it is
        # forgotten. What never pinged may just be idle: a heartbeat begins with the first chunk,
        # and an engine that was forgotten never registers again.
        f"--worker-reap-timeout-seconds={plan.reap_seconds}",
        f"--worker-registration-grace-seconds={plan.idle_seconds}",
        cache_module_arg(None if l2 is None else l2.adapter, renew_seconds=plan.renew_seconds),
        # Neither hostIPC nor a common user id is needed then; vLLM's connector says the same.
        "--isolated-ipc",
    ]
    if l2 is not None:
        args.append(f"--l2-adapter={adapter_json(l2.adapter)}")
    return args
