"""What heals the mounts of a node, against an API server that answers as one does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kascade.programs.mounts import dead
from kascade.programs.mounts import healer as program
from kascade.programs.mounts.api import Api, NoAnswerError
from kascade.programs.mounts.healer import ASKING, Healer
from kascade.programs.mounts.settings import MountSettings

KUBELET = "/var/lib/kubelet/pods"


def mount(uid: str, volume: str = "test-kv-m-1", kind: str = "fuse") -> str:
    place = f"{KUBELET}/{uid}/volumes/kubernetes.io~csi/{volume}/mount"
    return f"9 8 0:98 / {place} rw - {kind} curvine-fuse rw"


class Server(ThreadingHTTPServer):
    """Pods by uid; those in ``guarded`` have a budget that forbids their eviction."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pods: dict[str, str] = {}
        self.guarded: set[str] = set()
        self.asked: list[str] = []
        self.fails = False


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        items = [{"metadata": {"name": n, "uid": u}} for u, n in self.server.pods.items()]
        self.answer(200, {"items": items})

    def do_DELETE(self) -> None:
        self.answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = body["metadata"]["name"]
        uid = body["deleteOptions"]["preconditions"]["uid"]
        assert self.server.pods[uid] == name
        if uid in self.server.guarded:
            self.answer(429, {})
        else:
            del self.server.pods[uid]
            self.answer(201, {})

    def answer(self, status: int, body: Any) -> None:
        self.server.asked.append(f"{self.command} {self.path} {status}")
        content = json.dumps(body).encode()
        self.send_response(500 if self.server.fails else status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


class Node:
    """A node with pods, some of whose mounts are dead, and a clock."""

    def __init__(self, server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.folder, self.now = server, folder, 0.0
        self.dead: set[str] = set()
        self.table = folder / "mountinfo"
        self.table.write_text("")
        monkeypatch.setattr(program, "_MOUNTS", self.table)
        settings = MountSettings(
            node="node-1",
            namespace="test",
            driver_namespace="test-cache",
            handshake=str(folder),
            volumes="test-kv-",
            rest_seconds=900,
        )
        api = Api(f"http://127.0.0.1:{server.server_address[1]}")
        self.healer = Healer(settings, api, dead=self.is_dead, now=lambda: self.now)

    def is_dead(self, path: str) -> bool:
        return path.removeprefix(f"{KUBELET}/").partition("/")[0] in self.dead

    def has(self, *lines: str, pods: dict[str, str], dead: set[str]) -> None:
        self.table.write_text("".join(f"{line}\n" for line in lines))
        self.server.pods, self.dead = dict(pods), dead

    def look(self, times: int = 1) -> list[str]:
        self.server.asked.clear()
        for _ in range(times):
            self.now += 5
            self.healer.step()
        return self.server.asked


@pytest.fixture
def node(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(server, tmp_path, monkeypatch)


def test_a_starting_driver_waits_until_what_it_wrote_down_is_gone(node: Node) -> None:
    asking = node.folder / ASKING
    asking.touch()
    assert node.look() == [
        "DELETE /api/v1/namespaces/test-cache/secrets/curvine-csi-mount-node-1 404"
    ]
    assert not asking.exists()


def test_it_waits_on_while_the_api_server_fails(node: Node) -> None:
    asking = node.folder / ASKING
    asking.touch()
    node.server.fails = True
    node.look(3)
    assert asking.exists()
    node.server.fails = False
    node.look()
    assert not asking.exists()


def test_every_pod_with_a_dead_mount_goes_and_no_other(node: Node) -> None:
    pods = {"u1": "engine-a", "u2": "janitor", "u3": "alive", "u4": "weights", "u5": "no-mount"}
    lines = [mount("u1"), mount("u2"), mount("u3"), mount("u4", volume="weights-x")]
    node.has(*lines, pods=pods, dead={"u1", "u2", "u4"})
    assert node.look() == []
    node.look()
    assert set(node.server.pods) == {"u3", "u4", "u5"}


def test_a_pod_that_is_leaving_is_not_taken_for_one(node: Node) -> None:
    node.has(mount("u1"), pods={"u1": "engine-a"}, dead={"u1"})
    node.look()
    node.has(pods={"u1": "engine-a"}, dead=set())
    assert node.look(5) == []


def test_a_disruption_budget_is_kept(node: Node) -> None:
    """One replica after the other: the next goes once the first one's successor is ready."""
    node.has(mount("u1"), mount("u2"), pods={"u1": "a", "u2": "b"}, dead={"u1", "u2"})
    node.server.guarded = {"u2"}
    node.look(2)
    assert set(node.server.pods) == {"u2"}
    node.has(mount("u2"), mount("u3"), pods={"u2": "b", "u3": "c"}, dead={"u2"})
    node.look(3)
    assert set(node.server.pods) == {"u2", "u3"}
    node.server.guarded = set()
    node.look()
    assert set(node.server.pods) == {"u3"}


def test_a_driver_that_dies_again_and_again_does_not_end_the_engines_each_time(node: Node) -> None:
    node.has(mount("u1"), pods={"u1": "a"}, dead={"u1"})
    node.look(2)
    node.has(mount("u2"), pods={"u2": "a2"}, dead=set())
    node.look()
    node.has(mount("u2"), pods={"u2": "a2"}, dead={"u2"})
    node.look(100)
    assert set(node.server.pods) == {"u2"}
    node.now += 900
    node.look(2)
    assert not node.server.pods


def test_an_api_server_that_fails_is_asked_again(node: Node) -> None:
    node.has(mount("u1"), pods={"u1": "a"}, dead={"u1"})
    node.server.fails = True
    node.look(3)
    assert set(node.server.pods) == {"u1"}
    node.server.fails = False
    node.look()
    assert not node.server.pods


def test_a_list_without_uids_is_no_list(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setattr(api, "_ask", lambda *_: (200, {"items": [{"metadata": {"name": "x"}}]}))
    with pytest.raises(NoAnswerError, match="uid"):
        api.pods_on("node-1", "test")


def test_a_mount_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that never returns keeps its thread; further looks start no other."""
    release = threading.Event()
    asked: list[str] = []

    def stat(path: str) -> None:
        asked.append(path)
        release.wait(20)

    monkeypatch.setattr(dead, "os", SimpleNamespace(stat=stat))
    try:
        assert [dead.is_dead("/hangs", 0.01) for _ in range(5)] == [False] * 5
        assert asked == ["/hangs"]
    finally:
        release.set()
