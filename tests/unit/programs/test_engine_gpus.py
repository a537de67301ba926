"""The rendered proof of GPUs, run for real beside a driver that is played."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kascade import ServingPlan, plan_file
from tests.unit.kube.rendered import Object, container, find, pod, render

CONFIG = Path(__file__).parents[3] / "config"

DRIVER = '''\
import ctypes, os

class Driver:
    """The four functions that are asked, as the environment says."""

    def __init__(self, name):
        assert name == "libcuda.so.1"
        if "GPUS" not in os.environ:
            raise OSError(name + ": cannot open shared object file")
        self.gpus = [int(n) for n in os.environ["GPUS"].split(",") if n]

    def cuInit(self, flags):
        return int(os.environ.get("STATUS", 0))

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.gpus)
        return 0

    def cuDeviceGet(self, device, index):
        device._obj.value = self.gpus[index]
        return 0

    def cuDeviceGetUuid_v2(self, raw, device):
        raw._obj[15] = device.value
        return 0

ctypes.CDLL = Driver
'''


def named(*numbers: int) -> str:
    return ",".join(f"GPU-00000000-0000-0000-0000-{number:012x}" for number in numbers)


@cache
def _rendered() -> tuple[ServingPlan, dict[str, list[Object]]]:
    plan = plan_file(CONFIG / "fleet.yaml")
    return plan, render(plan)


class Node:
    """A folder with the pod's shared memory, its programs, and the driver."""

    def __init__(self, folder: Path, *, gpus: int) -> None:
        self.folder = folder
        plan, charts = _rendered()
        engine = next(engine for engine in plan.engines if engine.gpus == gpus)
        self.spec = pod(find(charts[f"engine-{engine.name}"], "Deployment", engine.name))
        (source,) = (v for v in self.spec["volumes"] if v["name"] == "programs")
        data = find(charts["platform"], "ConfigMap", source["configMap"]["name"])["data"]
        package = folder / "kascade_engine"
        package.mkdir()
        for name, text in data.items():
            (package / name).write_text(text)
        (folder / "sitecustomize.py").write_text(DRIVER)
        self.file = folder / "kascade-gpus"

    def run(self, name: str, **driver: str) -> subprocess.CompletedProcess[str]:
        """Run one container with the driver that it is given."""
        found: Object = container(self.spec, name)
        argv: list[str] = [*found["command"], *found["args"]]
        assert argv[0] == "python3"
        env = {entry["name"]: entry["value"] for entry in found["env"]}
        (mount,) = (m for m in found["volumeMounts"] if m["name"] == "programs")
        assert mount["mountPath"] == f"{env['PYTHONPATH']}/kascade_engine"
        words = [word.replace("/dev/shm", str(self.folder)) for word in argv[1:]]  # noqa: S108
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, **env, "PYTHONPATH": str(self.folder), **driver},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, gpus=4)


def test_both_see_the_engines_gpus(node: Node) -> None:
    taken = node.run("check-gpu", GPUS="2,3,4,5")
    assert taken.returncode == 0, taken.stderr
    assert node.file.read_text() == named(2, 3, 4, 5)
    # The server sees those of others as well, in another order, and is limited to its own.
    found = node.run("check-cache-gpu", GPUS="3,0,2,1,5,4")
    assert found.returncode == 0, found.stderr
    assert "the LMCache server sees" in found.stdout


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ({}, "needs 4 GPUs and sees none: libcuda.so.1 cannot be loaded"),
        ({"GPUS": ""}, "needs 4 GPUs and sees 0: none."),
        ({"GPUS": "0"}, "needs 4 GPUs and sees 1: GPU-00000000-"),
        ({"GPUS": "0,1", "STATUS": "100"}, "cuInit says 100 (no device is visible)"),
        ({"GPUS": "0,1", "STATUS": "803"}, "cuInit says 803 (the node's driver is too old"),
    ],
)
def test_an_engine_without_its_gpus_is_told_what_to_change(
    node: Node, driver: dict[str, str], said: str
) -> None:
    ran = node.run("check-gpu", **driver)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert "DEVICE_LIST_STRATEGY=envvar,cdi-cri" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert not node.file.exists()


def test_an_engine_with_the_gpus_of_others_is_not_started(node: Node) -> None:
    ran = node.run("check-gpu", GPUS="0,1,2,3,4,5,6,7")
    assert ran.returncode == 1
    assert "was given 4 GPUs and sees 8" in ran.stderr


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ({}, f"{named(4)}, {named(5)} and its LMCache server sees none"),
        ({"GPUS": "0,1,2", "STATUS": "100"}, "its LMCache server sees none: cuInit says 100"),
        ({"GPUS": "0,1,2,3,5"}, f"so not {named(4)}: "),
    ],
)
def test_a_server_without_the_engines_gpus_is_told_what_to_change(
    node: Node, driver: dict[str, str], said: str
) -> None:
    node.file.write_text(named(2, 3, 4, 5))
    ran = node.run("check-cache-gpu", **driver)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert "accept-nvidia-visible-devices-envvar-when-unprivileged = true" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_the_server_is_limited_to_the_engines_gpus(node: Node) -> None:
    """Four engines of a node then have a context each on a GPU of their own."""
    node.file.write_text(named(2, 3, 4, 5))
    shell, flag, script, *_ = container(node.spec, "lmcache")["command"]
    script = script.replace("/dev/shm", str(node.folder))  # noqa: S108
    argv = [shell, flag, script, str(node.folder / "started"), "printenv", "CUDA_VISIBLE_DEVICES"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout == f"{named(2, 3, 4, 5)}\n"
