"""The two roles of the program: the watcher, and one round."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Final

from .process import ROUND_FLAG
from .report import Order, Report
from .round import one_round
from .server import serve
from .settings import JanitorSettings, settings
from .watcher import Watcher

_STEP_SECONDS: Final = 0.1


def main(arguments: Sequence[str]) -> int:
    """Run the program.

    Args:
        arguments: Without the program's name.

    Returns:
        0 after SIGTERM.
    """
    if arguments and arguments[0] == ROUND_FLAG:
        return _round(settings(arguments[1:]))
    return _watch(settings(arguments), arguments)


def _watch(read: JanitorSettings, arguments: Sequence[str]) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    watcher = Watcher(read, arguments)
    server = serve(watcher.tally, read.host, read.port)
    while not stop.wait(_STEP_SECONDS):
        watcher.step()
    watcher.stop()
    server.server_close()
    return 0


def _round(read: JanitorSettings) -> int:
    order = Order.read(sys.stdin.buffer.readline())
    # A watcher that is gone reads no more: the next line ends this process.
    _say(one_round(read, order, _say))
    return 0


def _say(report: Report) -> None:
    sys.stdout.buffer.write(report.line())
    sys.stdout.buffer.flush()
