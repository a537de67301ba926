"""Curvine's rendered files and volumes against the schema of its own source."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cdk8s
import pytest
import yaml

from k8s.charts import build_charts
from kascade import ServingPlan, plan_file
from kascade.catalog.images import IMAGES
from kascade.kube.curvine.csi import DRIVER
from tests.checkout import CONFIGS, ROOT
from tests.contract.curvine_schema import VOLUME_ATTRIBUTES, refusals, unknown
from tests.contract.pods import containers, pod_specs

Object = dict[str, Any]
FILE = "curvine-cluster.toml"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One process with the file that it reads."""

    config: Object
    role: str
    hostname: str
    mounts: tuple[str, ...]

    def refused(self, change: Callable[[Object], object] | None = None) -> list[str]:
        """Why it would not start, after a change of its file."""
        config = copy.deepcopy(self.config)
        if change is not None:
            change(config)
        return list(refusals(config, role=self.role, hostname=self.hostname, mounts=self.mounts))


def render(plan: ServingPlan) -> list[Object]:
    charts = build_charts(cdk8s.Testing.app(), plan)
    return [item for chart in charts.in_order for item in chart.to_json()]


def three_masters(folder: Path) -> Path:
    """A configuration that does not ship: three masters."""
    config = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    config["cache"] = {"l2": {"kind": "curvine", "masters": 3}}
    config["kubernetes"] = {"system_group": {"count": 4, "max_count": 4}}
    path = folder / "three.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


WITH_CURVINE = [
    name for name in CONFIGS if plan_file(ROOT / "config" / f"{name}.yaml").curvine is not None
]


@pytest.fixture(scope="session", params=[*WITH_CURVINE, "three"])
def objects(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Object]:
    """The objects of every configuration that has Curvine."""
    path = (
        three_masters(tmp_path_factory.mktemp("three"))
        if request.param == "three"
        else ROOT / "config" / f"{request.param}.yaml"
    )
    return render(plan_file(path))


@pytest.fixture(scope="session")
def default() -> list[Object]:
    return render(plan_file(ROOT / "config" / "default.yaml"))


def files(objects: list[Object]) -> dict[str, Object]:
    return {
        item["metadata"]["name"]: tomllib.loads(item["data"][FILE])
        for item in objects
        if item["kind"] == "ConfigMap" and FILE in item.get("data", {})
    }


def cases(objects: list[Object]) -> Iterator[Case]:
    """Yield every master and the workers of every group."""
    read = files(objects)
    specs = dict(pod_specs(objects))
    counts = {
        f"{item['kind']}/{item['metadata']['name']}": item["spec"].get("replicas", 1)
        for item in objects
        if item["kind"] == "StatefulSet"
    }
    for role in ("master", "worker"):
        for owner, container in containers(objects, role):
            (name,) = [
                volume["configMap"]["name"]
                for volume in specs[owner]["volumes"]
                if "configMap" in volume
            ]
            env = {entry["name"]: entry.get("value", "") for entry in container["env"]}
            for number in range(counts.get(owner, 1)):
                pod = f"{owner.partition('/')[2]}-{number}"
                called = env.get("CURVINE_MASTER_HOSTNAME", "").replace("$(POD_NAME)", pod)
                yield Case(
                    config=read[name],
                    role=role,
                    hostname=called,
                    mounts=tuple(mount["mountPath"] for mount in container["volumeMounts"]),
                )


# --- what is rendered -----------------------------------------------------------------------------


def test_no_key_is_dropped_or_misread(objects: list[Object]) -> None:
    found = files(objects)
    assert len(found) >= 2
    assert [sentence for config in found.values() for sentence in unknown(config)] == []


def test_every_process_would_start(objects: list[Object]) -> None:
    found = list(cases(objects))
    assert {case.role for case in found} == {"master", "worker"}
    assert [case.refused() for case in found] == [[]] * len(found)


def test_every_master_is_a_member_of_its_group(objects: list[Object]) -> None:
    masters = [case for case in cases(objects) if case.role == "master"]
    members = [peer["hostname"] for peer in masters[0].config["journal"]["journal_addrs"]]
    assert sorted(case.hostname for case in masters) == sorted(members)


def test_volumes_say_only_what_the_driver_passes_on(objects: list[Object]) -> None:
    version = IMAGES["curvine_csi"].reference.partition("@")[0].rpartition(":")[2]
    allowed = VOLUME_ATTRIBUTES[version]
    volumes = [
        item["spec"]["csi"]["volumeAttributes"]
        for item in objects
        if item["kind"] == "PersistentVolume" and item["spec"]["csi"]["driver"] == DRIVER
    ]
    assert volumes
    for attributes in volumes:
        assert set(attributes) - allowed == set()
        assert {"master-addrs", "curvine-path"} <= set(attributes)
        assert all(isinstance(value, str) and value for value in attributes.values())


# --- what must be noticed -------------------------------------------------------------------------


