"""Lets the files of loaded blocks look young, so that age means time since the last use.

Curvine deletes by the time of a file's last change, used or not, and the janitor does too; the
oldest files are the prefixes that everybody shares. And who holds them does not write them again.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

MOST_REMEMBERED: Final = 100_000
"""Files whose renewal is remembered, about 20 MB; of more, some are renewed too often."""

MOST_WAITING: Final = 1000
"""Loads that wait to be noted. On a mount that hangs all others are forgotten: it costs nothing."""


class Renewing:
    """Listens to a tier's adapter (``L2AdapterListener``), and never keeps it waiting."""

    def __init__(
        self, directory: str, name_of: Callable[[Any], str], *, every_seconds: float
    ) -> None:
        """Begin.

        Args:
            directory: Where the files lie.
            name_of: Name of a block's file.
            every_seconds: A file is not renewed again sooner.
        """
        self.renewed = 0
        self._directory, self._name_of, self._every = directory, name_of, every_seconds
        self._times: OrderedDict[str, float] = OrderedDict()
        self._waiting: queue.Queue[list[Any]] = queue.Queue(MOST_WAITING)
        threading.Thread(target=self._work, name="kascade-renewing", daemon=True).start()

    def on_l2_keys_accessed(self, keys: list[Any]) -> None:
        """Note blocks that were loaded."""
        try:
            self._waiting.put_nowait(list(keys))
        except queue.Full:
            return

    def on_l2_keys_stored(self, keys: list[Any], sizes: list[int]) -> None:
        """Nothing: they are young."""

    def on_l2_keys_deleted(self, keys: list[Any]) -> None:
        """Nothing: they are gone."""

    def renew(self, keys: list[Any], now: float) -> None:
        """Renew the files of some blocks, unless that was done lately."""
        for key in keys:
            name = self._name_of(key)
            last = self._times.pop(name, None)
            if last is not None and now - last < self._every:
                self._times[name] = last
                continue
            self._times[name] = now
            if len(self._times) > MOST_REMEMBERED:
                self._times.popitem(last=False)
            try:
                os.utime(Path(self._directory, name))
            except OSError:
                continue  # deleted meanwhile, or a mount that does not answer
            self.renewed += 1

    def _work(self) -> None:
        while True:
            self.renew(self._waiting.get(), time.monotonic())
