"""`kascade verify` as a person runs it, with a kubectl that forwards to fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kascade import plan_file
from kascade.cli import main
from kascade.programs.verify import counters, verification
from tests.unit.programs.fakes import FakeReplica, FakeServer

ROOT = Path(__file__).parents[3]
DEFAULT = ROOT / "config" / "default.yaml"
PLAN = plan_file(DEFAULT)
VERIFY = PLAN.verifications[0]
Kubectl = Callable[..., Path]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    """Put a fake kubectl on PATH; it answers from what the returned function is given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    fake = Path(__file__).parent / "fake_kubectl.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{fake}" "$@"\n')
    program.chmod(0o755)
    state = tmp_path / "state.json"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_KUBECTL", str(state))

    def answer(**given: Any) -> Path:
        state.write_text(json.dumps(given))
        return tmp_path / "calls"

    return answer


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Two fake replicas and a router, as a fake kubectl would forward to them."""
    monkeypatch.setattr(counters, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(counters, "_STEADY_SECONDS", 0.03)
    monkeypatch.setattr(verification, "SETTLE_SECONDS", 0.2)
    shared: set[str] = set()
    replicas = [FakeReplica(name=name, l2=shared) for name in ("pod-a", "pod-b")]
    for replica in replicas:
        replica.served = VERIFY.model
    engines = [FakeServer(replica) for replica in replicas]
    caches = [FakeServer(replica, prefix="/lmcache") for replica in replicas]
    router = FakeServer(*replicas)
    forwards: dict[str, dict[int, int]] = {
        f"pod/{replica.name}": {
            VERIFY.engine_port: engine.server_address[1],
            VERIFY.lmcache_port: cache.server_address[1],
        }
        for replica, engine, cache in zip(replicas, engines, caches, strict=True)
    }
    assert VERIFY.router_port is not None
    assert VERIFY.router_metrics_port is not None
    metrics = FakeServer(*replicas, prefix="/router")
    forwards[f"service/{VERIFY.router}"] = {
        VERIFY.router_port: router.server_address[1],
        VERIFY.router_metrics_port: metrics.server_address[1],
    }
    tmp = [".tmp-pod-a", ".tmp-pod-b"]
    listings = [{"tmp": tmp, "chunks": [f"{n}" for n in range(40 * step)]} for step in range(4)]
    yield {
        "pods": [pod("pod-b"), pod("pod-a")],
        "forwards": forwards,
        "listings": listings,
        "replicas": replicas,
    }
    for server in (*engines, *caches, router, metrics):
        server.end()


def pod(name: str, *, ready: str = "True", **meta: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **meta},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }


def calls(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_deployed_system_is_found_and_verified(
    kubectl: Kubectl, cluster: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = cluster.pop("replicas")
    log = kubectl(**cluster)
    code = main(["verify", str(DEFAULT), "--context", "here", "--tokens", "3000", "--seed", "4"])
    out = capsys.readouterr().out
    # Fakes answer both replicas at the same speed, so only that check may fail.
    assert {line.split("  ")[1].strip() for line in out.splitlines() if "FAILED" in line} <= {
        "pod-a > pod-b: first token",
        "pod-b > pod-a: first token",
    }, out
    assert code in {0, 1}
    assert "pod-a > pod-b: one directory" in out
    assert "router (cache_aware): a prompt stays" in out
    assert "seed 4" in out
    assert len(replicas[0].requests) == 5
    made = calls(log)
    assert all("--context=here" in call["flags"] for call in made)
    assert all(f"--namespace={VERIFY.namespace}" in call["flags"] for call in made)
    forwarded = [call for call in made if call["arguments"][0] == "port-forward"]
    assert len(forwarded) == 3
    assert all("--address=127.0.0.1" in call["arguments"] for call in forwarded)
    assert not any(alive(call["pid"]) for call in forwarded)


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ([str(DEFAULT), "--model", "no"], {}, "no model is called 'no'; the configuration has"),
        ([], {}, "name the configuration that is deployed, or running servers with --target"),
        ([str(DEFAULT)], {"pods": [pod("pod-a")]}, "has 1 ready replica of 2 in namespace"),
        (
            [str(DEFAULT)],
            {"pods": [pod("pod-a"), pod("pod-b", ready="False"), pod("x", deletionTimestamp="1")]},
            "needs two (pod-b is Running, x is Running)",
        ),
        (
            [str(DEFAULT), "--context", "far"],
            {
                "error": 'E1129 22:18:32.060542 17052 memcache.go:265] "Unhandled Error"\n'
                "Unable to connect to the server: dial tcp: i/o timeout"
            },
            "kubectl cannot reach the cluster of context far: Unable to connect",
        ),
        ([str(DEFAULT)], {"error": "Forbidden: pods"}, "kubectl get pods"),
        (
            [str(DEFAULT)],
            {"pods": [pod("pod-a"), pod("pod-b")], "forwards": {}},
            "port-forward pod/pod-a failed in the current context: Error from server (NotFound)",
        ),
        ([str(DEFAULT), "--in-cluster"], {}, f"has no CronJob {VERIFY.name}; deploy"),
    ],
)
def test_what_cannot_be_verified_is_one_sentence(
    arguments: list[str],
    given: dict[str, Any],
    words: str,
    kubectl: Kubectl,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kubectl(**given)
    assert main(["verify", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_without_kubectl_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["verify", str(DEFAULT)]) == 2
    assert "kubectl is not on PATH" in capsys.readouterr().err


def test_one_replica_or_no_l2_has_nothing_to_prove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = tmp_path / "single.yaml"
    single.write_text(DEFAULT.read_text().replace("replicas: 2", "replicas: 1"))
    assert main(["verify", str(single)]) == 2
    assert "has 1 replica and a verification needs two" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 2])
def test_in_the_cluster_the_jobs_result_is_the_result(
    code: int, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {"name": "verify", "args": ["--engine=a"]}
    template = {
        "metadata": {"name": VERIFY.name, "namespace": VERIFY.namespace, "uid": "u"},
        "spec": {
            "jobTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"template": {"spec": {"containers": [container]}}},
            }
        },
    }
    ended = {"state": {"terminated": {"exitCode": code}}}
    job_pod = {
        "metadata": {"name": "verify-x"},
        "status": {"phase": "Succeeded", "containerStatuses": [ended]},
    }
    log = kubectl(cronjob=template, job_pod=job_pod, log="verify: warming up\n\nthe table\n")
    assert main(["verify", str(DEFAULT), "--in-cluster", "--seed", "9"]) == code
    captured = capsys.readouterr()
    assert captured.out == "\nthe table\n"
    assert "verify: warming up" in captured.err
    (created,) = [call["created"] for call in calls(log) if "created" in call]
    assert created["kind"] == "Job"
    assert created["metadata"]["name"].startswith(f"{VERIFY.name}-")
    assert created["metadata"]["ownerReferences"][0]["uid"] == "u"
    made = created["spec"]["template"]["spec"]["containers"][0]
    assert made["args"] == ["--engine=a", "--seed=9"]
    assert not any(call["arguments"][0] == "delete" for call in calls(log))


@pytest.mark.parametrize("ignored", [False, True], ids=["heard", "ignored at the start"])
def test_ctrl_c_ends_the_children_and_the_job(kubectl: Kubectl, *, ignored: bool) -> None:
    template = {
        "metadata": {"name": VERIFY.name, "namespace": VERIFY.namespace, "uid": "u"},
        "spec": {
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"args": []}]}}}},
        },
    }
    job_pod = {"metadata": {"name": "verify-x"}, "status": {"phase": "Running"}}
    log = kubectl(cronjob=template, job_pod=job_pod, log="verify: here\n", log_seconds=60)
    program = [sys.executable, "-m", "kascade.cli", "verify", str(DEFAULT), "--in-cluster"]
    # A shell ignores it for the background jobs of a script, and a child inherits that.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stderr is not None
        while "verify: here" not in process.stderr.readline():
            assert process.poll() is None
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(20) == 130
        assert time.monotonic() - started < 20
    assert "Traceback" not in rest
    assert "interrupted" in rest
    assert [call["arguments"][:2] for call in calls(log)][-1] == ["delete", "job"]


def test_a_file_describes_a_local_system(
    cluster: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target.json"
    replicas = [
        {
            "name": name,
            "engine_url": f"http://127.0.0.1:{cluster['forwards'][f'pod/{name}'][8000]}",
            "lmcache_url": f"http://127.0.0.1:"
            f"{cluster['forwards'][f'pod/{name}'][VERIFY.lmcache_port]}",
        }
        for name in ("pod-a", "pod-b")
    ]
    written = {
        "engine": VERIFY.engine,
        "model": VERIFY.model,
        "chunk_size": VERIFY.chunk_size,
        "replicas": replicas,
    }
    target.write_text(json.dumps(written))
    quick = ["--target", str(target), "--tokens", "2000", "--ttft-ratio", "0"]
    assert main(["verify", *quick]) == 0
    assert "all 7 checks passed" in capsys.readouterr().out
    assert main(["verify", str(DEFAULT), *quick]) == 0
    assert main(["verify", *quick, "--model", "another"]) == 2
    assert "describes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho '[1]'\n", "printed something other than a JSON object: '[1]"),
        ("#!/bin/sh\nprintf '\\377'\n", "printed something that is no JSON"),
        ("#!/bin/sh\necho '{\"items\": [1]}'\n", "printed no list of objects: '[1]'"),
        ("#!/no/such/shell\n", "cannot be started: No such file or directory; install it again"),
    ],
)
def test_a_kubectl_that_is_none_is_a_sentence(
    script: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "kubectl"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert main(["verify", str(DEFAULT)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
