"""L2 in HyperPod's tiered storage and in a directory of another file system."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kascade import plan_file
from kascade.plan import DirectoryL2Plan, ManagedL2Plan, ServingPlan
from tests.unit.kube.rendered import Object, container, everything, find, of_kind, parsed, pod

SHARED = "/dev/shm"  # noqa: S108 - shared memory
Render = Callable[[ServingPlan], dict[str, list[Object]]]


def engine_pods(plan: ServingPlan, charts: dict[str, list[Object]]) -> list[Object]:
    return [
        pod(find(charts[f"engine-{engine.name}"], "Deployment", engine.name))
        for engine in plan.engines
    ]


def run(command: list[str], *args: str, mounts: Path | None = None) -> Any:
    """Run a guard or a Job's program as its container would."""
    program, flag, script = command
    assert program == "python3"
    if mounts is not None:
        script = script.replace("/proc/self/mounts", str(mounts))
    return subprocess.run(
        [sys.executable, flag, script, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )


# --- managed -------------------------------------------------------------------------------------


@pytest.fixture
def managed_pod(managed: ServingPlan, rendered: Render) -> Object:
    (spec,) = engine_pods(managed, rendered(managed))
    return spec


def test_nothing_of_curvine_and_no_volume_is_made(managed: ServingPlan, rendered: Render) -> None:
    objects = everything(rendered(managed))
    assert managed.curvine is None
    assert of_kind(objects, "PersistentVolume", "PersistentVolumeClaim", "CSIDriver") == []
    assert [job["metadata"]["name"].rpartition("-")[0] for job in of_kind(objects, "Job")] == [
        "kascade-cache-keys"
    ]


def test_the_server_asks_the_daemon_of_its_own_node(
    managed: ServingPlan, managed_pod: Object
) -> None:
    l2 = managed.engines[0].lmcache.l2
    assert isinstance(l2, ManagedL2Plan)
    server = container(managed_pod, "lmcache")
    env = {entry["name"]: entry for entry in server["env"]}
    assert env["NODE_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP"
    adapter = parsed(server["args"], "--l2-adapter")
    assert adapter["url"] == "sagemaker-hyperpod://$(NODE_IP):9200"
    assert adapter["shared_memory_name"] == "ai_toolkit_cache"
    assert adapter["serde"]["type"] == "aesgcm"
    assert "eviction" not in adapter
    assert adapter["bucket"] == l2.bucket


def test_the_hosts_shared_memory_is_mounted_to_read(managed_pod: Object) -> None:
    """The directory: a container keeps a file that it mounted, also when it is made anew."""
    (volume,) = [item for item in managed_pod["volumes"] if "hostPath" in item]
    assert volume["hostPath"] == {"path": SHARED, "type": "Directory"}
    seen = {
        (item["name"], mount["mountPath"], mount["readOnly"])
        for part in ("initContainers", "containers")
        for item in managed_pod[part]
        for mount in item.get("volumeMounts", [])
        if mount["name"] == volume["name"]
    }
    assert seen == {("check-cache-mount", "/mnt/kv", True), ("lmcache", "/mnt/kv", True)}


def test_only_the_daemons_port_of_the_nodes_is_opened(
    managed: ServingPlan, rendered: Render
) -> None:
    name = managed.engines[0].name
    policy = find(rendered(managed)[f"engine-{name}"], "NetworkPolicy", name)
    (rule,) = [
        rule
        for rule in policy["spec"]["egress"]
        if [port["port"] for port in rule["ports"]] == [9200]
    ]
    assert [peer["ipBlock"]["cidr"] for peer in rule["to"]] == list(managed.network.private_cidrs)


def test_the_exception_of_pod_security_is_for_managed_alone(
    managed: ServingPlan, directory: ServingPlan, default_plan: ServingPlan, rendered: Render
) -> None:
    levels = {}
    for plan in (managed, directory, default_plan):
        platform = rendered(plan)["platform"]
        space = find(platform, "Namespace", plan.namespaces.serving)
        level = space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        rules = [
            item["metadata"]["name"] for item in of_kind(platform, "ValidatingAdmissionPolicy")
        ]
        levels[plan.name] = (level, rules)
    assert levels == {
        "managed": ("privileged", ["managed-one-host-directory"]),
        "directory": ("baseline", []),
        "kascade": ("baseline", []),
    }


def test_the_warning_that_no_engine_reads_the_tier_is_gone(
    managed: ServingPlan, default_plan: ServingPlan
) -> None:
    def said(plan: ServingPlan) -> bool:
        return any("which no engine here reads" in warning.message for warning in plan.warnings)

    assert said(default_plan)
    assert not said(managed)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"x" * (3 << 20), "holds 3 MiB"),
        (b"", "is HyperPod's tiered storage on?"),
        (None, "is HyperPod's tiered storage on?"),
    ],
)
def test_shared_memory_guard(
    content: bytes | None, said: str, managed_pod: Object, tmp_path: Path
) -> None:
    guard = container(managed_pod, "check-cache-mount")
    server = container(managed_pod, "lmcache")
    name = parsed(server["args"], "--l2-adapter")["shared_memory_name"]
    # What it links to is where the server finds it, and the link where LMCache looks.
    assert guard["args"][:2] == [f"/mnt/kv/{name}", f"{SHARED}/{name}"]
    assert {"name": "shm", "mountPath": SHARED} in guard["volumeMounts"]
    assert {"name": "shm", "mountPath": SHARED} in server["volumeMounts"]
    file, link = tmp_path / "segment", tmp_path / "link"
    if content is not None:
        file.write_bytes(content)
    # A second time too: the link outlives a restart of the container.
    for _ in range(2):
        answer = run(guard["command"], str(file), str(link), "0")
        assert answer.returncode == (0 if content else 1)
        assert said in answer.stdout + answer.stderr
        assert link.readlink() == file


