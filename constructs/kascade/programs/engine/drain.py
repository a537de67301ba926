"""Waits until an engine has answered what it took; the kubelet runs it before it ends the engine.

    python3 -m kascade_engine.drain URL NOTICE_SECONDS LONGEST_SECONDS

It ends after the notice, in which whoever sends requests learns that the pod goes, as soon as none
is left, or when waiting is of no use: the engine answers nobody, or its core hangs.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Final

from .health import REQUESTS_PATH

_PAUSE_SECONDS: Final = 0.5
_ANSWER_SECONDS: Final = 3.0
_FAILURES: Final = 3
"""Unanswered questions in a row until nobody is there."""

_ODD: Final = (OSError, ValueError, KeyError, TypeError, http.client.HTTPException)
"""What an answer that is none raises."""

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait(
    ask: Callable[[], tuple[int, bool]], *, notice_seconds: float, longest_seconds: float
) -> str:
    """Wait for the end of all requests; say why waiting ended.

    Args:
        ask: Says how many requests run and whether the engine hangs, or raises OSError.
        notice_seconds: Before the first question.
        longest_seconds: Until waiting ends whatever runs, the notice included.
    """
    deadline = time.monotonic() + longest_seconds
    time.sleep(min(notice_seconds, longest_seconds))
    failures = 0
    while True:
        try:
            running, hung = ask()
        except _ODD as error:
            failures += 1
            if failures >= _FAILURES:
                return f"the engine does not answer: {error}"
        else:
            failures = 0
            if running == 0:
                return "no request is left"
            if hung:
                return f"the engine's core hangs with {running} requests"
        if time.monotonic() > deadline:
            return f"requests are left after {longest_seconds:g} s"
        time.sleep(_PAUSE_SECONDS)


def asked(url: str) -> tuple[int, bool]:
    """Ask an engine how many requests run, and whether it hangs."""
    with _DIRECT.open(f"{url}{REQUESTS_PATH}", timeout=_ANSWER_SECONDS) as answer:
        found = json.load(answer)
    return int(found["running"]), bool(found["hung"])


def main(arguments: Sequence[str]) -> int:
    """Run the program; its end is what counts, not its status."""
    url, notice, longest = arguments
    why = wait(lambda: asked(url), notice_seconds=float(notice), longest_seconds=float(longest))
    sys.stdout.write(f"{why}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
