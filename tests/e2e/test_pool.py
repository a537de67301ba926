"""The file system with Curvine's manners through the kernel, and what stands and falls with it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kascade.kube.l2.guards import MARKER, PROVE_FUSE
from kascade.plan import CurvinePlan
from kascade.programs.mounts.api import Pod
from kascade.programs.mounts.dead import is_dead
from kascade.programs.mounts.healer import Healer
from kascade.programs.mounts.settings import MountSettings
from tests.e2e.pool.mount import Mounted, mounted


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Mounted]:
    with mounted(tmp_path / "fs") as made:
        yield made


@contextmanager
def bound(source: Path, target: Path) -> Iterator[Path]:
    """Bind a mount to a pod's directory, as the CSI driver does."""
    target.mkdir(parents=True)
    subprocess.run(["mount", "--bind", source, target], check=True)  # noqa: S607
    try:
        yield target
    finally:
        subprocess.run(["umount", "--lazy", target], check=True)  # noqa: S607


def told(path: Path) -> int | None:
    """Return what a call on a path is told, or None when all is well."""
    try:
        path.stat()
    except OSError as error:
        return error.errno
    return None


def test_a_failure_is_told_at_close_and_rename_publishes_nothing(pool: Mounted) -> None:
    pool.behave(failing_closes=1)
    descriptor = os.open(pool.path / "tmp", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"x" * 2_000_000)
    with pytest.raises(OSError, match="Input/output error"):
        os.close(descriptor)
    (pool.path / "tmp").rename(pool.path / "published")
    assert (pool.path / "published").stat().st_size == 0


def test_a_silent_worker_costs_five_seconds_once_however_many_ask(pool: Mounted) -> None:
    names = [pool.path / f"{number}" for number in range(128)]
    for name in names:
        name.write_bytes(b"x" * 100)
    pool.behave(silent=(0, 1))

    def read(name: Path) -> int | None:
        try:
            name.read_bytes()
        except OSError as error:
            return error.errno
        return None

    begun = time.monotonic()
    with ThreadPoolExecutor(len(names)) as threads:
        assert set(threads.map(read, names)) == {errno.EIO}
    assert 5 <= time.monotonic() - begun < 8
    pool.behave(lost=(0, 1))
    begun = time.monotonic()
    assert read(names[0]) == errno.EIO
    assert time.monotonic() - begun < 1


def test_a_full_pool_says_eio_and_never_that_it_is_full(pool: Mounted) -> None:
    pool.behave(capacity_bytes=100 << 20)
    with pytest.raises(OSError, match="Input/output error"):
        (pool.path / "large").write_bytes(b"x" * 3_000_000)
    found = os.statvfs(pool.path)
    assert found.f_bavail * found.f_frsize == 100 << 20


# --- the age of directories --------------------------------------------------------------------


TTL = 3600


def bootstrap(pool: Mounted, script: list[str], arguments: list[str], folder: Path) -> None:
    """Run the Job's rendered script with a tool that works on the pool."""
    tool = folder / "curvine-cli"
    cli = Path(__file__).parent / "pool" / "cli.py"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} {cli} {pool.folder} "$@"\n')
    tool.chmod(0o755)
    subprocess.run([*script, str(tool), *arguments[1:]], check=True, timeout=60)


def test_no_age_takes_a_directory_in_use_whichever_comes_first(
    pool: Mounted, curvine: CurvinePlan, bootstrap_job: dict[str, Any], tmp_path: Path
) -> None:
    """A pod before the Job, a pod after it, and a tree that an older Job mended halfway."""
    volume = curvine.volumes[0].curvine_path
    script, arguments = bootstrap_job["command"], bootstrap_job["args"]
    directory = Path(f"{pool.path}{volume}")

    def outlives_a_quiet_day() -> bool:
        (directory / "chunk.data").write_bytes(b"x")
        for made in [path for path in pool.folder.rglob("*") if path.is_dir()]:
            then = time.time() - 2 * TTL
            os.utime(made, (then, then))
        time.sleep(2)
        return (directory / MARKER).exists() and (directory / "chunk.data").exists()

    pool.behave(ttl_seconds=TTL)
    # The plugin makes the directory with all its parents; an older Job mended the last alone.
    directory.mkdir(parents=True)
    real = Path(f"{pool.folder}{volume}")
    os.removexattr(real, "user.kascade.ttl")
    (real / MARKER).touch()
    assert not outlives_a_quiet_day()
    assert not list(pool.folder.iterdir())
    # Before the Job.
    directory.mkdir(parents=True)
    bootstrap(pool, script, arguments, tmp_path)
    assert outlives_a_quiet_day()
    # After the Job, which is run again.
    directory.mkdir(parents=True, exist_ok=True)
    bootstrap(pool, script, arguments, tmp_path)
    assert outlives_a_quiet_day()


# --- a restarted driver ------------------------------------------------------------------------


class Cluster:
    """Pods by uid, as far as the healer asks."""

    def __init__(self, **pods: str) -> None:
        self.pods, self.evicted = pods, list[str]()

    def pods_on(self, node: str, namespace: str) -> tuple[Pod, ...]:
        assert (node, namespace) == ("node", "test")
        return tuple(Pod(name=name, uid=uid, leaving=False) for uid, name in self.pods.items())

    def evict(self, pod: Pod, _: str) -> bool:
        self.evicted.append(pod.name)
        del self.pods[pod.uid]
        return True


def guard(mount: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROVE_FUSE, str(mount), MARKER, "0"],
        check=False,
        capture_output=True,
        text=True,
    )


def test_dead_mounts_are_seen_and_their_pods_evicted(pool: Mounted, tmp_path: Path) -> None:
    """Two pods had the volume when its driver was restarted; a third one comes afterwards."""
    (pool.path / MARKER).touch()
    pods = tmp_path / "pods"
    cluster = Cluster(u1="engine", u2="janitor", u3="engine-new", u4="other")
    settings = MountSettings(
        node="node",
        namespace="test",
        driver_namespace="cache",
        handshake=str(tmp_path),
        volumes="test-kv-",
        pods=str(pods),
    )
    healer = Healer(settings, cluster)  # type: ignore[arg-type]

    def of(uid: str) -> Path:
        return pods / uid / "volumes" / "kubernetes.io~csi" / "test-kv-m" / "mount"

    with bound(pool.path, of("u1")) as one, bound(pool.path, of("u2")) as two:
        healer.step()
        healer.step()
        assert not cluster.evicted
        assert guard(one).returncode == 0
        pool.kill()
        assert {told(one), told(two), told(pool.path)} == {errno.ENOTCONN}
        assert is_dead(str(one))
        answer = guard(one)
        assert answer.returncode == 1
        assert "is dead: its CSI driver was restarted" in answer.stderr
        # The driver stages it anew, but that does not heal what was bound before.
        pool.unmount()
        pool.start()
        with bound(pool.path, of("u3")) as three:
            assert told(one) == errno.ENOTCONN
            assert told(three) is None
            healer.step()
            healer.step()
            assert cluster.evicted == ["engine", "janitor"]
