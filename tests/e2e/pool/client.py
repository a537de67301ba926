"""LMCache's own way to L2, as one server has it, in processes that can be killed.

Runs in the engine environment:

    python -m tests.e2e.pool.client SOCKET

Each connection to the socket is a process of its own, forked once LMCache is imported, which takes
longer than everything else. Its first line is {"argv": [...], "base_path": ..., "pod": ..., "key":
..., "chunk_bytes": ...}, where ``argv`` are the rendered arguments of a server; the answer has the
process' id. Then come orders: {"do": "store" or "load", "salt": a number that makes other chunks,
"count": of chunks}. Contents are made of salt and number, so that
what comes back is right or wrong.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any, Final

os.environ |= {
    "LMCACHE_DISABLE_BANNER": "1",
    "LMCACHE_LOG_LEVEL": "CRITICAL",
    "LMCACHE_TRACK_USAGE": "false",
}

Document = dict[str, Any]
_SECONDS: Final = 120


class Client:
    """One server's L1 and its way to L2, put together as its storage manager does."""

    def __init__(self, job: Document) -> None:
        from lmcache.v1.distributed.l1_manager import L1Manager
        from lmcache.v1.distributed.l2_adapters import create_l2_adapter
        from lmcache.v1.distributed.l2_adapters.serde_wrapper import SerdeL2AdapterWrapper
        from lmcache.v1.distributed.serde import create_serde_processor

        storage = _storage(job)
        self._size = int(job["chunk_bytes"])
        (config,) = storage.l2_adapter_config.adapters
        self.l1 = L1Manager(storage.l1_manager_config)
        self.adapter = create_l2_adapter(config, self.l1.get_l1_memory_desc())
        if config.serde_config is not None:
            self.adapter = SerdeL2AdapterWrapper(
                inner=self.adapter,
                serde=create_serde_processor(config.serde_config),
                l1_manager=self.l1,
            )

    def do(self, order: Document) -> Document:
        """Follow one order."""
        keys = _keys(order["salt"], order["count"])
        begun = time.monotonic()
        done = self._store(order, keys) if order["do"] == "store" else self._load(order, keys)
        return done | {"seconds": time.monotonic() - begun}

    def _content(self, salt: int, number: int) -> bytes:
        return bytes([salt % 256, number % 256, 7, 11]) * (self._size // 4)

    def _objects(self, keys: list[Any]) -> list[Any]:
        import torch
        from lmcache.v1.distributed.api import MemoryLayoutDesc

        layout = MemoryLayoutDesc(shapes=[torch.Size([self._size])], dtypes=[torch.uint8])
        found = self.l1.reserve_write(keys, [True] * len(keys), layout)
        return [found[key][1] for key in keys]

    def _store(self, order: Document, keys: list[Any]) -> Document:
        objects = self._objects(keys)
        for number, item in enumerate(objects):
            memoryview(item.byte_array).cast("B")[:] = self._content(order["salt"], number)
        task = self.adapter.submit_store_task(keys, objects)
        done = _wait(lambda: self.adapter.pop_completed_store_tasks().get(task))
        self.l1.finish_write_and_delete(keys)
        return {"stored": bool(done.is_successful())}

    def _load(self, order: Document, keys: list[Any]) -> Document:
        looked = self.adapter.submit_lookup_and_lock_task(keys, {})
        found = _wait(lambda: self.adapter.query_lookup_and_lock_result(looked))
        known = [key for number, key in enumerate(keys) if found.test(number)]
        loaded = right = 0
        if known:
            objects = self._objects(known)
            task = self.adapter.submit_load_task(known, objects)
            result = _wait(lambda: self.adapter.query_load_result(task))
            numbers = [number for number in range(len(keys)) if found.test(number)]
            for place, (number, item) in enumerate(zip(numbers, objects, strict=True)):
                if result.test(place):
                    loaded += 1
                    right += bytes(item.byte_array) == self._content(order["salt"], number)
            self.l1.finish_write_and_delete(known)
        self.adapter.submit_unlock(keys)
        return {"found": len(known), "loaded": loaded, "right": right}


def _keys(salt: int, count: int) -> list[Any]:
    from lmcache.v1.distributed.api import ObjectKey

    return [
        ObjectKey(
            chunk_hash=salt.to_bytes(16, "big") + number.to_bytes(16, "big"),
            model_name="a/b",
            kv_rank=0x01000100,
        )
        for number in range(count)
    ]


def _storage(job: Document) -> Any:
    """Parse a server's arguments, with a small L1 and the places of this test put in."""
    from lmcache.cli.commands.server import ServerCommand
    from lmcache.v1.distributed.config import parse_args_to_config

    from tests.contract.engine_checks import ServerParser

    words = []
    for word in job["argv"]:
        flag, _, value = word.partition("=")
        if flag == "--l2-adapter":
            adapter = json.loads(value)
            adapter["base_path"] = job["base_path"]
            adapter["relative_tmp_dir"] = f".tmp-{job['pod']}"
            adapter["serde"]["master_key_path"] = job["key"]
            adapter["num_workers"] = job.get("workers", adapter["num_workers"])
            value = json.dumps(adapter)
        if flag == "--l1-size-gb":
            value = "0.6"
        words.append(f"{flag}={value}" if value else flag)
    parser = ServerParser()
    ServerCommand().add_arguments(parser)
    return parse_args_to_config(parser.parse_args(words))


def _wait(ask: Any) -> Any:
    deadline = time.monotonic() + _SECONDS
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            msg = "the adapter did not answer"
            raise TimeoutError(msg)
        time.sleep(0.005)
    return answer


def _serve(connection: socket.socket) -> None:
    """Be one replica until the other side is gone."""
    with connection.makefile("rw") as line:
        client = Client(json.loads(line.readline()))
        print(json.dumps({"pid": os.getpid()}), file=line, flush=True)
        for order in line:
            print(json.dumps(client.do(json.loads(order))), file=line, flush=True)


def main(path: str) -> None:
    """Fork a process for each connection, until killed."""
    import lmcache.cli.commands.server
    import lmcache.v1.distributed.config
    import lmcache.v1.distributed.l2_adapters
    import lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter
    import lmcache.v1.distributed.l2_adapters.serde_wrapper  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                status = 1
                try:
                    listening.close()
                    _serve(connection)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    # Threads of the connector may still wait for a lost node.
                    os._exit(status)
            connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
