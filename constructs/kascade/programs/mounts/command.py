"""The program: one look after the other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

from .api import Api
from .healer import Healer
from .settings import settings


def main(arguments: Sequence[str]) -> int:
    """Run the program.

    Args:
        arguments: Without the program's name.

    Returns:
        0 after SIGTERM.
    """
    read = settings(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    healer = Healer(read, Api(read.api_url))
    while not stop.wait(read.interval_seconds):
        healer.step()
    return 0
