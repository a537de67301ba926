"""LMCache's own adapter for HyperPod's tiered storage against a stand-in for the daemon.

Runs in the engine environment, like engine_checks:

    .venv-engine/bin/python -m tests.contract.managed_checks < jobs.json > results.json

Jobs are a list of {"argv": [...] of the rendered server, "encrypted": bool, "pinned": bool}; a
pinned file is one that the container mounted by itself, so that it stays when the daemon makes it
anew. The daemon is played by an HTTP server and a file, as LMCache's client understands them;
HyperPod's own cannot be had.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

os.environ |= {
    "LMCACHE_DISABLE_BANNER": "1",
    "LMCACHE_LOG_LEVEL": "CRITICAL",
    "LMCACHE_TRACK_USAGE": "false",
}

Document = dict[str, Any]
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where LMCache looks
SEGMENT_BYTES: Final = 8 << 20
CHUNK_BYTES: Final = 256 << 10
CHUNKS: Final = 5
_SECONDS: Final = 20


class Daemon(ThreadingHTTPServer):
    """Keeps objects in one file, and lends places in it."""

    daemon_threads = True

    def __init__(self, segment: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.segment = segment
        self.places: dict[str, tuple[int, int]] = {}
        self.leases: set[str] = set()
        self.numbers = itertools.count()
        self.end = 0
        self.lock = threading.Lock()
        segment.write_bytes(bytes(SEGMENT_BYTES))

    @property
    def port(self) -> int:
        """Where it answers."""
        return int(self.server_address[1])

    def restart(self, segment: Path) -> None:
        """Forget everything and begin a new file."""
        segment.unlink(missing_ok=True)
        segment.write_bytes(bytes(SEGMENT_BYTES))
        self.segment, self.end = segment, 0
        self.places.clear()

    def put(self, key: str, data: bytes) -> int:
        """Keep an object, unless it is there."""
        with self.lock:
            if key in self.places:
                return 409
            self.places[key] = (self.end, len(data))
            with self.segment.open("r+b") as file:
                file.seek(self.end)
                file.write(data)
            self.end += len(data)
            return 200

    def lease(self, key: str) -> tuple[int, Document]:
        """Lend an object's place, in two fragments as the daemon may."""
        with self.lock:
            if key not in self.places:
                return 504, {}
            offset, length = self.places[key]
            half = length // 2
            name = f"lease-{next(self.numbers)}"
            self.leases.add(name)
            parts = ((offset, half), (offset + half, length - half))
            return 200, {
                "id": name,
                "offsets": [{"offset": start, "len": size} for start, size in parts],
            }


class _Handler(BaseHTTPRequestHandler):
    server: Daemon
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Take an object."""
        length = int(self.headers["Content-Length"])
        _, _, _, bucket, key = urllib.parse.urlsplit(self.path).path.split("/")
        self._answer(self.server.put(f"{bucket}/{key}", self.rfile.read(length)), {})

    def do_POST(self) -> None:
        """Lend, or take back."""
        words = urllib.parse.urlsplit(self.path).path.split("/")
        if words[-1] == "leases":
            self._answer(*self.server.lease(f"{words[3]}/{words[4]}"))
        else:
            self.server.leases.discard(words[3])
            self._answer(200, {})

    def _answer(self, status: int, body: Document) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Replica:
    """One LMCache server's L1 and its way to L2, put together as its storage manager does."""

    def __init__(self, storage: Any) -> None:
        from lmcache.v1.distributed.l1_manager import L1Manager
        from lmcache.v1.distributed.l2_adapters import create_l2_adapter
        from lmcache.v1.distributed.l2_adapters.serde_wrapper import SerdeL2AdapterWrapper
        from lmcache.v1.distributed.serde import create_serde_processor

        (config,) = storage.l2_adapter_config.adapters
        self.l1 = L1Manager(storage.l1_manager_config)
        self.adapter = create_l2_adapter(config, self.l1.get_l1_memory_desc())
        if config.serde_config is not None:
            self.adapter = SerdeL2AdapterWrapper(
                inner=self.adapter,
                serde=create_serde_processor(config.serde_config),
                l1_manager=self.l1,
            )

    def objects(self, keys: list[Any]) -> list[Any]:
        """Reserve memory for some chunks."""
        import torch
        from lmcache.v1.distributed.api import MemoryLayoutDesc

        layout = MemoryLayoutDesc(shapes=[torch.Size([CHUNK_BYTES])], dtypes=[torch.uint8])
        found = self.l1.reserve_write(keys, [True] * len(keys), layout)
        return [found[key][1] for key in keys]

    def store(self, keys: list[Any], contents: list[bytes]) -> bool:
        """Put chunks into L2."""
        objects = self.objects(keys)
        for item, content in zip(objects, contents, strict=True):
            memoryview(item.byte_array).cast("B")[:] = content
        task = self.adapter.submit_store_task(keys, objects)
        done = _wait(lambda: self.adapter.pop_completed_store_tasks().get(task))
        self.l1.finish_write_and_delete(keys)
        return bool(done.is_successful())

    def load(self, keys: list[Any]) -> tuple[list[bool], list[bool], list[bytes]]:
        """Look chunks up and load them; what was found, what was loaded, and the bytes."""
        looked = self.adapter.submit_lookup_and_lock_task(keys, {})
        found = _wait(lambda: self.adapter.query_lookup_and_lock_result(looked))
        objects = self.objects(keys)
        task = self.adapter.submit_load_task(keys, objects)
        loaded = _wait(lambda: self.adapter.query_load_result(task))
        contents = [bytes(item.byte_array) for item in objects]
        self.adapter.submit_unlock(keys)
        self.l1.finish_write_and_delete(keys)
        places = range(len(keys))
        return [found.test(i) for i in places], [loaded.test(i) for i in places], contents

    def close(self) -> None:
        """Give everything back."""
        self.adapter.close()
        self.l1.close()


