"""The shared tier."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kascade.kube.curvine.config import DATA_MOUNT, cluster_config
from kascade.plan import CurvinePlan, ServingPlan
from tests.unit.kube.rendered import (
    Object,
    container,
    everything,
    find,
    of_kind,
    pod,
    pod_labels,
)

Render = Callable[[ServingPlan], dict[str, list[Object]]]


@pytest.fixture
def cache(default_charts: dict[str, list[Object]]) -> list[Object]:
    return default_charts["cache"]


@pytest.fixture
def three_masters(
    default_plan: ServingPlan, curvine: CurvinePlan, rendered: Render
) -> list[Object]:
    return rendered(replace(default_plan, curvine=replace(curvine, masters=3)))["cache"]


def configurations(objects: list[Object]) -> dict[str, Any]:
    return {
        item["metadata"]["name"]: tomllib.loads(item["data"]["curvine-cluster.toml"])
        for item in of_kind(objects, "ConfigMap")
        if "curvine-cluster.toml" in item["data"]
    }


# --- configuration -----------------------------------------------------------------------------


def test_nothing_is_ever_formatted(cache: list[Object]) -> None:
    for written in configurations(cache).values():
        assert written["format_master"] is False
        assert written["format_worker"] is False


def test_no_time_to_live_in_any_configuration(cache: list[Object]) -> None:
    for written in configurations(cache).values():
        assert not {"ttl_ms", "ttl_action"} & written["client"].keys()


def test_ports_and_directories_are_explicit(curvine: CurvinePlan, cache: list[Object]) -> None:
    written = configurations(cache)["curvine-master"]
    assert written["cluster_id"] == curvine.cluster_id
    assert written["master"]["rpc_port"] == curvine.master_rpc_port
    assert written["master"]["web_port"] == curvine.master_web_port
    assert written["journal"]["rpc_port"] == curvine.master_journal_port
    mounts = {
        mount["name"]: mount["mountPath"]
        for mount in container(pod(find(cache, "StatefulSet", "curvine-master")), "master")[
            "volumeMounts"
        ]
    }
    # Below the mount, whose root holds lost+found.
    assert Path(written["master"]["meta_dir"]).parent == Path(mounts["meta"])
    assert Path(written["journal"]["journal_dir"]).parent == Path(mounts["journal"])
    assert "worker" not in written


def test_worker_size_is_the_plans(plan: ServingPlan, charts: dict[str, list[Object]]) -> None:
    assert plan.curvine is not None
    for worker in plan.curvine.workers:
        written = configurations(charts["cache"])[f"curvine-worker-{worker.group}"]
        assert written["worker"]["data_dir"] == [f"[SSD:{worker.capacity_gib}GB]/data/curvine"]
        assert written["worker"]["dir_reserved"] == f"{plan.curvine.reserved_gib}GB"
        assert written["worker"]["web_port"] == plan.curvine.worker_web_port


def test_masters_know_each_other_by_the_names_they_call_themselves(
    curvine: CurvinePlan, three_masters: list[Object]
) -> None:
    master = find(three_masters, "StatefulSet", "curvine-master")
    (own,) = [
        entry["value"]
        for entry in container(pod(master), "master")["env"]
        if entry["name"] == "CURVINE_MASTER_HOSTNAME"
    ]
    names = [own.replace("$(POD_NAME)", f"curvine-master-{number}") for number in range(3)]
    for written in configurations(three_masters).values():
        addresses = written["journal"]["journal_addrs"]
        assert [address["hostname"] for address in addresses] == names
        assert [address["id"] for address in addresses] == [1, 2, 3]
        assert {address["port"] for address in addresses} == {curvine.master_journal_port}


def test_a_changed_configuration_restarts_the_pods(
    curvine: CurvinePlan, default_plan: ServingPlan, rendered: Render, cache: list[Object]
) -> None:
    changed = rendered(replace(default_plan, curvine=replace(curvine, reserved_gib=7)))["cache"]

    def hashes(objects: list[Object]) -> dict[str, Any]:
        return {
            item["metadata"]["name"]: item["spec"]["template"]["metadata"]["annotations"]
            for item in of_kind(objects, "StatefulSet", "DaemonSet")
            if "annotations" in item["spec"]["template"]["metadata"]
        }

    before, after = hashes(cache), hashes(changed)
    assert before["curvine-master"] == after["curvine-master"]
    assert before["curvine-worker-gpu"] != after["curvine-worker-gpu"]


def test_text_is_escaped(curvine: CurvinePlan) -> None:
    odd = 'a"b\\c'
    written = tomllib.loads(cluster_config(replace(curvine, cluster_id=odd)).to_toml())
    assert written["cluster_id"] == odd


# --- masters and workers -----------------------------------------------------------------------


def test_server_is_the_first_process(cache: list[Object]) -> None:
    for kind, name, service in (
        ("StatefulSet", "curvine-master", "master"),
        ("DaemonSet", "curvine-worker-gpu", "worker"),
    ):
        command = container(pod(find(cache, kind, name)), service)["command"]
        assert command[:3] == ["/app/curvine/lib/curvine-server", "--service", service]


def test_one_master_has_no_budget_and_three_keep_apart(
    cache: list[Object], three_masters: list[Object]
) -> None:
    assert of_kind(cache, "PodDisruptionBudget") == []
    assert "podAntiAffinity" not in pod(find(cache, "StatefulSet", "curvine-master"))["affinity"]

    (budget,) = of_kind(three_masters, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    master = find(three_masters, "StatefulSet", "curvine-master")
    assert master["spec"]["replicas"] == 3
    assert master["spec"]["podManagementPolicy"] == "Parallel"
    (rule,) = pod(master)["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_masters_service_lists_masters_before_they_are_ready(cache: list[Object]) -> None:
    spec = find(cache, "Service", "curvine-master")["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True


def test_volumes_outlive_a_master_but_not_the_masters(cache: list[Object]) -> None:
    spec = find(cache, "StatefulSet", "curvine-master")["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Delete",
        "whenScaled": "Retain",
    }
    assert {claim["spec"]["storageClassName"] for claim in spec["volumeClaimTemplates"]} == {
        "kascade-gp3"
    }


def test_one_worker_daemon_set_per_group(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    assert plan.curvine is not None
    for worker in plan.curvine.workers:
        found = find(charts["cache"], "DaemonSet", f"curvine-worker-{worker.group}")
        assert pod(found)["nodeSelector"] == {
            "sagemaker.amazonaws.com/instance-group-name": worker.group,
            "node.kubernetes.io/instance-type": worker.instance_type,
        }
        assert found["spec"]["updateStrategy"]["rollingUpdate"] == {
            "maxUnavailable": 1,
            "maxSurge": 0,
        }
        limits = container(pod(found), "worker")["resources"]["limits"]
        assert limits == {"memory": f"{worker.size.limit_mib}Mi"}


def test_the_directory_of_the_blocks_is_made_below_the_proven_mount(
    curvine: CurvinePlan, cache: list[Object]
) -> None:
    """A volume of its own would have to be there already, or be made on the root disk."""
    worker = pod(find(cache, "DaemonSet", "curvine-worker-gpu"))
    host = [volume["hostPath"] for volume in worker["volumes"] if "hostPath" in volume]
    assert host == [{"path": curvine.nvme_mount, "type": "Directory"}]
    (data,) = (
        mount
        for mount in container(worker, "worker")["volumeMounts"]
        if mount["mountPath"] == DATA_MOUNT
    )
    guard = container(worker, "check-nvme")
    assert f"{curvine.nvme_mount}/{data['subPath']}" == curvine.host_path
    assert guard["args"] == ["/host/nvme", curvine.nvme_mount, data["subPath"]]
    assert guard["volumeMounts"] == [{"name": data["name"], "mountPath": "/host/nvme"}]


INSTANCE_STORE, EBS = "Amazon EC2 NVMe Instance Storage", "Amazon Elastic Block Store"


def disk(root: Path, name: str, model: str) -> Path:
    """A disk of sysfs, with a partition."""
    place = root / "devices" / name
    (place / f"{name}p1").mkdir(parents=True)
    (place / "device").mkdir()
    (place / "device" / "model").write_text(f"{model:<40}\n")
    return place


def volume(root: Path, name: str, *below: Path) -> Path:
    """A device of LVM or RAID."""
    slaves = root / "devices" / name / "slaves"
    slaves.mkdir(parents=True)
    for one in below:
        (slaves / one.name).symlink_to(one)
    return slaves.parent


def _whole(root: Path) -> Path:
    return disk(root, "nvme1n1", INSTANCE_STORE)


def _partition(root: Path) -> Path:
    return disk(root, "nvme1n1", INSTANCE_STORE) / "nvme1n1p1"


def _striped(root: Path) -> Path:
    pair = [disk(root, f"nvme{n}n1", INSTANCE_STORE) / f"nvme{n}n1p1" for n in (1, 2)]
    return volume(root, "dm-0", volume(root, "md0", *pair))


def _ebs(root: Path) -> Path:
    return disk(root, "nvme1n1", EBS) / "nvme1n1p1"


def _mixed(root: Path) -> Path:
    return volume(root, "dm-0", disk(root, "nvme1n1", INSTANCE_STORE), disk(root, "nvme2n1", EBS))


def _in_memory(root: Path) -> Path:
    return volume(root, "zram0")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_whole, ""),
        (_partition, ""),
        (_striped, ""),
        (_ebs, rf"not from instance storage alone: below it lies {EBS}"),
        (_mixed, rf"not from instance storage alone: .*{EBS}"),
        (_in_memory, r"below it lies no disk of a known model\. Set hyperpod\.nvme_mount"),
        (None, r"/opt/dlami/nvme is a plain directory .* Set hyperpod\.nvme_mount"),
    ],
    ids=["whole", "partition", "striped", "EBS", "mixed", "in memory", "not mounted"],
)
def test_the_worker_asks_for_instance_storage(
    make: Callable[[Path], Path] | None, said: str, cache: list[Object], tmp_path: Path
) -> None:
    guard = container(pod(find(cache, "DaemonSet", "curvine-worker-gpu")), "check-nvme")
    mount = tmp_path / "nvme"
    mount.mkdir()
    table = tmp_path / "mountinfo"
    table.write_text("22 1 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n")
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    if make is not None:
        (numbers / "253:0").symlink_to(make(tmp_path))
        with table.open("a") as rows:
            rows.write(f"36 25 253:0 / {mount} rw,relatime - xfs /dev/x rw\n")
    else:
        with table.open("a") as rows:
            rows.write(f"36 25 253:0 /opt/dlami/nvme {mount} rw,relatime - xfs /dev/x rw\n")
    command = [
        part.replace("/proc/self/mountinfo", str(table)).replace("/sys/dev/block", str(numbers))
        for part in guard["command"]
    ]
    args = [str(mount) if arg == "/host/nvme" else arg for arg in guard["args"]]
    blocks = mount / guard["args"][2]
    for _ in range(2):  # a reboot may have emptied the disk
        shutil.rmtree(blocks, ignore_errors=True)
        answer = subprocess.run([*command, *args], check=False, capture_output=True, text=True)
        assert answer.returncode == bool(said), answer.stderr
        assert re.search(said, answer.stderr.replace("\n", " ")), answer.stderr
        assert bool(answer.stderr) == bool(said)
        assert blocks.is_dir() is not bool(said)
    if not said:
        assert stat.S_IMODE(blocks.stat().st_mode) == 0o700


def test_worker_advertises_its_own_address(cache: list[Object]) -> None:
    worker = container(pod(find(cache, "DaemonSet", "curvine-worker-gpu")), "worker")
    env = {entry["name"]: entry for entry in worker["env"]}
    assert env["CURVINE_WORKER_HOSTNAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


# --- CSI and volumes ---------------------------------------------------------------------------


def test_nothing_restarts_the_node_plugin(cache: list[Object]) -> None:
    node = find(cache, "DaemonSet", "curvine-csi-node")
    assert node["spec"]["updateStrategy"] == {"type": "OnDelete"}
    for item in pod(node)["containers"]:
        assert "livenessProbe" not in item
    assert pod(node)["priorityClassName"] == "system-node-critical"
    assert pod(node)["tolerations"] == [{"operator": "Exists"}]


def test_fuse_runs_in_the_node_plugin(curvine: CurvinePlan, cache: list[Object]) -> None:
    node = find(cache, "DaemonSet", "curvine-csi-node")
    plugin = container(pod(node), "csi-plugin")
    env = {entry["name"]: entry.get("value") for entry in plugin["env"]}
    assert env["MOUNT_MODE"] == "embedded"
    assert plugin["ports"] == [{"name": "m-cv-fuse", "containerPort": curvine.fuse_web_port}]
    (kubelet,) = [
        mount
        for mount in plugin["volumeMounts"]
        if mount.get("mountPropagation") == "Bidirectional"
    ]
    assert kubelet["mountPath"] == "/var/lib/kubelet"
    assert plugin["resources"]["limits"]["memory"] == f"{curvine.csi_size.limit_mib}Mi"
    (logs,) = [volume for volume in pod(node)["volumes"] if volume["name"] == "logs"]
    assert logs["emptyDir"]["sizeLimit"]


def test_registrar_tells_the_kubelet_the_sockets_place_on_the_host(cache: list[Object]) -> None:
    spec = pod(find(cache, "DaemonSet", "curvine-csi-node"))
    paths = {
        volume["name"]: volume["hostPath"]["path"]
        for volume in spec["volumes"]
        if "hostPath" in volume
    }
    args = container(spec, "node-driver-registrar")["args"]
    assert f"--kubelet-registration-path={paths['plugin-dir']}/csi.sock" in args


def test_there_is_no_attacher(cache: list[Object]) -> None:
    assert find(cache, "CSIDriver", "curvine")["spec"]["attachRequired"] is False
    names = [
        item["name"]
        for item in pod(find(cache, "Deployment", "curvine-csi-controller"))["containers"]
    ]
    assert names == ["csi-plugin", "csi-provisioner"]
    for role in of_kind(cache, "ClusterRole"):
        for rule in role["rules"]:
            assert not {"secrets", "volumeattachments"} & set(rule["resources"])


def test_volume_and_claim_are_bound_to_each_other(
    plan: ServingPlan, charts: dict[str, list[Object]]
) -> None:
    assert plan.curvine is not None
    handles = set()
    for volume, engine in zip(plan.curvine.volumes, plan.engines, strict=True):
        # With its engine: on deletion the claim waits for the pods, and the driver for the claim.
        chart = charts[f"engine-{engine.name}"]
        claim = find(chart, "PersistentVolumeClaim", volume.name)
        assert claim["metadata"]["namespace"] == volume.claim_namespace
        assert claim["spec"]["storageClassName"] == ""
        spec = find(chart, "PersistentVolume", claim["spec"]["volumeName"])["spec"]
        assert spec["claimRef"]["name"] == volume.name
        assert spec["claimRef"]["namespace"] == volume.claim_namespace
        assert spec["persistentVolumeReclaimPolicy"] == "Retain"
        assert spec["accessModes"] == ["ReadWriteMany"]
        assert spec["capacity"] == claim["spec"]["resources"]["requests"]
        assert spec["csi"]["volumeAttributes"]["curvine-path"] == volume.curvine_path
        assert "@" not in spec["csi"]["volumeHandle"]
        handles.add(spec["csi"]["volumeHandle"])
    assert len(handles) == len(plan.curvine.volumes)


def test_all_volumes_share_one_fuse_process(charts: dict[str, list[Object]]) -> None:
    keys = {
        tuple(
            (key, value)
            for key, value in item["spec"]["csi"]["volumeAttributes"].items()
            if key != "curvine-path"
        )
        for item in of_kind(everything(charts), "PersistentVolume")
    }
    assert len(keys) == 1


def test_attributes_are_text_and_bound_every_wait(
    curvine: CurvinePlan, default_charts: dict[str, list[Object]]
) -> None:
    (volume,) = of_kind(everything(default_charts), "PersistentVolume")
    attributes = volume["spec"]["csi"]["volumeAttributes"]
    assert {type(value) for value in attributes.values()} == {str}
    for key in (
        "client.conn-timeout-ms",
        "client.conn-retry-max-duration-ms",
        "client.rpc-timeout-ms",
        "client.rpc-retry-max-duration-ms",
        "client.data-timeout-ms",
    ):
        assert attributes[key] == str(curvine.client_timeout_ms)
    assert attributes["client.ttl-ms"] == f"{curvine.ttl_hours}h"
    assert attributes["client.ttl-action"] == "delete"
    assert attributes["negative-timeout-ms"] == "0"
    assert attributes["web-port"] == str(curvine.fuse_web_port)
    assert re.fullmatch(r"[^,:]+:8995", attributes["master-addrs"])


# --- mounts after a restart ----------------------------------------------------------------------


def start_plugin(cache: list[Object], tmp_path: Path, *, answered: bool) -> str:
    """Run the plugin's command with a program in its place; return what it found and said."""
    plugin = container(pod(find(cache, "DaemonSet", "curvine-csi-node")), "csi-plugin")
    driver = tmp_path / "csi"
    driver.write_text('#!/bin/sh\necho "runs with $*; asking: $(ls ' + f'{tmp_path}/run)"\n')
    driver.chmod(0o755)
    handshake = tmp_path / "run"
    handshake.mkdir()
    shell, flag, script, _, _ = plugin["command"]
    script = script.replace("-lt 60", f"-lt {60 if answered else 1}")
    with subprocess.Popen(
        [shell, flag, script, str(handshake), str(driver), *plugin["args"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        asked = handshake / "starting"
        while not asked.exists():
            assert running.poll() is None
        if answered:
            asked.unlink()
        said, _ = running.communicate(timeout=20)
    return said


def test_the_plugin_starts_once_what_it_wrote_down_is_cleared(
    cache: list[Object], tmp_path: Path
) -> None:
    said = start_plugin(cache, tmp_path, answered=True)
    assert said == "runs with --endpoint=$(CSI_ENDPOINT) --nodeid=$(NODE_NAME); asking: \n"


def test_the_plugin_starts_also_when_nobody_clears_it(cache: list[Object], tmp_path: Path) -> None:
    said = start_plugin(cache, tmp_path, answered=False)
    assert "new pods on this node may get dead ones" in said
    assert "runs with" in said


def test_who_heals_mounts_may_evict_pods_and_no_more(
    curvine: CurvinePlan, cache: list[Object]
) -> None:
    roles = [r for r in of_kind(cache, "Role") if r["metadata"]["name"] == "curvine-mounts"]
    (role,) = roles
    assert role["metadata"]["namespace"] == curvine.volumes[0].claim_namespace
    rights = [(rule["resources"], rule["verbs"]) for rule in role["rules"]]
    assert rights == [(["pods"], ["list"]), (["pods/eviction"], ["create"])]
    spec = pod(find(cache, "DaemonSet", "curvine-csi-node"))
    healer = container(spec, "heal-mounts")
    assert healer["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"]: mount for mount in healer["volumeMounts"]}
    # Without propagation it would see the mounts of before its own start alone.
    assert mounts["kubelet-dir"]["mountPropagation"] == "HostToContainer"
    plugin = container(spec, "csi-plugin")
    (ours,) = [m for m in plugin["volumeMounts"] if m["name"] == "handshake"]
    assert ours == mounts["handshake"]
    (volume,) = [v for v in of_kind(cache, "Role") if v["metadata"]["name"] == "curvine-csi-state"]
    assert any("secrets" in r["resources"] and "delete" in r["verbs"] for r in volume["rules"])
    (prefix,) = [a for a in healer["args"] if a.startswith("--volumes=")]
    named = f"{curvine.cluster_id}-{curvine.volumes[0].name}"
    assert named.startswith(prefix.removeprefix("--volumes="))


# --- bootstrap ---------------------------------------------------------------------------------


FAKE_CLI = r"""#!/bin/sh
# curvine-cli --conf F fs COMMAND ...: a directory tree under $POOL; age limits in *.ttl files.
shift 3
command=$1; shift
echo "$command $*" >> "$POOL.log"
case $command in
  stat)
    [ -e "$POOL$1" ] || { echo "stat: Cannot stat" >&2; exit 1; }
    if [ -e "$POOL$1/.ttl" ]; then echo "Ttl action: Delete"; else echo "Ttl action: None"; fi ;;
  mkdir) shift; [ -e "$POOL$1" ] && exit 1; mkdir -p "$POOL$1" ;;
  chmod) [ -z "$NO_CHMOD" ] || exit 1 ;;
  touch) : > "$POOL$1" ;;
  rm)
    shift; rm -r "$POOL$1"
    # A pod mounts the volume just now, as often as $RACES says.
    if [ "$(cat "$POOL.races" 2> /dev/null || echo 0)" -lt "${RACES:-0}" ]; then
      echo $(($(cat "$POOL.races" 2> /dev/null || echo 0) + 1)) > "$POOL.races"
      made=$POOL$RACING; mkdir -p "$made"
      while [ "$made" != "$POOL" ]; do touch "$made/.ttl"; made=${made%/*}; done
    fi ;;
  mv)
    [ -e "$POOL$2" ] && exit 1
    mv "$POOL$1" "$POOL$2"
    [ -z "$DIES" ] || exit 1 ;;
esac
"""


def bootstrap(cache: list[Object], tmp_path: Path, **env: str) -> list[str]:
    """Run the Job's script against a directory and return the commands it gave."""
    pool, log = tmp_path / "pool", tmp_path / "pool.log"
    pool.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    cli = tmp_path / "curvine-cli"
    cli.write_text(FAKE_CLI)
    cli.chmod(0o755)
    (job,) = [
        item for item in of_kind(cache, "Job") if item["metadata"]["name"].startswith("curvine")
    ]
    step = container(pod(job), "bootstrap")
    subprocess.run(
        [*step["command"], str(cli), *step["args"][1:]],
        check=True,
        capture_output=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", "POOL": str(pool), **env},
    )
    return log.read_text().splitlines()


def test_bootstrap_makes_directory_and_marker(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    bootstrap(cache, tmp_path)
    path = tmp_path / f"pool{curvine.volumes[0].curvine_path}"
    assert (path / ".kascade-volume").is_file()


def test_bootstrap_again_changes_nothing(cache: list[Object], tmp_path: Path) -> None:
    bootstrap(cache, tmp_path)
    assert {command.split()[0] for command in bootstrap(cache, tmp_path)} == {"stat"}


def test_bootstrap_replaces_what_a_mount_made(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    path = tmp_path / f"pool{curvine.volumes[0].curvine_path}"
    path.mkdir(parents=True)
    (path / ".ttl").touch()
    bootstrap(cache, tmp_path)
    assert [item.name for item in path.iterdir()] == [".kascade-volume"]


def made_by_a_mount(pool: Path, path: Path) -> None:
    """Make a directory as the CSI plugin does: every missing parent gets the age limit too."""
    path.mkdir(parents=True)
    for part in [path, *path.parents]:
        if pool in part.parents:
            (part / ".ttl").touch()


def expiring(pool: Path) -> list[Path]:
    return list(pool.rglob(".ttl"))


def test_bootstrap_takes_the_age_limit_off_every_parent(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    """The whole tree would go, with the marker, under running engines."""
    pool = tmp_path / "pool"
    path = Path(f"{pool}{curvine.volumes[0].curvine_path}")
    made_by_a_mount(pool, path)
    assert len(expiring(pool)) == len(path.relative_to(pool).parts) >= 3
    bootstrap(cache, tmp_path)
    assert not expiring(pool)
    assert (path / ".kascade-volume").is_file()


def test_bootstrap_keeps_the_files_below_a_parent_that_expires(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    """Such a tree was left by a Job that mended the last directory alone."""
    pool = tmp_path / "pool"
    path = Path(f"{pool}{curvine.volumes[0].curvine_path}")
    made_by_a_mount(pool, path)
    (path / ".ttl").unlink()
    for name in (".kascade-volume", "chunk.data"):
        (path / name).touch()
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap(cache, tmp_path, DIES="1")
    bootstrap(cache, tmp_path)
    assert not expiring(pool)
    assert {item.name for item in path.iterdir()} == {".kascade-volume", "chunk.data"}
    assert [item.name for item in pool.iterdir()] == [path.relative_to(pool).parts[0]]


def test_bootstrap_does_not_lose_to_pods_that_mount_meanwhile(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    pool, racing = tmp_path / "pool", curvine.volumes[0].curvine_path
    path = Path(f"{pool}{racing}")
    made_by_a_mount(pool, path)
    bootstrap(cache, tmp_path, RACES="3", RACING=racing)
    assert not expiring(pool)
    assert (path / ".kascade-volume").is_file()


def test_bootstrap_gives_no_marker_to_what_is_made_again_and_again(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    racing = curvine.volumes[0].curvine_path
    path = Path(f"{tmp_path}/pool{racing}")
    made_by_a_mount(tmp_path / "pool", path)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        bootstrap(cache, tmp_path, RACES="9", RACING=racing)
    assert b"delete the pods that mount it" in caught.value.stderr
    assert not (path / ".kascade-volume").exists()


def test_bootstrap_keeps_what_has_no_age_limit(
    curvine: CurvinePlan, cache: list[Object], tmp_path: Path
) -> None:
    path = tmp_path / f"pool{curvine.volumes[0].curvine_path}"
    path.mkdir(parents=True)
    (path / "chunk.data").touch()
    bootstrap(cache, tmp_path, NO_CHMOD="1")
    assert {item.name for item in path.iterdir()} == {".kascade-volume", "chunk.data"}


def test_a_changed_job_has_another_name(
    curvine: CurvinePlan, default_plan: ServingPlan, rendered: Render, cache: list[Object]
) -> None:
    changed = rendered(replace(default_plan, curvine=replace(curvine, image="other:1")))["cache"]

    def names(objects: list[Object]) -> set[str]:
        return {item["metadata"]["name"] for item in of_kind(objects, "Job")}

    assert len(names(cache) & names(changed)) == 1  # the keys' Job, which has another image
    for job in of_kind(cache, "Job"):
        assert "ttlSecondsAfterFinished" not in job["spec"]


# --- who talks to whom -------------------------------------------------------------------------


def peers(policy: Object, port: int) -> set[str]:
    """Components that a policy lets in on a port."""
    return {
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in policy["spec"]["ingress"]
        for peer in rule["from"]
        if "podSelector" in peer and port in [entry["port"] for entry in rule["ports"]]
    }


def test_ports_are_open_to_those_who_need_them(curvine: CurvinePlan, cache: list[Object]) -> None:
    master = find(cache, "NetworkPolicy", "curvine-master")
    worker = find(cache, "NetworkPolicy", "curvine-worker")
    assert peers(master, curvine.master_journal_port) == {"master"}
    assert peers(master, curvine.master_rpc_port) == {
        "master",
        "worker",
        "csi-node",
        "csi-controller",
        "bootstrap",
    }
    assert peers(worker, curvine.worker_rpc_port) == {"csi-node"}
    assert peers(master, curvine.master_web_port) == set()


def test_web_ports_are_open_to_the_collector_only(
    default_plan: ServingPlan, curvine: CurvinePlan, cache: list[Object]
) -> None:
    blocks = {
        (peer["ipBlock"]["cidr"], entry["port"])
        for policy in of_kind(cache, "NetworkPolicy")
        if policy["metadata"]["namespace"] == curvine.namespace
        for rule in policy["spec"].get("ingress", [])
        for peer in rule["from"]
        if "ipBlock" in peer
        for entry in rule["ports"]
    }
    ports = (curvine.master_web_port, curvine.worker_web_port, curvine.fuse_web_port)
    cidrs = default_plan.network.collector_cidrs
    assert blocks == {(cidr, port) for cidr in cidrs for port in ports}


def test_without_curvine_there_is_no_cache_chart(
    default_plan: ServingPlan, rendered: Render
) -> None:
    engine = default_plan.engines[0]
    bare = replace(engine, lmcache=replace(engine.lmcache, l2=None))
    charts = rendered(replace(default_plan, curvine=None, engines=(bare,)))
    assert list(charts) == ["platform", f"engine-{engine.name}", "router", "dashboards"]
    assert of_kind(everything(charts), "PersistentVolumeClaim", "Job") == []


def test_pods_carry_the_same_cluster(curvine: CurvinePlan, cache: list[Object]) -> None:
    for item in of_kind(cache, "StatefulSet", "DaemonSet"):
        assert pod_labels(item)["app.kubernetes.io/instance"] == curvine.cluster_id
