"""Answers `/metrics` and `/healthz` from memory: neither touches the mount."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from .tally import Tally

SILENT_SECONDS: Final = 30
"""The watcher goes round ten times a second and waits for nothing. If it has not for so long, only
another process helps; a round that is stuck is no reason, since another process would be stuck on
the same mount."""

_CLIENT_SECONDS: Final = 10


def serve(tally: Tally, host: str, port: int) -> ThreadingHTTPServer:
    """Answer in the background.

    Args:
        tally: What is told.
        host: Address to listen at.
        port: Its port; 0 takes a free one.

    Raises:
        OSError: Somebody else listens there.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_SECONDS

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._send(200, tally.page(), "text/plain; version=0.0.4; charset=utf-8")
            elif self.path == "/healthz":
                alive = time.monotonic() - tally.beat < SILENT_SECONDS
                self._send(200 if alive else 503, "ok\n" if alive else "stands still\n")
            else:
                self._send(404, "/metrics or /healthz\n")

        def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
            content = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
