"""Two replicas with their caches, played by threads: tokens are characters, tiers are sets.

Requests, pages and counters look like vLLM's and LMCache's. Each tier keeps whole pieces of a
prompt's beginning; time to the first token grows with what has to be computed.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kascade.programs.verify.client import TENANT_HEADER
from kascade.programs.verify.target import Replica, Target

BLOCK, CHUNK = 128, 256
SECONDS_PER_TOKEN = 1e-5
CONFIG = "vllm:cache_config_info"


class FakeReplica:
    def __init__(self, name: str, l2: set[str], *, l0_tokens: int, dev_mode: bool) -> None:
        self.name, self.l2, self.l0_tokens, self.dev_mode = name, l2, l0_tokens, dev_mode
        self.l0: dict[str, None] = {}
        self.l1: set[str] = set()
        self.lock = threading.Lock()
        self.counted = dict.fromkeys(
            ("prompt", "generated", "l0", "external", "hit_l1", "hit_l2", "stored"), 0
        )
        self.fail_from: int | None = None
        self.seen: list[str] = []
        self.tenants: set[str | None] = set()

    def look_up(self, prompt: str) -> int:
        """Count a prompt and return how many tokens are left to compute."""
        blocks = pieces(prompt, BLOCK)
        chunks = pieces(prompt, CHUNK)
        with self.lock:
            self.seen.append(prompt)
            l0 = BLOCK * first_missing(blocks, self.l0)
            l1 = CHUNK * first_missing(chunks, self.l1)
            l2 = CHUNK * first_missing(chunks, self.l1 | self.l2)
            external = max(l2 - l0, 0)
            self.counted["prompt"] += len(prompt)
            self.counted["l0"] += l0
            self.counted["external"] += external
            self.counted["hit_l1"] += l1
            self.counted["hit_l2"] += max(l2 - l1, 0)
            self.counted["stored"] += len(set(chunks) - self.l2)
            for block in pieces(prompt, BLOCK, whole=True):
                self.l0.pop(block, None)
                self.l0[block] = None
            while len(self.l0) * BLOCK > self.l0_tokens:
                self.l0.pop(next(iter(self.l0)))
            self.l1.update(pieces(prompt, CHUNK, whole=True))
            self.l2.update(pieces(prompt, CHUNK, whole=True))
        return len(prompt) - l0 - external

    def vllm_page(self) -> str:
        c, name = self.counted, '{engine="0",model_name="tiny"}'
        blocks = self.l0_tokens // BLOCK
        return (
            f'{CONFIG}{{block_size="{BLOCK}",num_gpu_blocks="{blocks}"}} 1.0\n'
            f"vllm:prompt_tokens_total{name} {float(c['prompt'])}\n"
            f"vllm:generation_tokens_total{name} {float(c['generated'])}\n"
            f"vllm:prefix_cache_hits_total{name} {float(c['l0'])}\n"
            f"vllm:external_prefix_cache_hits_total{name} {float(c['external'])}\n"
        )

    def lmcache_page(self) -> str:
        c, prefix = self.counted, "lmcache_mp"
        return (
            f"{prefix}_lookup_hit_l1_tokens_total {float(c['hit_l1'])}\n"
            f"{prefix}_lookup_hit_l2_tokens_total {float(c['hit_l2'])}\n"
            f"{prefix}_l2_store_submitted_objects_chunks_total {float(c['stored'])}\n"
            f"{prefix}_l2_store_completed_objects_chunks_total {float(c['stored'])}\n"
        )


def pieces(prompt: str, size: int, *, whole: bool = False) -> list[str]:
    """Beginnings of a prompt in steps; without its last token unless ``whole``."""
    end = len(prompt) if whole else len(prompt) - 1
    return [prompt[:stop] for stop in range(size, end + 1, size)]


def first_missing(wanted: list[str], kept: Any) -> int:
    return next((i for i, piece in enumerate(wanted) if piece not in kept), len(wanted))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    replica: FakeReplica

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        models = {"data": [{"id": "tiny", "max_model_len": 8192}]}
        answers = {
            "/health": "",
            "/version": json.dumps({"version": "0.32.0"}),
            "/v1/models": json.dumps(models),
            "/metrics": self.replica.vllm_page(),
            "/lmcache/version": json.dumps({"version": "0.5.6"}),
            "/lmcache/metrics": self.replica.lmcache_page(),
        }
        self.answer(200 if self.path in answers else 404, answers.get(self.path, ""))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path == "/tokenize":
            self.answer(200, json.dumps({"count": len(body["prompt"])}))
        elif self.path == "/reset_prefix_cache" and self.replica.dev_mode:
            self.replica.l0.clear()
            self.answer(200, "")
        elif self.path == "/v1/completions":
            self.complete(body)
        else:
            self.answer(404, '{"detail":"Not Found"}')

    def complete(self, body: dict[str, Any]) -> None:
        replica = self.replica
        replica.tenants.add(self.headers.get(TENANT_HEADER))
        if replica.fail_from is not None and len(replica.seen) >= replica.fail_from:
            self.answer(500, '{"error":"made to fail"}')
            return
        time.sleep(0.003 + SECONDS_PER_TOKEN * replica.look_up(body["prompt"]))
        count = body["max_tokens"]
        with replica.lock:
            replica.counted["generated"] += count
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": count}
        if not body.get("stream"):
            text = {"object": "text_completion", "choices": [{"text": "a" * count}], "usage": usage}
            self.answer(200, json.dumps(text))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(count):
            self.event({"object": "text_completion", "choices": [{"index": 0, "text": "a"}]})
            time.sleep(0.002)
        self.event({"object": "text_completion", "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, value: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def answer(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def fake_system(
    *, l0_tokens: int = 16384, dev_mode: bool = True
) -> Iterator[tuple[Target, list[FakeReplica]]]:
    """Two replicas that share an L2, and where they answer."""
    l2: set[str] = set()
    replicas = [
        FakeReplica(name, l2, l0_tokens=l0_tokens, dev_mode=dev_mode)
        for name in ("tiny-0", "tiny-1")
    ]
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"replica": replica}))
        for replica in replicas
    ]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    urls = [f"http://127.0.0.1:{server.server_port}" for server in servers]
    try:
        yield (
            Target(
                engine="tiny",
                model="tiny",
                chunk_size=CHUNK,
                replicas=tuple(
                    Replica(name=replica.name, engine_url=url, lmcache_url=f"{url}/lmcache")
                    for replica, url in zip(replicas, urls, strict=True)
                ),
            ),
            replicas,
        )
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()
