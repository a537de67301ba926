"""The AWS side by itself: it rejects, replaces, announces, keeps to the loopback and ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.rehearsal.aws.callback import Callback
from tests.rehearsal.aws.emulator import Emulator
from tests.rehearsal.inventory import wait_until
from tools.rehearsal_env import RehearsalEnvironment, rehearsal_environment
from tools.servers import listening

pytestmark = pytest.mark.rehearsal

TIMEOUT_SECONDS = 30
ROLE = "arn:aws:iam::000000000000:role/nodes"
NODEGROUP = {
    "ClusterName": "kascade",
    "NodeRole": ROLE,
    "InstanceTypes": ["m7i.xlarge"],
    "Subnets": ["subnet-0a1b2c3d"],
    "ScalingConfig": {"MinSize": 2, "DesiredSize": 2, "MaxSize": 4},
}
CLUSTER = {
    "Name": "kascade",
    "RoleArn": ROLE,
    "ResourcesVpcConfig": {"SubnetIds": ["subnet-0a1b2c3d"]},
}
HYPERPOD = {
    "ClusterName": "kascade",
    "VpcConfig": {"SecurityGroupIds": ["sg-0a1b2c3d"], "Subnets": ["subnet-0a1b2c3d"]},
}


class Nodes:
    """Hears of node groups, and rejects those with an impossible number of nodes."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if int(event["properties"].get("ScalingConfig", {}).get("DesiredSize", 0)) > 100:
            message = "There are no 100 machines."
            raise ValueError(message)
        self.heard.append((event["action"], event["type"]))


@pytest.fixture(scope="module")
def installed() -> RehearsalEnvironment:
    return rehearsal_environment()


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture(scope="module")
def aws(
    installed: RehearsalEnvironment, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Emulator]:
    scratch = tmp_path_factory.mktemp("emulator")
    with (
        Callback(nodes) as callback,
        Emulator(
            scratch / "aws",
            installed=installed,
            region="us-west-2",
            kubeconfig=scratch / "kubeconfig",
            nodes_url=callback.url,
        ) as emulator,
    ):
        yield emulator


def settle(aws: Emulator, stack: str) -> str:
    def working() -> bool:
        return aws.stacks().get(stack, "gone").endswith("_IN_PROGRESS")

    assert not wait_until(working, timeout_seconds=TIMEOUT_SECONDS)
    return aws.stacks().get(stack, "gone")


def put(aws: Emulator, stack: str, **resources: tuple[str, dict[str, Any]]) -> str:
    """Create or update a stack and return the status it ends in."""
    declared = {
        name: {"Type": kind, "Properties": properties}
        for name, (kind, properties) in resources.items()
    }
    body = json.dumps({"Resources": declared})
    client = aws.client("cloudformation")
    call = client.update_stack if stack in aws.stacks() else client.create_stack
    call(StackName=stack, TemplateBody=body)
    return settle(aws, stack)


def reasons(aws: Emulator, stack: str) -> list[str]:
    return [
        event["ResourceStatusReason"]
        for event in aws.events(stack)
        if event["ResourceStatus"].endswith("_FAILED")
    ]


def test_it_listens_on_the_loopback_only(aws: Emulator) -> None:
    assert listening(aws.pid) == {aws.url.removeprefix("http://")}


def test_a_fault_deep_inside_is_refused_with_its_place(aws: Emulator) -> None:
    faulty = HYPERPOD | {"Orchestrator": {"Eks": {"ClusterArn": "kascade", "Version": "1"}}}
    assert put(aws, "faulty", it=("AWS::SageMaker::Cluster", faulty)) == "ROLLBACK_COMPLETE"
    (reason,) = reasons(aws, "faulty")
    assert "Orchestrator/Eks: Additional properties are not allowed ('Version'" in reason


def test_a_type_that_emulates_a_service_is_checked_as_well(aws: Emulator) -> None:
    wrong = NODEGROUP | {"AmiType": "AL1"}
    assert put(aws, "builtin", it=("AWS::EKS::Nodegroup", wrong)) == "ROLLBACK_COMPLETE"
    assert "AmiType: 'AL1' is not one of" in reasons(aws, "builtin")[0]


def test_an_unknown_type_is_a_sentence(aws: Emulator) -> None:
    with pytest.raises(Exception, match=r"Unrecognized resource types: \[AWS::No::Such\]"):
        put(aws, "unknown", it=("AWS::No::Such", {}))


