"""Runs one server and ends it when whoever started it is gone, or when its time is up.

What the server itself started ends with it, as in a container.

    python guard.py SECONDS LOG PROGRAM [ARGUMENT ...]

Standard input is a pipe that only the starter holds open. When it closes, because the starter
closed it, ended or was killed, the server is asked to stop, and after ten seconds made to. Where
the kernel can (Linux), a server also ends with its guard. Standard library only, and a program of
its own: a thread or an exit handler would not outlive a starter that is killed.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

GRACE_SECONDS = 10
PR_SET_PDEATHSIG = 1
"""Of Linux' prctl(2): which signal a process gets when its parent ends."""


def end_with_guard() -> None:
    """Ask the kernel, in the server before its program starts, to end it with this process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Run the server until its end, the starter's end, or the end of its time."""
    seconds, log, *argv = sys.argv[1:]
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    with open(log, "ab") as file:  # noqa: PTH123 - no pathlib: this program starts five times a run
        server = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=end_with_guard if sys.platform == "linux" else None,  # noqa: PLW1509 - one thread
        )
    print(server.pid, flush=True)
    deadline = time.monotonic() + float(seconds)
    while server.poll() is None and time.monotonic() < deadline and not stopping:
        readable, _, _ = select.select([0], [], [], 0.2)
        if readable and not os.read(0, 1024):
            break
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
    code = server.wait()
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    return code


if __name__ == "__main__":
    sys.exit(main())
