"""The ring itself: what it does without its programs, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.rehearsal.conftest import KUBERNETES as CHOSEN
from tests.rehearsal.controlplane import ControlPlane
from tools.controlplane.build import KUBERNETES, KWOK
from tools.servers import Server, ServerError, listening

ROOT = Path(__file__).parents[2]
SERVER = "import time; print('up', flush=True); time.sleep(600)"
STARTER = f"""
import sys, time
from pathlib import Path
from tools.servers import Server
server = Server("sleeper", [sys.executable, "-c", {SERVER!r}], folder=Path(sys.argv[1]))
print(server.pid, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def becomes_true(fact: Callable[[], object], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(fact())


def gone(pid: int) -> bool:
    return becomes_true(lambda: not alive(pid))


def killed(starter: subprocess.Popen[str]) -> None:
    starter.kill()


def terminated(starter: subprocess.Popen[str]) -> None:
    os.killpg(starter.pid, signal.SIGTERM)


def group_killed(starter: subprocess.Popen[str]) -> None:
    os.killpg(starter.pid, signal.SIGKILL)


@pytest.mark.parametrize("end", [killed, terminated, group_killed])
def test_a_server_ends_with_its_starter(
    end: Callable[[subprocess.Popen[str]], None], tmp_path: Path
) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert starter.stdout is not None
    try:
        pid = int(starter.stdout.readline())
        assert alive(pid)
        end(starter)
        starter.wait(10)
        assert gone(pid)
    finally:
        starter.kill()
        starter.stdout.close()


@pytest.mark.own_control_plane
def test_a_control_plane_listens_on_the_loopback_and_leaves_nothing() -> None:
    with ControlPlane(CHOSEN) as plane:
        pids = [server.pid for server in plane.servers]
        names = [server.name for server in plane.servers]
        for pid in pids:
            assert becomes_true(lambda pid=pid: listening(pid)), pid  # type: ignore[misc]
        addresses = {address for pid in pids for address in listening(pid)}
        folder = plane.folder
        assert plane.kubeconfig.stat().st_mode & 0o077 == 0
    assert names[:2] == ["etcd", "kube-apiserver"]
    assert names[-1] == "kwok"
    assert len(addresses) >= len(names)
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert [pid for pid in pids if alive(pid)] == []
    assert not folder.exists()


def test_a_server_ends_with_its_guard(tmp_path: Path) -> None:
    server = Server("sleeper", [sys.executable, "-c", SERVER], folder=tmp_path)
    psutil.Process(server.pid).parent().kill()
    assert gone(server.pid)


def test_a_server_that_fails_says_why(tmp_path: Path) -> None:
    failing = "import sys; sys.exit('no such flag: --answer')"
    server = Server("failing", [sys.executable, "-c", failing], folder=tmp_path)
    with pytest.raises(ServerError, match=r"failing ended with 1 .*\n.*no such flag: --answer"):
        server.wait_until(lambda: False, seconds=20)


def test_without_go_or_a_cluster_the_ring_says_that_it_was_not_run(tmp_path: Path) -> None:
    """And fails, because somebody asked for it by name."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
    }
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(Path(sys.executable).parent)}
    environment.pop("REHEARSAL_KUBECONFIG", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/rehearsal", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "The rehearsal was NOT run." in said
    assert "There is no `go` on PATH" in said
    assert "REHEARSAL_KUBECONFIG" in said
    assert "Traceback" not in said


def test_the_pins_are_what_they_are_called() -> None:
    assert {minor: module.version for minor, module in KUBERNETES.items()}.keys() == {
        "1.34",
        "1.35",
        "1.36",
    }
    for minor, module in KUBERNETES.items():
        assert module.version.startswith(f"{minor}.")
    assert KWOK.version
