"""`kascade verify` passes on a sound system, from outside and as its Job, and names what is not."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.planted import OWN, PLANTED, Planted
from tests.e2e.replicas import as_rendered, container, wait_for_restart, wait_until_registered
from tools.local.pods import Container, pod_of_job
from tools.local.substitutions import edit_json
from tools.local.system import ROOT, LocalSystem

Measure = Callable[[str, str], None]

TOKENS = 1500
"""Of a prompt: five whole chunks are enough to tell a hit from a miss."""

CHOSEN = ("hash algorithm", "base path", "another directory behind one path", "another key")
"""Those that need another cache server and no other engine, which takes a minute to start."""


def verify(system: LocalSystem, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would."""
    target = system.folder / "target.json"
    target.write_text(system.target.to_json())
    words = ["verify", "config/laptop.yaml", "--target", str(target), f"--tokens={TOKENS}"]
    return subprocess.run(
        [sys.executable, "-m", "kascade.cli", *words, *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.fixture(scope="module", autouse=True)
def sound_afterwards(local: LocalSystem) -> Iterator[None]:
    """Take the last fault away: replicas with different keys take nothing from each other."""
    yield
    run(local, as_rendered(local, local.target.replicas[1], "lmcache"))


def test_a_sound_system_passes(system: LocalSystem) -> None:
    ran = verify(system)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "FAILED" not in ran.stdout
    assert "one directory" in ran.stdout


def test_it_passes_as_the_job_of_the_chart(system: LocalSystem) -> None:
    """The rendered command, arguments and program; Service names come from a hosts file."""
    objects = system.deployment.objects
    (job,) = (one for one in objects if one["kind"] == "CronJob")
    template = job["spec"]["jobTemplate"]["spec"]["template"]
    namespace = job["metadata"]["namespace"]
    (found,) = pod_of_job(template, name="verify", namespace=namespace).containers
    program = system.folder / "opt" / "verify"
    program.mkdir(parents=True, exist_ok=True)
    (volume,) = template["spec"]["volumes"]
    for name, text in config_map(objects, volume["configMap"]["name"]).items():
        (program / name).write_text(text)
    hosts = [f"{pod.address} tiny-pods" for pod in system.engines]
    hosts.append(f"{system.router.address} tiny-router")
    (system.folder / "hosts").write_text("\n".join([Path("/etc/hosts").read_text(), *hosts, ""]))
    script = f'mount --bind {system.folder}/hosts /etc/hosts && exec "$@"'
    ran = subprocess.run(
        [unshare(), "--mount", "sh", "-c", script, "verify", *found.argv],
        env={**os.environ, **found.environment, "PYTHONPATH": str(program.parent)},
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "FAILED" not in ran.stdout


def test_a_prompt_below_a_chunk_is_refused(system: LocalSystem) -> None:
    ran = verify(system, "--tokens=200")
    assert ran.returncode == 2
    assert "256" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("name", CHOSEN)
def test_a_planted_fault_is_named(system: LocalSystem, measured: Measure, name: str) -> None:
    """The next one replaces it, and nothing of it is left when the tests of this file end."""
    plant(system, name)
    ran = verify(system)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    for cause in PLANTED[name].found:
        assert f"({cause})" in ran.stdout
    measured(f"verify, {name}", f"named: {', '.join(PLANTED[name].found)}")


def unshare() -> str:
    """Return the program that gives a process mounts of its own."""
    found = shutil.which("unshare")
    assert found is not None, "unshare, of util-linux, makes the mounts of these tests"
    return found


def config_map(objects: tuple[dict[str, Any], ...], name: str) -> dict[str, str]:
    (found,) = (
        one for one in objects if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name
    )
    data: dict[str, str] = found["data"]
    return data


def plant(system: LocalSystem, name: str) -> None:
    """Give the second replica a cache server with a fault."""
    sound = as_rendered(system, system.target.replicas[1], "lmcache")
    fault, own = PLANTED[name], system.folder / "planted" / name.replace(" ", "-")
    own.parent.mkdir(exist_ok=True)
    if "serde" in fault.adapter:
        own.write_bytes(secrets.token_bytes(32))
    run(system, spoilt(sound, fault, own, system.cache_directory))


def spoilt(container: Container, fault: Planted, own: Path, shared: Path | None) -> Container:
    """Return the container with the fault."""

    def edit(adapter: dict[str, Any]) -> None:
        adapter.update(json.loads(json.dumps(fault.adapter).replace(OWN, str(own))))

    container = with_flags(edit_json(container, "--l2-adapter=", edit), fault.server)
    if fault.mount is not None:
        script = f'mount -t tmpfs -o size={fault.mount}m none {shared} && exec "$@"'
        words = (unshare(), "--mount", "sh", "-c", script, "server", *container.argv)
        container = replace(container, argv=words)
    return container


def with_flags(container: Container, flags: Any) -> Container:
    words = [word for word in container.argv if word.partition("=")[0] not in flags]
    return replace(container, argv=(*words, *(f"{flag}={v}" for flag, v in flags.items())))


def run(system: LocalSystem, wanted: Container) -> None:
    """Run the second replica's cache server otherwise, and wait for its engine to register."""
    replica = system.target.replicas[1]
    running = container(system, replica, "lmcache")
    restarts = running.restarts
    running.replace(wanted)
    wait_for_restart(system, running, restarts)
    wait_until_registered(system, replica)
