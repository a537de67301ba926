"""The janitor's program on the mount, with an API server that knows some pods."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kascade.kube.l2.guards import MARKER
from kascade.programs.verify.client import UnreachableError, get_text
from kascade.programs.verify.metrics import parse
from tools.servers import free_ports

ROOT = Path(__file__).parents[3]


class _Pods(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *names: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body = json.dumps({"items": [{"metadata": {"name": name}} for name in names]}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: _Pods

    def do_GET(self) -> None:
        """List them."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Janitor:
    """A running one."""

    def __init__(self, port: int) -> None:
        """Find it at a port."""
        self._url = f"http://127.0.0.1:{port}/metrics"

    def rounds(self) -> float:
        """Count its good rounds."""
        try:
            page = parse(get_text(self._url))
        except UnreachableError:
            return 0
        return page.total("kascade_janitor_rounds_total", result="success")


@contextmanager
def janitor(directory: Path, *pods: str, log: Path, **flags: Any) -> Iterator[Janitor]:
    """Run it beside some pods; flags as on its command line."""
    (port,) = free_ports(1)
    with _Pods(*pods) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        given = {
            "directory": directory,
            "marker": MARKER,
            "filesystem": "fuse",
            "high_bytes": 10**12,
            "low_bytes": 10**11,
            "interval_seconds": 0.3,
            "namespace": "test",
            "selector": "app=engine",
            "api_url": f"http://127.0.0.1:{api.server_address[1]}",
            "port": port,
            **flags,
        }
        words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        with log.open("a") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "kascade.programs.janitor", *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            yield Janitor(port)
        finally:
            process.terminate()
            process.wait(20)
            api.shutdown()
