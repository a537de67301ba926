"""Hands rendered arguments to vLLM's and LMCache's own parsers and prints what they made of them.

Runs in the engine environment (`make engine-env`), which holds those two and nothing of ours:

    .venv-engine/bin/python -m tests.contract.engine_checks < job.json > results.json

A job maps names to arguments: {"vllm": {NAME: {"argv": [...], "shape": {...}}}, "lmcache": {NAME:
[...]}}. Without a shape the folder of the model is not there. A result is {"rejected": "why"} or
what was understood. No engine is started, and no GPU, weights or network are used.
"""

import argparse
import contextlib
import enum
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from tools.local.model import write_model

os.environ |= {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LMCACHE_DISABLE_BANNER": "1",
    "LMCACHE_LOG_LEVEL": "CRITICAL",
    "LMCACHE_TRACK_USAGE": "false",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}

Document = dict[str, Any]


class RefusedError(Exception):
    """A parser said no, in these words."""


# --- vLLM ---------------------------------------------------------------------------------------


def vllm_checker() -> Callable[[Document], Document]:
    """Import vLLM once and return the check of one engine's arguments.

    The model lies below the working directory in a folder of its own name, as mounted weights do.
    """
    from lmcache.integration.vllm import lmcache_mp_connector as connector
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise RefusedError(message)

    known_extra = connector_keys()

    def check(job: Document) -> Document:
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            parsed = make_arg_parser(Parser()).parse_args(job["argv"])
            asked = parsed.model_tag or parsed.model
            if job["shape"] is not None:
                write_model(Path(scratch, asked), job["shape"])
            parsed.model = parsed.model_tag
            validate_parsed_serve_args(parsed)
            engine = AsyncEngineArgs.from_cli_args(parsed)
            made = engine.create_engine_config(UsageContext.OPENAI_API_SERVER)
        transfer = made.kv_transfer_config
        extra = dict(transfer.kv_connector_extra_config) if transfer else {}
        model, parallel = made.model_config, made.parallel_config
        return {
            "model": model.model,
            "cached_as": connector.get_dcp_decorated_model_name(made),
            "parallel": {
                "world_size": parallel.world_size,
                "attention_heads": model.get_num_attention_heads(parallel),
                "kv_heads": model.get_num_kv_heads(parallel),
                "head_size": model.get_head_size(),
                "layers": model.get_num_layers(parallel),
            },
            "kv_ranks": kv_ranks(made),
            "served_names": parsed.served_model_name,
            "port": parsed.port,
            "tensor_parallel_size": made.parallel_config.tensor_parallel_size,
            "block_size": made.cache_config.block_size,
            "cache_dtype": made.cache_config.cache_dtype,
            "dtype": str(made.model_config.dtype).removeprefix("torch."),
            "max_model_len": made.model_config.max_model_len,
            "prefix_caching": made.cache_config.enable_prefix_caching,
            "prefix_hash": made.cache_config.prefix_caching_hash_algo,
            "gpu_memory_utilization": made.cache_config.gpu_memory_utilization,
            "connector": transfer.kv_connector if transfer else None,
            "load_failure_policy": transfer.kv_load_failure_policy if transfer else None,
            "connector_config": extra,
            "unknown_connector_keys": sorted(set(extra) - known_extra),
        }

    return check


def kv_ranks(config: Any) -> list[int]:
    """Return the ranks that stand in the file names of one chunk's pieces, one for each GPU."""
    from lmcache.integration.vllm import lmcache_mp_connector as connector
    from lmcache.v1.distributed.api import ObjectKey

    world = connector.build_parallel_strategy_from_vllm_config(config, n_servers=1).kv_world_size
    return [ObjectKey.ComputeKVRank(world, rank, world, rank) for rank in range(world)]


def connector_keys() -> set[str]:
    """Return every `lmcache.mp.*` key the connector reads; it ignores others silently."""
    import lmcache.integration.vllm as package
    from lmcache.integration.vllm import vllm_multi_process_adapter as adapter

    keys = {f"lmcache.mp.{member.name}" for member in adapter.ExtraConfigDefault}
    for source in Path(next(iter(package.__path__))).rglob("*.py"):
        keys.update(re.findall(r"\"(lmcache\.mp\.[a-z_.]*[a-z])\"", source.read_text()))
    return keys


# --- LMCache's server -----------------------------------------------------------------------------


class Watched(dict[str, Any]):
    """A mapping that remembers which of its keys were asked for."""

    def __init__(self, content: Document) -> None:
        super().__init__(content)
        self.seen: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def ignored(self, prefix: str) -> Iterator[str]:
        """Yield the keys nobody asked for."""
        for key in sorted(set(self) - self.seen):
            yield f"{prefix}{key}"


