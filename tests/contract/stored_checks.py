"""Asks LMCache's own code how many bytes it stores for a chunk, over all GPUs of a replica.

Runs in the engine environment (`make engine-env`), which holds nothing of ours:

    .venv-engine/bin/python -m tests.contract.stored_checks < job.json > results.json

A job is {"stored": {...}, "gpus": {NAME: MiB}}. `stored` maps names to {"shape": fields of a
config.json, "tp": GPUs, "kv_cache_dtype": "auto" or "fp8", "chunk": tokens}; the answer is how many
of vLLM's workers write, and how large the object is that one of them writes. Of a GPU the answer is
vLLM's own tokens of a pass and requests of a batch. vLLM's own configuration says whether a model
is MLA and how its heads are divided; no engine is started, and no GPU or weights are used.
"""

import contextlib
import io
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.contract import engine_checks as _quiet  # noqa: F401 - its environment
from tools.local.model import write_model

_BLOCK = 16
_BLOCKS = 3
"""Not 2, which LMCache would take for keys and values."""


def stored(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the workers that write, the size of an object, and the bytes of a token."""
    from lmcache.integration.vllm import lmcache_mp_connector as connector
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    write_model(folder, job["shape"])
    config = AsyncEngineArgs(
        model=str(folder),
        tensor_parallel_size=job["tp"],
        kv_cache_dtype=job["kv_cache_dtype"],
        block_size=_BLOCK,
    ).create_engine_config(UsageContext.OPENAI_API_SERVER)
    of_one = connector.build_parallel_strategy_from_vllm_config(config, n_servers=1)
    workers = [replace(of_one, vllm_worker_id=rank) for rank in range(job["tp"])]
    writers = {worker.kv_worker_id for worker in workers if worker.is_kv_writer}
    assert len(writers) == of_one.kv_world_size
    size = object_bytes(config, chunk=job["chunk"])
    return {
        "mla": of_one.mla_only,
        "writers": len(writers),
        "object_bytes": size,
        "bytes_per_token": len(writers) * size / job["chunk"],
    }


def object_bytes(config: Any, *, chunk: int) -> int:
    """Return the size of what one worker stores of a chunk, by LMCache's reading of its tensors."""
    import torch
    from lmcache.v1.distributed.api import MemoryLayoutDesc
    from lmcache.v1.distributed.serde import aesgcm
    from lmcache.v1.multiprocess.transfer_context.base import compute_kv_layout
    from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype

    model, parallel = config.model_config, config.parallel_config
    dtype = kv_cache_dtype_str_to_dtype(config.cache_config.cache_dtype, model)
    heads, width = model.get_num_kv_heads(parallel), model.get_head_size()
    shape = (_BLOCKS, _BLOCK, width) if model.use_mla else (_BLOCKS, 2, _BLOCK, heads, width)
    tensors = {
        f"layers.{index}": torch.zeros(shape, dtype=dtype)
        for index in range(model.get_num_layers(parallel))
    }
    _, layers, hidden, name, _, planes = compute_kv_layout(tensors, {"kv_layout": "NHD"})
    made = torch.Size([planes, layers, chunk, hidden])
    layout = MemoryLayoutDesc(shapes=[made], dtypes=[getattr(torch, name)])
    return int(aesgcm._plaintext_bytes(layout))


def batch_defaults(name: str, mib: int) -> list[int]:
    """Return vLLM's tokens and requests for its API server on a GPU of that name and memory."""
    from unittest.mock import Mock, patch

    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    platform = Mock()
    platform.get_device_total_memory.return_value = mib * 1024**2
    platform.get_device_name.return_value = f"NVIDIA {name}"
    platform.is_tpu.return_value = platform.is_cpu.return_value = False
    with patch("vllm.engine.arg_utils.current_platform", platform):
        found = EngineArgs.get_batch_defaults(1)
    return [by_use[UsageContext.OPENAI_API_SERVER] for by_use in found]


def main() -> None:
    """Read the job, print the results and nothing else."""
    job = json.load(sys.stdin)
    results: dict[str, Any] = {"stored": {}, "gpus": {}}
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as scratch:
        for number, (name, one) in enumerate(job["stored"].items()):
            results["stored"][name] = stored(one, Path(scratch, str(number)))
        for name, mib in job["gpus"].items():
            results["gpus"][name] = batch_defaults(name, mib)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
