"""An engine begins when its LMCache server answers, and not before: vLLM exits where none does.

The rendered pod, started by the local kubelet in the order that Kubernetes defines for native
sidecars, with two small programs in the places of LMCache and vLLM.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kascade import plan_file
from tests.unit.kube.rendered import Object, find, render
from tools.local.kubelet import RunningPod, Sandbox
from tools.local.pods import Container, Pod, pods
from tools.servers import ServerError

ADDRESS = "127.99.7.1"
CONFIG = Path(__file__).parents[3] / "config" / "default.yaml"

PROGRAM = """\
import http.server, pathlib, sys, time

name, address, port, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
pathlib.Path(name + ".began").write_text(repr(time.time()))
time.sleep(seconds)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer((address, port), Handler)
pathlib.Path(name + ".answers").write_text(repr(time.time()))
server.serve_forever()
"""


def _rendered_pod() -> Pod:
    plan = plan_file(CONFIG)
    name = plan.engines[0].name
    deployment: Object = find(render(plan)[f"engine-{name}"], "Deployment", name)
    deployment["spec"]["replicas"] = 1
    (found,) = pods([deployment])
    return found


def _stand_in(container: Container, *, silent_seconds: float) -> Container:
    """The container with a small program: silent for some time, then healthy."""
    (port,) = container.ports.values()
    argv = (sys.executable, "-c", PROGRAM, container.name, ADDRESS, f"{port}", f"{silent_seconds}")
    startup = container.startup
    return replace(
        container,
        argv=argv,
        environment={},
        startup=None if startup is None else replace(startup, period_seconds=0.2),
    )


@contextmanager
def _started(folder: Path, *, server_silent: float, sidecar: bool = True) -> Iterator[RunningPod]:
    pod = _rendered_pod()
    server = replace(
        _stand_in(pod.container("lmcache"), silent_seconds=server_silent), sidecar=sidecar
    )
    engine = _stand_in(pod.container("vllm"), silent_seconds=0)
    # The order is the manifest's; the guards have ended by the time the server starts.
    order = [one.name for one in pod.containers if not one.init]
    stand_ins = {"lmcache": server, "vllm": engine}
    pod = replace(pod, containers=tuple(stand_ins[name] for name in order))
    running = RunningPod(
        pod,
        address=ADDRESS,
        sandbox=Sandbox(folder=folder, environment={}, seconds=120),
        changed=lambda _: None,
    )
    try:
        running.start(seconds=3)
        yield running
    finally:
        running.stop()


def test_the_engine_waits_for_its_server(tmp_path: Path) -> None:
    with _started(tmp_path, server_silent=1) as running:
        running.containers["vllm"].wait_until_started(30)
        answers = float((tmp_path / "lmcache.answers").read_text())
        began = float((tmp_path / "vllm.began").read_text())
        assert answers < began


def test_without_a_server_the_engine_never_begins(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match="lmcache did not start"),
        _started(tmp_path, server_silent=100),
    ):
        pass
    assert (tmp_path / "lmcache.began").exists()
    assert not (tmp_path / "vllm.began").exists()


def test_as_a_plain_container_it_would_begin_at_once(tmp_path: Path) -> None:
    """So the order above is the doing of `restartPolicy: Always` and the startup probe."""
    with _started(tmp_path, server_silent=100, sidecar=False) as running:
        running.containers["vllm"].wait_until_started(30)
        assert not (tmp_path / "lmcache.answers").exists()