class ServerParser(argparse.ArgumentParser):
    """A parser that raises instead of leaving, and takes no abbreviations."""

    def __init__(self) -> None:
        super().__init__(allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise RefusedError(message)


def lmcache_checker() -> Callable[[list[str]], Document]:
    """Import LMCache once and return the check of one server's arguments."""
    from lmcache.cli.commands.server import ServerCommand
    from lmcache.v1.distributed.config import parse_args_to_config
    from lmcache.v1.mp_observability.config import parse_args_to_observability_config
    from lmcache.v1.multiprocess.config import (
        parse_args_to_coordinator_config,
        parse_args_to_http_frontend_config,
        parse_args_to_mp_server_config,
    )

    def check(argv: list[str]) -> Document:
        parser = ServerParser()
        ServerCommand().add_arguments(parser)
        parsed = parser.parse_args(argv)
        storage = parse_args_to_config(parsed)
        server = parse_args_to_mp_server_config(parsed)
        http = parse_args_to_http_frontend_config(parsed)
        parse_args_to_observability_config(parsed)
        parse_args_to_coordinator_config(parsed)
        flag = "--l2-adapter="
        specs = [word.removeprefix(flag) for word in argv if word.startswith(flag)]
        return {
            "port": server.port,
            "http_host": http.http_host,
            "http_port": http.http_port,
            "chunk_size": server.chunk_size,
            "hash_algorithm": server.hash_algorithm,
            "l1_size_gb": parsed.l1_size_gb,
            "prefetch_policy": parsed.l2_prefetch_policy,
            "adapters": [
                {
                    "type": spec["type"],
                    # Those that a type lacks are None.
                    **{
                        name: getattr(made, name, None)
                        for name in (
                            "base_path",
                            "relative_tmp_dir",
                            "max_capacity_gb",
                            "url",
                            "bucket",
                            "shared_memory_name",
                        )
                    },
                    "shared": made.shared,
                    "eviction": made.eviction_config is not None,
                    "serde": made.serde_config.type if made.serde_config else None,
                    "ignored_keys": ignored_keys(type(made), spec),
                }
                for spec, made in zip(
                    map(json.loads, specs), storage.l2_adapter_config.adapters, strict=True
                )
            ],
        }

    return check


def ignored_keys(adapter: Any, spec: Document) -> list[str]:
    """Return the keys of an adapter's JSON that LMCache never looks at; it rejects none of them."""
    from lmcache.v1.distributed.serde import factory

    nested = {name: Watched(spec[name]) for name in ("eviction", "serde") if name in spec}
    outer = Watched(spec | nested)
    adapter.from_dict(outer)
    for parse in ("_parse_eviction_config", "_parse_persist_config", "_parse_serde_config"):
        getattr(adapter, parse)(outer)
    ignored = list(Watched.ignored(outer, ""))
    if "eviction" in nested:
        ignored += nested["eviction"].ignored("eviction.")
    if "serde" in nested:
        with tempfile.NamedTemporaryFile() as key:
            key.write(bytes(range(32)))
            key.flush()
            serde = Watched(spec["serde"] | {"master_key_path": key.name})
            serde.get("type")
            config = type("Config", (), {"type": spec["serde"]["type"], "kwargs": serde})
            factory.create_serde_processor(config)
        ignored += serde.ignored("serde.")
    return [key for key in ignored if key not in {"type", "shared", "affinity_tag"}]


# --- One process for all --------------------------------------------------------------------------


def attempt(check: Callable[[Any], Document], job: Any) -> Document:
    """Return what the check understood, or why it was rejected."""
    try:
        return check(job)
    except (Exception, SystemExit) as error:
        return {"rejected": f"{type(error).__name__}: {error}"}


def plain(value: object) -> object:
    """Write what JSON has no form for."""
    return value.value if isinstance(value, enum.Enum) else str(value)


def main() -> None:
    """Read the job, print the results and nothing else."""
    job = json.load(sys.stdin)
    noise = io.StringIO()
    with contextlib.redirect_stdout(noise):
        vllm, lmcache = vllm_checker(), lmcache_checker()
        results = {
            "vllm": {name: attempt(vllm, entry) for name, entry in job["vllm"].items()},
            "lmcache": {name: attempt(lmcache, argv) for name, argv in job["lmcache"].items()},
        }
    print(json.dumps(results, default=plain, indent=1))


if __name__ == "__main__":
    main()
