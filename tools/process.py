"""What every process of the rehearsal gets, and how it ends."""

import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

TERM_TIMEOUT_SECONDS = 10
_OTHERS = ("AWS_", "CDK_", "PYTHON", "KUBE", "VIRTUAL_ENV", "LAMBDA_", "MINISTACK_", "REHEARSAL_")


def local_environment() -> dict[str, str]:
    """Return this process's environment, less whatever leads out of the machine.

    That is a person's AWS account, cluster or proxy, and another Python's packages.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OTHERS) and not name.lower().endswith("_proxy")
    }


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group, and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERM_TIMEOUT_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(TERM_TIMEOUT_SECONDS)
    if process.stdin is not None:
        process.stdin.close()
