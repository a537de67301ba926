"""LMCache's own server parts with our module, as rendered, in front of spoilt blocks.

Runs in the engine environment, like engine_checks:

    .venv-engine/bin/python -m tests.contract.cache_checks < job.json > results.json

A job is {"argv": [...] of the rendered server, "module": folder of the module's files}.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.contract.managed_checks import CHUNK_BYTES, CHUNKS, Replica

Document = dict[str, Any]
KEYS: Final = (bytes(range(32)), bytes(range(1, 33)))
DAY: Final = 86_400.0


@dataclass(frozen=True)
class Given:
    """What the rendered arguments come to."""

    server: Any
    storage: Any


def given(argv: list[str], directory: Path, key: Path) -> Given:
    """Parse a server's arguments with a folder, a key and a small L1 put in."""
    from lmcache.cli.commands.server import ServerCommand
    from lmcache.v1.distributed.config import parse_args_to_config
    from lmcache.v1.multiprocess.config import parse_args_to_mp_server_config

    from tests.contract.engine_checks import ServerParser

    words = []
    for word in argv:
        flag, _, value = word.partition("=")
        if flag == "--l2-adapter":
            adapter = json.loads(value)
            adapter["base_path"] = str(directory)
            adapter["serde"]["master_key_path"] = str(key)
            value = json.dumps(adapter)
        if flag == "--server-module":
            module = json.loads(value)
            module["config"]["directory"] = str(directory)
            value = json.dumps(module)
        if flag == "--l1-size-gb":
            value = "0.1"
        words.append(f"{flag}={value}" if value else flag)
    parser = ServerParser()
    ServerCommand().add_arguments(parser)
    arguments = parser.parse_args(words)
    return Given(parse_args_to_mp_server_config(arguments), parse_args_to_config(arguments))


def with_module(parsed: Given, replica: Replica) -> Any:
    """Load our module as the server does."""
    from lmcache.v1.multiprocess.ext_server_module import load_server_module_components

    storage = SimpleNamespace(l2_adapters=lambda: [(None, replica.adapter)])
    loaded = load_server_module_components(
        parsed.server.server_modules,
        server_context=SimpleNamespace(storage_manager=storage),
        mp_config=parsed.server,
        coordinator_config=None,
        built_modules=[_transfer()],
    )
    (module,) = loaded.modules
    return module


def _transfer() -> Any:
    from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenTransferModule

    registry = SimpleNamespace(unregister=lambda *_: None)
    return EngineDrivenTransferModule(
        SimpleNamespace(shm_pool_info={}, layout_desc_registry=registry)
    )


def keys_of(number: int) -> list[Any]:
    """Names of some chunks."""
    from lmcache.v1.distributed.api import ObjectKey

    return [
        ObjectKey(chunk_hash=bytes([number, n]) * 16, model_name="a/b", kv_rank=0x01000100)
        for n in range(CHUNKS)
    ]


@contextlib.contextmanager
def replica_with(job: Document, scratch: Path, key: bytes, *, module: bool) -> Iterator[Document]:
    """One server's storage on the shared folder."""
    file = scratch / f"key-{key[0]}"
    file.write_bytes(key)
    parsed = given(job["argv"], scratch / "kv", file)
    replica = Replica(parsed.storage)
    try:
        yield {
            "replica": replica,
            "module": with_module(parsed, replica) if module else None,
        }
    finally:
        replica.close()


def spoilt(job: Document, *, kind: str, module: bool) -> Document:
    """Store, spoil, load, store again, load again."""
    contents = [bytes([n + 1]) * CHUNK_BYTES for n in range(CHUNKS)]
    keys = keys_of(1)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "kv").mkdir()
        with replica_with(job, scratch, KEYS[kind == "foreign key"], module=module) as writer:
            writer["replica"].store(keys, contents)
        files = sorted((scratch / "kv").glob("*.data"))
        size = files[0].stat().st_size
        for file in files:
            os.utime(file, (1, 1))
        if kind == "random bytes":
            for file in files:
                file.write_bytes(os.urandom(size))
        if kind == "one flipped bit":
            raw = bytearray(files[2].read_bytes())
            raw[len(raw) // 2] ^= 1
            files[2].write_bytes(raw)
        with replica_with(job, scratch, KEYS[kind == "new key"], module=module) as reader:
            replica = reader["replica"]
            found, first, _ = replica.load(keys)
            left = len(list((scratch / "kv").glob("*.data")))
            time.sleep(0.5)
            ages = [file.stat().st_mtime for file in (scratch / "kv").glob("*.data")]
            stored = replica.store(keys, contents)
            _, again, read = replica.load(keys)
            status = reader["module"].report_status() if module else {}
        return {
            "found": found,
            "first": first,
            "left": left,
            "renewed": sum(age > DAY for age in ages),
            "stored": stored,
            "again": again,
            "right": read == contents,
            "object_bytes": size,
            "status": status,
        }


def reaped(job: Document) -> Document:
    """Who is forgotten after which silence."""
    from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenContextEntry

    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        key.write_bytes(KEYS[0])
        server = given(job["argv"], Path(folder), key).server
    silences = {
        "idle for a day": (DAY, False),
        "idle for a year": (365 * DAY, False),
        "asked ten seconds ago": (10, True),
        "asked, then silent for an hour": (3600, True),
    }
    result = {}
    for name, (silent, pinged) in silences.items():
        transfer = _transfer()
        transfer._engine_driven_contexts[1] = EngineDrivenContextEntry(
            metadata=None,
            model_name="m",
            world_size=1,
            last_seen=time.monotonic() - silent,
            has_liveness_signal=pinged,
        )
        transfer.reap_stale_instances(
            server.worker_reap_timeout_seconds, server.worker_registration_grace_seconds
        )
        result[name] = transfer.tracked_instance_count() == 1
    return result


def main() -> None:
    """Do all of it."""
    job = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        shutil.copytree(job["module"], Path(folder, "kascade_cache"))
        sys.path.insert(0, folder)
        kinds = ("nothing", "random bytes", "one flipped bit", "new key", "foreign key")
        results = {
            "with": {kind: spoilt(job, kind=kind, module=True) for kind in kinds},
            "without": {kind: spoilt(job, kind=kind, module=False) for kind in kinds[1:]},
            "registered": reaped(job),
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