def test_another_revision_is_another_bucket(managed: ServingPlan, tmp_path: Path) -> None:

    text = (Path(__file__).parents[3] / "config" / "managed.yaml").read_text()
    path = tmp_path / "managed.yaml"
    path.write_text(text.replace("    replicas: 2", f"    replicas: 2\n    revision: {'ab' * 20}"))
    before, after = managed.engines[0].lmcache.l2, plan_file(path).engines[0].lmcache.l2
    assert isinstance(before, ManagedL2Plan)
    assert isinstance(after, ManagedL2Plan)
    assert before.bucket != after.bucket


# --- directory -----------------------------------------------------------------------------------


def test_every_engine_mounts_its_own_directory_of_the_claim(
    directory: ServingPlan, rendered: Render
) -> None:
    seen = set()
    for spec in engine_pods(directory, rendered(directory)):
        (volume,) = [item for item in spec["volumes"] if item["name"] == "cache"]
        claim = volume["persistentVolumeClaim"]["claimName"]
        for name in ("check-cache-mount", "lmcache"):
            (mount,) = [
                item for item in container(spec, name)["volumeMounts"] if item["name"] == "cache"
            ]
            seen.add((claim, mount["subPath"]))
            assert mount["mountPath"] == "/mnt/kv"
        adapter = parsed(container(spec, "lmcache")["args"], "--l2-adapter")
        # The directory itself, so LMCache makes nothing but its folder.
        assert adapter["base_path"] == "/mnt/kv"
    assert len(seen) == len(directory.engines) > 1
    paths = [path for _, path in seen]
    assert not any(a != b and a.startswith(f"{b}/") for a in paths for b in paths)
    assert {claim for claim, _ in seen} == {"kv-cache"}


def test_all_engines_together_stay_within_the_capacity(directory: ServingPlan) -> None:
    written = [
        engine.replicas * engine.lmcache.l2.capacity_gib
        for engine in directory.engines
        if isinstance(engine.lmcache.l2, DirectoryL2Plan)
    ]
    assert len(written) == len(directory.engines)
    assert 0 < sum(written) <= 2400


@pytest.fixture
def guard(directory: ServingPlan, rendered: Render) -> Object:
    return container(engine_pods(directory, rendered(directory))[0], "check-cache-mount")


def directories_job(directory: ServingPlan, rendered: Render) -> Object:
    (job,) = [
        item
        for item in of_kind(rendered(directory)["cache"], "Job")
        if item["metadata"]["name"].startswith("cache-directories")
    ]
    return pod(job)


def test_the_job_makes_what_the_guards_ask_for(
    directory: ServingPlan, rendered: Render, tmp_path: Path
) -> None:
    step = container(directories_job(directory, rendered), "make-directories")
    for _ in range(2):
        answer = run(step["command"], str(tmp_path), *step["args"][1:])
        assert answer.returncode == 0, answer.stderr
    table = tmp_path / "mounts"
    for spec in engine_pods(directory, rendered(directory)):
        guard = container(spec, "check-cache-mount")
        inside = tmp_path / guard["volumeMounts"][0]["subPath"]
        assert inside.stat().st_mode & 0o777 == 0o777
        table.write_text(f"10.0.0.9@tcp:/x {inside} lustre rw 0 0\n")
        answer = run(guard["command"], str(inside), *guard["args"][1:3], "0", mounts=table)
        assert answer.returncode == 0, answer.stderr


def test_the_job_first_proves_the_claim(directory: ServingPlan, rendered: Render) -> None:
    spec = directories_job(directory, rendered)
    (guard,) = spec["initContainers"]
    assert guard["args"] == ["/mnt/claim", "lustre", "", "0"]
    assert guard["volumeMounts"] == spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("kind", "wanted", "said"),
    [
        ("lustre", "lustre", "has its marker"),
        ("nfs4", "", "has its marker"),
        ("fuse.s3", "", "has its marker"),
        ("nfs4", "lustre", "is nfs4, not lustre"),
        ("overlay", "", "is overlay, not a file system that nodes share"),
        ("tmpfs", "", "is tmpfs, not a file system that nodes share"),
        ("xfs", "", "is xfs, not a file system that nodes share"),
        ("", "", "is no mount"),
        ("", "lustre", "is no mount"),
    ],
)
def test_directory_guard(kind: str, wanted: str, said: str, guard: Object, tmp_path: Path) -> None:
    marker = guard["args"][2]
    (tmp_path / marker).touch()
    table = tmp_path / "mounts"
    line = f"source {tmp_path} {kind} rw 0 0\n" if kind else ""
    table.write_text(f"overlay / overlay rw 0 0\n{line}")
    answer = run(guard["command"], str(tmp_path), wanted, marker, "0", mounts=table)
    assert answer.returncode == (0 if said == "has its marker" else 1)
    assert said in answer.stdout + answer.stderr


def test_directory_guard_wants_the_marker(guard: Object, tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"source {tmp_path} lustre rw 0 0\n")
    answer = run(guard["command"], str(tmp_path), "lustre", guard["args"][2], "0", mounts=table)
    assert answer.returncode == 1
    assert "has no .kascade-volume: has the cache-directories Job succeeded?" in answer.stderr


def test_another_directory_is_another_job(directory: ServingPlan, rendered: Render) -> None:
    assert directory.directories is not None
    more = replace(directory.directories, directories=(*directory.directories.directories, "x"))
    names = [
        [item["metadata"]["name"] for item in of_kind(rendered(plan)["cache"], "Job")]
        for plan in (directory, replace(directory, directories=more))
    ]
    assert names[0] != names[1]