def test_a_refused_announcement_fails_the_resource_in_its_words(
    aws: Emulator, nodes: Nodes
) -> None:
    many = NODEGROUP | {"ScalingConfig": {"MinSize": 2, "DesiredSize": 200, "MaxSize": 400}}
    done = put(aws, "many", c=("AWS::EKS::Cluster", CLUSTER), n=("AWS::EKS::Nodegroup", many))
    assert done == "ROLLBACK_COMPLETE"
    assert reasons(aws, "many") == ["There are no 100 machines."]
    assert nodes.heard == []


def test_a_replacement_makes_another_before_it_deletes(aws: Emulator, nodes: Nodes) -> None:
    kind = "AWS::EKS::Nodegroup"
    cluster = ("AWS::EKS::Cluster", CLUSTER)
    nodes.heard.clear()
    assert put(aws, "groups", c=cluster, n=(kind, NODEGROUP)) == "CREATE_COMPLETE"
    old = aws.resources("groups")["n"]
    larger = NODEGROUP | {"ScalingConfig": {"MinSize": 2, "DesiredSize": 3, "MaxSize": 4}}
    assert put(aws, "groups", c=cluster, n=(kind, larger)) == "UPDATE_COMPLETE"
    assert aws.resources("groups")["n"] == old
    other = larger | {"InstanceTypes": ["m5.xlarge"]}
    assert put(aws, "groups", c=cluster, n=(kind, other)) == "UPDATE_COMPLETE"
    assert aws.resources("groups")["n"] != old
    assert nodes.heard == [(what, kind) for what in ("create", "update", "create", "delete")]
    mine = [c for c in aws.changes() if (c.stack, c.logical_id) == ("groups", "n")]
    assert [(c.action, c.changed) for c in mine] == [
        ("create", ()),
        ("update", ()),
        ("replace", ("InstanceTypes",)),
        ("delete", ()),
    ]


def test_a_replacement_that_keeps_its_name_is_refused(aws: Emulator) -> None:
    kind = "AWS::SageMaker::Cluster"
    assert put(aws, "pod", it=(kind, HYPERPOD)) == "CREATE_COMPLETE"
    other = {"SecurityGroupIds": ["sg-0a1b2c3d"], "Subnets": ["subnet-0a1b2c3d", "subnet-11111111"]}
    moved = HYPERPOD | {"VpcConfig": other}
    assert put(aws, "pod", it=(kind, moved)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing" in reasons(aws, "pod")[0]
    assert put(aws, "pod", it=(kind, moved | {"ClusterName": "other"})) == "UPDATE_COMPLETE"
    assert put(aws, "twin", it=(kind, moved | {"ClusterName": "other"})) == "ROLLBACK_COMPLETE"
    assert "already exists" in reasons(aws, "twin")[0]


def test_the_shim_copies_the_kubeconfig_and_does_nothing_else(tmp_path: Path) -> None:
    shim = ROOT / "tests" / "rehearsal" / "aws" / "programs" / "aws"
    given, asked = tmp_path / "given", tmp_path / "asked"
    given.write_text("of the rehearsal")
    environment = {**os.environ, "REHEARSAL_KUBECONFIG": str(given)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(shim), *arguments]
        return subprocess.run(argv, env=environment, check=False, capture_output=True, text=True)

    done = run("eks", "update-kubeconfig", "--name", "kascade", "--kubeconfig", str(asked))
    assert (done.returncode, asked.read_text()) == (0, "of the rehearsal")
    other = run("s3", "cp", "s3://x/y", ".")
    assert other.returncode == 2
    assert "not: aws s3 cp s3://x/y ." in other.stderr


def test_it_ends_with_whoever_started_it(installed: RehearsalEnvironment, tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from tests.rehearsal.aws.emulator import Emulator
from tools.rehearsal_env import RehearsalEnvironment
scratch = Path({str(tmp_path)!r})
installed = RehearsalEnvironment(root=Path({str(installed.root)!r}))
with Emulator(scratch / "aws", installed=installed, region="us-west-2", kubeconfig=scratch) as aws:
    print(aws.pid, flush=True)
    time.sleep(60)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    emulator = int(parent.stdout.readline())
    os.kill(emulator, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)

    def alive() -> bool:
        try:
            os.kill(emulator, 0)
        except ProcessLookupError:
            return False
        return Path(f"/proc/{emulator}/stat").read_text().split()[2] != "Z"

    began = time.monotonic()
    assert not wait_until(alive, timeout_seconds=10)
    assert time.monotonic() - began < 10