def _wait(ask: Any) -> Any:
    deadline = time.monotonic() + _SECONDS
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            msg = "the adapter did not answer"
            raise TimeoutError(msg)
        time.sleep(0.01)
    return answer


def storage_of(job: Document, daemon: Daemon, key: Path, link: Path) -> Any:
    """Parse a server's arguments with the daemon's place and a small L1 put in."""
    from lmcache.cli.commands.server import ServerCommand
    from lmcache.v1.distributed.config import parse_args_to_config

    from tests.contract.engine_checks import ServerParser

    words = []
    for word in job["argv"]:
        flag, _, value = word.partition("=")
        if flag == "--l2-adapter":
            adapter = json.loads(value)
            adapter["url"] = f"sagemaker-hyperpod://127.0.0.1:{daemon.port}"
            adapter["shared_memory_name"] = link.name
            adapter["serde"]["master_key_path"] = str(key)
            if not job["encrypted"]:
                del adapter["serde"]
            value = json.dumps(adapter)
        if flag == "--l1-size-gb":
            value = "0.1"
        words.append(f"{flag}={value}" if value else flag)
    parser = ServerParser()
    ServerCommand().add_arguments(parser)
    return parse_args_to_config(parser.parse_args(words))


@contextlib.contextmanager
def two_replicas(job: Document, scratch: str) -> Iterator[tuple[Daemon, Replica, Replica]]:
    """Start a daemon with two replicas beside it."""
    with contextlib.ExitStack() as stack:
        key = Path(scratch, "key")
        key.write_bytes(bytes(range(32)))
        # As in the pod: a link in its own shared memory to the file of the host. Pinned: the file.
        link = SHARED_MEMORY / f"kascade-check-{os.getpid()}"
        stack.callback(link.unlink, missing_ok=True)
        segment = link if job["pinned"] else Path(scratch, "segment")
        if not job["pinned"]:
            link.symlink_to(segment)
        daemon = Daemon(segment)
        stack.callback(daemon.server_close)
        thread = threading.Thread(target=daemon.serve_forever, daemon=True)
        thread.start()
        stack.callback(daemon.shutdown)
        storage = storage_of(job, daemon, key, link)
        writer, reader = Replica(storage), Replica(storage)
        stack.callback(writer.close)
        stack.callback(reader.close)
        yield daemon, writer, reader


def check(job: Document) -> Document:
    """Store with one replica, load with the other, and once more after the daemon restarted."""
    from lmcache.v1.distributed.api import ObjectKey

    def keys(salt: int) -> list[Any]:
        return [
            ObjectKey(chunk_hash=bytes([salt, n]) * 16, model_name="a/b", kv_rank=0x01000100)
            for n in range(CHUNKS)
        ]

    contents = [bytes([n + 1]) * CHUNK_BYTES for n in range(CHUNKS)]
    with (
        tempfile.TemporaryDirectory() as scratch,
        two_replicas(job, scratch) as (daemon, writer, reader),
    ):
        unknown, _, _ = reader.load(keys(9))
        stored = writer.store(keys(1), contents)
        found, loaded, read = reader.load(keys(1))
        buckets = {key.partition("/")[0] for key in daemon.places}
        plain = contents[0] in daemon.segment.read_bytes()
        deadline = time.monotonic() + _SECONDS
        while daemon.leases and time.monotonic() < deadline:
            time.sleep(0.05)
        left = len(daemon.leases)
        # Other chunks at the same places of a new file.
        name = "another" if job["pinned"] else "segment"
        daemon.restart(Path(scratch, name))
        other = [bytes([n + 100]) * CHUNK_BYTES for n in range(CHUNKS)]
        writer.store(keys(2), other)
        refound, reloaded, reread = reader.load(keys(2))
    return {
        "unknown": unknown,
        "stored": stored,
        "found": found,
        "loaded": loaded,
        "right": read == contents,
        "plain": plain,
        "buckets": sorted(buckets),
        "leases_left": left,
        "after_restart": {
            "found": refound,
            "loaded": reloaded,
            "right": [a == b for a, b in zip(reread, other, strict=True)],
        },
    }


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        results = [check(job) for job in json.load(sys.stdin)]
    print(json.dumps(results))
