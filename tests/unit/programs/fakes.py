"""Engines and LMCache servers small enough for a unit test: a set of prompts is their L2."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kascade.programs.verify.client import TENANT_HEADER
from kascade.programs.verify.target import Replica, Target

CHUNK = 256


@dataclass(kw_only=True)
class FakeReplica:
    """One engine and its LMCache server behind one port; ``l2`` is what several of them share."""

    name: str
    l2: set[str]
    chunk_size: int = CHUNK
    hash_algorithm: str = "blake3"
    base_path: str = "/cache"
    max_model_len: int = 8192
    served: str = "model"
    root: str = "org/model"
    stores: bool = True
    cache_answers: bool = True
    tokens: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    others_tokens: int = 0
    known: frozenset[str] | None = None
    leaky: bool = False
    l0: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def count(self, name: str, by: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    def prompt_tokens(self, prompt: str) -> int:
        return len(prompt)

    def serves(self, tenant: str | None) -> bool:
        """Whether it answers a tenant's requests; one that tells none apart answers all."""
        return self.known is None or tenant in self.known

    def complete(self, prompt: str, tenant: str | None = None) -> int:
        """Serve a prompt and count as the real programs do; return its tokens."""
        self.requests.append(prompt)
        tokens = len(prompt)
        chunks = (tokens - 1) // self.chunk_size
        salt = "" if self.known is None or self.leaky else f"@{tenant}"
        digest = hashlib.sha256(f"{prompt}{salt}".encode()).hexdigest()
        key = f"{self.hash_algorithm}/{self.chunk_size}/{self.base_path}/{self.root}/{digest}"
        self.count("vllm:prompt_tokens_total", tokens + self.others_tokens)
        if digest in self.l0:
            self.count("vllm:prefix_cache_hits_total", chunks * self.chunk_size)
            return tokens
        self.count("lmcache_mp_l2_prefetch_lookup_objects_chunks_total", chunks)
        if key in self.l2:
            self.count("lmcache_mp_l2_prefetch_load_submitted_objects_chunks_total", chunks)
            self.count("lmcache_mp_l2_prefetch_load_completed_chunks_total", chunks)
            self.count("vllm:external_prefix_cache_hits_total", chunks * self.chunk_size)
        else:
            self.count("lmcache_mp_l2_store_submitted_objects_chunks_total", chunks)
            if self.stores:
                self.l2.add(key)
                self.count("lmcache_mp_l2_store_completed_objects_chunks_total", chunks)
        self.l0.add(digest)
        return tokens

    def pages(self) -> dict[str, Any]:
        """What the two programs answer to GET, by path; a text is a page of metrics."""
        metrics = "".join(f"{name} {value}\n" for name, value in self.counters.items())
        return {
            "/v1/models": {
                "data": [
                    {"id": self.served, "root": self.root, "max_model_len": self.max_model_len}
                ]
            },
            "/version": {"version": "0.32.0"},
            "/metrics": 'vllm:cache_config_info{cache_dtype="auto"} 1\n' + metrics,
            "/lmcache/version": "0.5.6",
            "/lmcache/metrics": metrics,
            "/lmcache/env": {"PYTHONHASHSEED": "0"},
            "/lmcache/status": {
                "is_healthy": True,
                "chunk_size": self.chunk_size,
                "hash_algorithm": self.hash_algorithm,
                "storage_manager": {"l2_adapters": [{"type": "FSNativeL2Adapter"}]},
                "non_cuda_context_meta": {"1": {"world_size": 1}},
            },
            "/lmcache/config": {
                "mp": {"instance_id": self.name},
                "storage_manager": {
                    "l2_adapter_config": {
                        "adapters": [
                            {
                                "base_path": self.base_path,
                                "relative_tmp_dir": f".tmp-{self.name}",
                                "serde_config": "None",
                            }
                        ]
                    }
                },
            },
        }


class Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_GET(self) -> None:
        replica = self.server.replica
        path = f"{self.server.prefix}{self.path}"
        if path in {"/router-metrics", "/router/metrics"}:
            name = "vllm_router_prefix_routing_decisions_total"
            line = f'{name}{{outcome="missing_tokens"}} {self.server.missing}\n'
            self._send(line.encode(), "text/plain")
            return
        page = replica.pages().get(path)
        if page is None or (path.startswith("/lmcache") and not replica.cache_answers):
            self.send_error(503)
            return
        text = page if isinstance(page, str) and "metrics" in path else json.dumps(page)
        self._send(text.encode(), "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/chat/completions":
            self.server.missing += 0 if self.server.learns else 1
            self._send(b"{}", "application/json")
            return
        assert body["temperature"] == 0
        assert body["ignore_eos"] is True
        assert body["return_token_ids"] is True
        replica = self.server.choose()
        tenant = self.headers.get(TENANT_HEADER)
        if not replica.serves(tenant):
            self.send_error(403)
            return
        tokens = replica.complete(body["prompt"], tenant)
        events: list[dict[str, Any]] = [
            {"choices": [{"text": "", "token_ids": [each]}]} for each in replica.tokens
        ]
        events.append({"choices": [], "usage": {"prompt_tokens": tokens}})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self._send("".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - base class' name
        pass

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class FakeServer(ThreadingHTTPServer):
    """Serves one replica, or as a router whichever of several ``choose`` returns.

    Below the prefix ``/lmcache`` are the pages of its LMCache server.
    """

    daemon_threads = True

    def __init__(
        self, *replicas: FakeReplica, in_turn: bool = False, learns: bool = True, prefix: str = ""
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.prefix = prefix
        self._replicas = replicas
        self._in_turn = in_turn
        self.learns = learns
        self.missing = 0
        self._served = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def replica(self) -> FakeReplica:
        return self._replicas[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def choose(self) -> FakeReplica:
        self._served += 1
        return self._replicas[self._served % len(self._replicas) if self._in_turn else 0]

    def end(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


@dataclass
class FakeSystem:
    """Two replicas and a router in front of them."""

    replicas: list[FakeReplica]
    servers: list[FakeServer]
    router: FakeServer

    @property
    def target(self) -> Target:
        return Target(
            engine="tiny",
            model="model",
            chunk_size=CHUNK,
            replicas=tuple(
                Replica(
                    name=replica.name, engine_url=server.url, lmcache_url=f"{server.url}/lmcache"
                )
                for replica, server in zip(self.replicas, self.servers, strict=True)
            ),
            router_url=self.router.url,
            router_metrics_url=f"{self.router.url}/router-metrics",
        )
