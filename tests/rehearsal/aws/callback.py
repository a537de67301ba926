"""Hears what the emulator announces."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Listener = Callable[[dict[str, Any]], None]
"""Does what an event of a resource stands for; raises to reject it, in a sentence."""


class Callback:
    """A server on the loopback that hands each announcement to a function and waits for it.

    Attributes:
        url: Where announcements go.
    """

    def __init__(self, listener: Listener) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                status, said = _hear(listener, self.rfile.read(length))
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                """Stay quiet; the record tells what happened."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _hear(listener: Listener, body: bytes) -> tuple[int, bytes]:
    try:
        listener(json.loads(body))
    except Exception as error:  # whatever it is, CloudFormation has to say it
        return 500, (str(error) or type(error).__name__).encode()
    return 200, b""
