"""The vLLM container: tier L0 and the OpenAI-compatible API.

Flags are those of vLLM 0.32.0; its parser rejects unknown ones and unknown fields of the transfer
configuration, but no unknown ``lmcache.mp.*`` key.
"""

from __future__ import annotations

import json
from typing import Final

from kascade.kube._labels import GPU_RESOURCE, VLLM_PORT
from kascade.kube._objects import Fields
from kascade.kube._pods import NO_PRIVILEGES, SHM_MOUNT, http_probe, plain_env, resources
from kascade.kube.engine_program import HEALTH_ARG, PROGRAM_MOUNT, health_env, pre_stop
from kascade.kube.limits import limits_args, limits_env
from kascade.kube.lmcache import SHARED_ENV
from kascade.kube.tenancy import TENANCY_MOUNT, tenancy_args, tenancy_env
from kascade.kube.weights import token_env, weights_env, weights_mount, working_directory
from kascade.plan import EnginePlan

_STARTUP_PERIOD: Final = 10

_END_SECONDS: Final = 10
"""For a process that has stopped answering."""


def engine_container(engine: EnginePlan) -> Fields:
    """The container that serves requests.

    Probes ask ``/health``, which looks at the engine's core and never at the cache's mount: a slow
    cache must not restart a GPU process that takes minutes to load.
    """
    tenancy = engine.tenancy
    return {
        "name": "vllm",
        "image": engine.image,
        "command": ["vllm", "serve"],
        "args": serve_args(engine),
        "env": [*plain_env(limits_env(engine)), *engine_env(engine)],
        **working_directory(engine),
        # API and metrics share one port.
        "ports": [{"name": VLLM_PORT, "containerPort": engine.port}],
        **probes(engine, VLLM_PORT),
        # The router drops a terminating pod at once; what it sent before may end.
        "lifecycle": {"preStop": pre_stop(engine)},
        "resources": resources(engine.size, {GPU_RESOURCE: engine.gpus}),
        # The image has no user but root; its caches make a read-only root impractical.
        "securityContext": NO_PRIVILEGES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            SHM_MOUNT,
            weights_mount(engine),
            PROGRAM_MOUNT,
            *([TENANCY_MOUNT] if tenancy is not None else []),
        ],
    }


def engine_env(engine: EnginePlan) -> list[Fields]:
    """Environment of vLLM."""
    return [
        *plain_env({**SHARED_ENV, **weights_env(engine), **health_env(engine)}),
        *token_env(engine),
        *(tenancy_env(engine.tenancy) if engine.tenancy is not None else []),
    ]


def probes(engine: EnginePlan, port: str) -> Fields:
    """The three probes of vLLM on the container port of that name."""
    return {
        "startupProbe": http_probe(
            "/health",
            port,
            period=_STARTUP_PERIOD,
            failures=-(-engine.load_timeout_seconds // _STARTUP_PERIOD),
            ends_within=_END_SECONDS,
        ),
        "readinessProbe": http_probe("/health", port, period=5, failures=2),
        # Half a minute without an answer: requests that it has taken wait for its end before the
        # router can send them elsewhere.
        "livenessProbe": http_probe(
            "/health", port, period=5, failures=6, ends_within=_END_SECONDS
        ),
    }


def serve_args(engine: EnginePlan) -> list[str]:
    """Arguments of ``vllm serve``.

    The last middleware is the outermost: the one of tenancy is around that of limits, and the
    one of health, which answers nothing but ``/health``, around both.
    """
    tenancy = tenancy_args() if engine.tenancy is not None else []
    return [
        *model_args(engine),
        *limits_args(engine),
        *tenancy,
        HEALTH_ARG,
        transfer_arg(engine),
    ]


def model_args(engine: EnginePlan) -> list[str]:
    """Arguments of ``vllm serve`` but the one that reaches for an LMCache server."""
    args = [
        # Part of every cache key, so it must be the same text in all replicas.
        engine.model,
        f"--served-model-name={engine.served_name}",
        "--host=0.0.0.0",
        f"--port={engine.port}",
        f"--tensor-parallel-size={engine.gpus}",
        f"--dtype={engine.dtype}",
        f"--kv-cache-dtype={engine.kv_cache_dtype}",
        f"--max-model-len={engine.max_model_len}",
        f"--max-num-seqs={engine.max_num_seqs}",
        f"--max-num-batched-tokens={engine.max_batched_tokens}",
        f"--gpu-memory-utilization={engine.gpu_memory_utilization}",
        # Explicit, because LMCache's chunk size must be a multiple of it.
        f"--block-size={engine.block_size}",
        # A replica that samples with another seed cannot be compared with its neighbour.
        "--seed=0",
        "--enable-prefix-caching",
        # Reproducible in every process and readable from other languages, unlike the default.
        "--prefix-caching-hash-algo=sha256_cbor",
        # With the default, 0, it aborts at SIGTERM whatever came after the drain's last look.
        f"--shutdown-timeout={engine.shutdown_seconds}",
    ]
    if engine.revision is not None:
        args.append(f"--revision={engine.revision}")
    if engine.quantization is not None:
        args.append(f"--quantization={engine.quantization}")
    return args


TRANSFER_FLAG: Final = "--kv-transfer-config"


def transfer_arg(engine: EnginePlan) -> str:
    """Argument that makes vLLM ask the LMCache server of its pod, and end at start without one."""
    transfer = json.dumps(transfer_config(engine), separators=(",", ":"))
    return f"{TRANSFER_FLAG}={transfer}"


def transfer_config(engine: EnginePlan) -> Fields:
    """How vLLM reaches the LMCache server of its pod."""
    lmcache = engine.lmcache
    return {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": "kv_both",
        # vLLM's default ends the request when a load fails; a cache must never do that.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "lmcache.mp.host": "tcp://127.0.0.1",
            "lmcache.mp.port": lmcache.port,
            "lmcache.mp.mq_timeout": lmcache.mq_timeout_seconds,
            "lmcache.mp.heartbeat_interval": lmcache.heartbeat_seconds,
            "lmcache.mp.hash_algorithm": lmcache.hash_algorithm,
            # Must say the same as the server's flag.
            "lmcache.mp.isolated_ipc": True,
        },
    }