def put(section: str, **values: object) -> Callable[[Object], object]:
    return lambda config: config[section].update(values)


def take(*path: str) -> Callable[[Object], object]:
    def change(config: Object) -> None:
        *outer, key = path
        for step in outer:
            config = config[step]
        del config[key]

    return change


def strangers(config: Object) -> None:
    config["journal"]["journal_addrs"][0]["hostname"] = "somebody-else"


REFUSED: dict[str, tuple[str, Callable[[Object], object], str]] = {
    "format_master left out": ("master", take("format_master"), "format_master is not false"),
    "format_worker left out": ("worker", take("format_worker"), "format_worker is not false"),
    "format_master on": (
        "master",
        lambda config: config.update(format_master=True),
        "format_master is not false",
    ),
    "a master that is no member": ("master", strangers, "is not in journal_addrs"),
    "no members": ("master", take("journal", "journal_addrs"), "is not in journal_addrs"),
    "an unknown policy": (
        "master",
        put("master", worker_policy="round_robin"),
        "worker_policy round_robin is unknown",
    ),
    "blacklisted before a heartbeat": (
        "master",
        put("master", worker_blacklist_interval="2s"),
        "worker_blacklist_interval is below the heartbeat",
    ),
    "lost before a heartbeat": (
        "master",
        put("master", worker_lost_interval="500"),
        "worker_lost_interval is below the heartbeat",
    ),
    "no connection": ("master", put("master", conn_limit=0), "conn_limit is 0"),
    "no connection in all": ("master", put("master", global_limit=0), "global_limit is 0"),
    "metadata at a volume's root": (
        "master",
        put("master", meta_dir="/data/meta"),
        "meta_dir is the root of a volume",
    ),
    "journal at a volume's root": (
        "master",
        put("journal", journal_dir="/data/journal/"),
        "journal_dir is the root of a volume",
    ),
    "metadata nowhere": ("master", take("master", "meta_dir"), "meta_dir is not absolute"),
    "no directory": ("worker", put("worker", data_dir=[]), "data_dir is empty"),
    "a size with a point": (
        "worker",
        put("worker", data_dir=["[SSD:1.5TB]/data/curvine"]),
        "does not parse",
    ),
    "a size in Gi": ("worker", put("worker", data_dir=["[SSD:500Gi]/data"]), "does not parse"),
    "a disk of no kind": ("worker", put("worker", data_dir=["[NVME:5GB]/d"]), "does not parse"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_refusal_to_start_is_seen(default: list[Object], mistake: str) -> None:
    role, change, words = REFUSED[mistake]
    case = next(case for case in cases(default) if case.role == role)
    (sentence,) = case.refused(change)
    assert words in sentence


DROPPED: dict[str, tuple[Callable[[Object], object], str]] = {
    "a misspelt key": (put("master", worker_polcy="robin"), "[master] has no worker_polcy"),
    "a key of another section": (put("worker", meta_dir="/x"), "[worker] has no meta_dir"),
    "a section that is gone": (
        lambda config: config.update(s3_gateway={"listen": "0.0.0.0:9900"}),
        "[s3_gateway] is no section",
    ),
    "a key at the top": (lambda config: config.update(cluster="x"), "the file has no cluster"),
    "a size in Gi": (put("worker", dir_reserved="50Gi"), "dir_reserved = '50Gi' is of another"),
    "a bare number for a size": (put("client", block_size=64), "block_size = 64 is of another"),
    "text for a port": (put("master", rpc_port="8995"), "rpc_port = '8995' is of another type"),
    "a switch for a number": (put("client", replicas=True), "replicas = True is of another"),
    "text for a switch": (
        put("client", short_circuit="false"),
        "short_circuit = 'false' is of another type",
    ),
    "a time in words": (
        put("master", ttl_checker_interval="5 minutes"),
        "ttl_checker_interval = '5 minutes' is of another type",
    ),
    "a member without a port": (
        put("journal", journal_addrs=[{"id": 1, "hostname": "x"}]),
        "journal_addrs =",
    ),
}


@pytest.mark.parametrize("mistake", DROPPED)
def test_what_curvine_would_drop_is_seen(default: list[Object], mistake: str) -> None:
    change, words = DROPPED[mistake]
    config = copy.deepcopy(files(default)["curvine-worker-gpu"])
    change(config)
    (sentence,) = unknown(config)
    assert words in sentence


@pytest.mark.parametrize(
    "key",
    [
        "mnt-path",  # the driver rejects it
        "readonly",  # a bare switch
        "entry-timeout",  # upstream's samples; ignored since 0.4.0
        "client.ttl",
        "client.pipeline-timeout-ms",  # in the file alone
        "client.rpc_timeout_ms",
        "ttl-ms",
    ],
)
def test_a_key_that_no_flag_stands_behind_is_not_allowed(key: str) -> None:
    assert key not in VOLUME_ATTRIBUTES["v0.4.1"]
