"""`kascade status`: what runs beside the plan, and why the rest does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kascade import plan_file
from kascade.cli import status as status_module
from kascade.cli.main import main
from kascade.cli.pods import pods_states
from kascade.errors import KascadeError
from kascade.preflight import account
from tests.unit.preflight.ordinary import NOW, hyperpod_cluster, ordinary, stack
from tests.unit.preflight.played import DENIED, THROTTLED, Answer, PlayedAws, Refused, Unreachable

ROOT = Path(__file__).parents[3]
DEFAULT = ROOT / "config" / "default.yaml"
PLAN = plan_file(DEFAULT)
SERVER = "https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com"
URL = "http://qwen2-7b-router.kascade:8000/v1"
ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/0a1b2c3d4e5f"

_FAKE = """
import json, os, sys
given = json.loads(open(os.environ["STATUS_KUBECTL"]).read())
asked = [a for a in sys.argv[1:] if not a.startswith("--")]
if "error" in given:
    sys.exit(given["error"])
if asked[:2] == ["config", "view"]:
    print(json.dumps({"clusters": [{"cluster": {"server": given["server"]}}]}))
elif asked == ["get", "pods"]:
    print(json.dumps({"items": given["pods"]}))
else:
    sys.exit(f"unknown: {sys.argv}")
"""

Look = Callable[..., tuple[int, str, str]]


@pytest.fixture
def look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Look:
    folder = tmp_path / "bin"
    folder.mkdir()
    state, script = tmp_path / "state.json", tmp_path / "fake.py"
    script.write_text(_FAKE)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("STATUS_KUBECTL", str(state))

    def run(
        *arguments: str,
        answers: dict[str, Answer] | None = None,
        kubectl: dict[str, Any] | None = None,
        config: Path = DEFAULT,
    ) -> tuple[int, str, str]:
        if kubectl is not None:
            state.write_text(json.dumps(kubectl))
            program = folder / "kubectl"
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "$@"\n')
            program.chmod(0o755)
        aws = PlayedAws(deployed() | (answers or {}))
        monkeypatch.setattr(account, "open_session", aws.session)
        code = main(["status", str(config), *arguments])
        out, err = capsys.readouterr()
        assert aws.wrong == []
        assert "Traceback" not in out + err
        return code, out, err

    return run


def deployed() -> dict[str, Answer]:
    outputs = [
        {"OutputKey": "Endpointqwen27b", "OutputValue": URL, "Description": "OpenAI API"},
        {"OutputKey": "Kubeconfig", "OutputValue": "aws eks", "Description": "not an address"},
    ]
    return ordinary(PLAN) | {
        "sagemaker.DescribeCluster": hyperpod_cluster(PLAN, "kascade"),
        "sagemaker.ListClusterNodes": {"ClusterNodeSummaries": []},
        "sagemaker.ListClusterEvents": {"Events": []},
        "sagemaker.DescribeClusterEvent": Refused("ResourceNotFound"),
        "eks.DescribeCluster": {"cluster": {"name": "kascade", "endpoint": SERVER}},
        "cloudformation.DescribeStacks": {
            "Stacks": [stack("kascade", "serving", Outputs=outputs), stack("other", "serving")]
        },
    }


def pod(name: str, *, ready: bool = True, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name},
        "status": {"phase": "Running" if ready else "Pending", "conditions": conditions, **status},
    }


TWO = {"server": SERVER, "pods": [pod("a"), pod("b")]}


def test_all_of_it_runs(look: Look) -> None:
    code, out, _ = look(kubectl=TWO)
    assert code == 0
    assert "all of it runs" in out
    assert "group gpu: 2 of 2 instances" in out
    assert "qwen2-7b: 2 of 2 ready" in out
    assert f"{URL} (OpenAI API)" in out
    assert "not an address" not in out


def event(number: int, level: str, said: str) -> dict[str, Any]:
    return {
        "EventId": f"00000000-0000-0000-0000-00000000000{number}",
        "ClusterArn": ARN,
        "ClusterName": "kascade",
        "InstanceGroupName": "gpu",
        "ResourceType": "InstanceGroup",
        "EventTime": NOW,
        "EventLevel": level,
        "Description": said,
    }


def test_missing_instances_have_hyperpods_reason(look: Look) -> None:
    shortage = event(1, "Error", "Failed to provision instances.")

    def detail(_: Any) -> dict[str, Any]:
        inner = {
            "EventMetadata": {
                "InstanceGroupScaling": {
                    "TargetCount": 2,
                    "FailureMessage": "No capacity in usw2-az1",
                }
            }
        }
        return {"EventDetails": {**shortage, "EventDetails": inner}}

    node = {
        "InstanceGroupName": "gpu",
        "InstanceId": "i-111111111111",
        "InstanceType": "ml.g6e.4xlarge",
        "LaunchTime": NOW,
        "InstanceStatus": {"Status": "Failure", "Message": "lifecycle script failed"},
    }
    answers: dict[str, Answer] = {
        "sagemaker.DescribeCluster": hyperpod_cluster(PLAN, "kascade", gpu=1),
        "sagemaker.ListClusterNodes": {"ClusterNodeSummaries": [node]},
        "sagemaker.ListClusterEvents": {"Events": [event(2, "Info", "hello"), shortage]},
        "sagemaker.DescribeClusterEvent": detail,
    }
    code, out, _ = look("--json", "-", answers=answers, kubectl=TWO)
    assert code == 1
    document = json.loads(out)
    assert document["whole"] is False
    assert document["groups"] == [
        {
            "name": "gpu",
            "planned": 2,
            "running": 1,
            "elastic": False,
            "whole": False,
            "reasons": [
                "i-111111111111 is Failure: lifecycle script failed",
                "Failed to provision instances: No capacity in usw2-az1",
            ],
        }
    ]
    # Without the rights to look it says so, and which.
    for name, right in (
        ("sagemaker.ListClusterNodes", "sagemaker:ListClusterNodes"),
        ("sagemaker.ListClusterEvents", "sagemaker:ListClusterEvents"),
    ):
        code, out, _ = look(answers=answers | {name: DENIED}, kubectl=TWO)
        assert code == 1
        assert f"the right {right} is missing" in out


def test_no_reason_yet_is_said(look: Look) -> None:
    gone = hyperpod_cluster(PLAN, "kascade", gpu=0)
    code, out, _ = look(answers={"sagemaker.DescribeCluster": gone}, kubectl=TWO)
    assert code == 1
    assert "HyperPod gives no reason yet" in out


def test_before_anything_is_deployed(look: Look) -> None:
    answers: dict[str, Answer] = {
        "sagemaker.DescribeCluster": Refused("ResourceNotFound"),
        "eks.DescribeCluster": Refused("ResourceNotFoundException"),
        "cloudformation.DescribeStacks": Refused("ValidationError"),
    }
    code, out, _ = look("--wait", "600", answers=answers)
    assert code == 1
    assert "there is no HyperPod cluster kascade: deploy the configuration" in out
    assert "no stack of the deployment names one yet" in out


def test_pods_that_are_not_ready_say_why(look: Look) -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}}
    nowhere = {"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}
    pods = [
        pod("a", ready=False, containerStatuses=[waiting]),
        pod("b", ready=False) | {"status": {"phase": "Pending", "conditions": [nowhere]}},
    ]
    code, out, _ = look(kubectl={"server": SERVER, "pods": pods})
    assert code == 1
    assert "a is Pending (ImagePullBackOff: no such tag)" in out
    assert "b is Pending (0/4 nodes are available)" in out


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, which passes only while the command sleeps."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    played = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(status_module, "time", played)
    return now


@pytest.mark.parametrize(
    ("kubectl", "words"),
    [
        (None, "kubectl is not on PATH"),
        ({"server": "https://elsewhere", "pods": []}, "kubectl's context is of https://elsewhere"),
        (
            {"error": "error: current-context must exist in order to minify"},
            "kubectl has no context; run aws eks update-kubeconfig --name kascade",
        ),
    ],
)
def test_where_there_is_no_way_to_the_pods_instances_decide(
    kubectl: dict[str, Any] | None, words: str, look: Look, clock: list[float]
) -> None:
    code, out, err = look("--wait", "900", kubectl=kubectl)
    assert (code, err, clock[0]) == (0, "", 0)
    assert out.count(f"not looked at: {words}") == 1
    assert "all instances run; the engines were not looked at" in out.splitlines()[0]


FAILING = [
    ({"error": "Unable to connect to the server: i/o timeout"}, "kubectl cannot reach the cluster"),
    (
        {"error": "The connection to the server 10.0.0.1:443 was refused - did you specify it?"},
        "kubectl cannot reach the cluster",
    ),
    ({"error": "Segmentation fault"}, "Segmentation fault"),
    ({"server": SERVER, "pods": "garbage"}, "printed no list of objects"),
    ({"server": SERVER, "pods": ["garbage"]}, "printed no list of objects"),
]


@pytest.mark.parametrize(("kubectl", "words"), FAILING)
def test_a_look_that_fails_is_tried_as_long_as_it_waits(
    kubectl: dict[str, Any], words: str, look: Look, clock: list[float]
) -> None:
    code, out, err = look("--wait", "50", "--json", "-", kubectl=kubectl)
    assert (code, clock[0]) == (2, 50)
    document = json.loads(out)
    assert (document["whole"], document["engines"]) == (False, None)
    waiting, last = err.splitlines()
    assert waiting.startswith("waiting: 2 of 2 instances of gpu, engines not looked at: ")
    assert words in waiting
    assert words in last
    assert "look again: kascade status" in last
    code, out, _ = look(kubectl=kubectl)
    assert (code, clock[0]) == (2, 50)
    assert "all instances run, and nobody could look at the engines" in out


def test_a_look_that_works_in_the_end_is_enough(
    look: Look, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def cluster(_: Any) -> Any:
        asked.append(clock[0])
        if len(asked) == 1:
            raise Refused("ThrottlingException")
        return hyperpod_cluster(PLAN, "kascade")

    found = look("--wait", "900", answers={"sagemaker.DescribeCluster": cluster}, kubectl=TWO)
    assert (found[0], clock[0]) == (0, 20)
    real = pods_states
    tries = []

    def pods(*arguments: Any) -> Any:
        tries.append(clock[0])
        if len(tries) < 3:
            raise KascadeError("kubectl failed")
        return real(*arguments)

    monkeypatch.setattr(status_module, "pods_states", pods)
    code, out, _ = look("--wait", "900", kubectl=TWO)
    assert (code, tries) == (0, [20, 40, 60])
    assert "all of it runs" in out


@pytest.mark.parametrize("name", ["sagemaker.DescribeCluster", "eks.DescribeCluster"])
def test_a_throttled_call_to_the_end(name: str, look: Look, clock: list[float]) -> None:
    code, _, err = look("--wait", "50", answers={name: THROTTLED}, kubectl=TWO)
    assert (code, clock[0]) == (2, 50)
    assert "too many requests" in err.splitlines()[-1]


def test_what_is_missing_counts_for_more_than_what_nobody_saw(look: Look) -> None:
    gone = {"sagemaker.DescribeCluster": hyperpod_cluster(PLAN, "kascade", gpu=0)}
    code, out, err = look(answers=gone, kubectl=FAILING[0][0])
    assert (code, err) == (1, "")
    assert "not all of it runs" in out


def test_a_context_that_was_asked_for_has_to_be_of_the_cluster(look: Look) -> None:
    elsewhere = {"server": "https://elsewhere", "pods": []}
    code, out, err = look("--wait", "900", "--context", "other", kubectl=elsewhere)
    assert (code, out) == (2, "")
    assert "--context other: kubectl's context is of https://elsewhere" in err


NOBODY_SAW: list[dict[str, Any]] = [
    {"metadata": {"name": "a"}, "status": None},
    {"metadata": {"name": "a"}},
    {"metadata": {"name": "a"}, "status": {"conditions": None, "containerStatuses": None}},
    {"metadata": {"name": "a"}, "status": {"conditions": [None], "containerStatuses": [None]}},
    {"metadata": {"name": "a"}, "status": {"conditions": [{}]}},
]


@pytest.mark.parametrize("seen", NOBODY_SAW)
def test_a_pod_without_a_status_is_not_ready(seen: dict[str, Any], look: Look) -> None:
    code, out, _ = look(kubectl={"server": SERVER, "pods": [seen, pod("b")]})
    assert code == 1
    assert "qwen2-7b: 1 of 2 ready" in out
    assert "a is unknown" in out


def test_it_waits_no_longer_than_it_was_told(look: Look, clock: list[float]) -> None:
    gone = {"sagemaker.DescribeCluster": hyperpod_cluster(PLAN, "kascade", gpu=0)}
    code, _, err = look("--wait", "50", answers=gone, kubectl=TWO)
    assert code == 1
    assert clock[0] == 50
    # The same is said once.
    assert err.splitlines() == ["waiting: 0 of 2 instances of gpu, 2 of 2 engines of qwen2-7b"]
    code, _, err = look("--wait", "-1")
    assert code == 2
    assert "give seconds" in err


def test_karpenters_groups_may_be_empty(look: Look) -> None:
    config = ROOT / "config" / "karpenter.yaml"
    plan = plan_file(config)
    counts = {group.name: 0 for group in plan.cluster.groups}
    empty = hyperpod_cluster(plan, "elastic", **counts)
    code, out, _ = look(answers={"sagemaker.DescribeCluster": empty}, config=config)
    assert code == 0
    assert "group l40s-a: 0 of at most 3 instances" in out


@pytest.mark.parametrize("answer", [Refused("ExpiredToken"), Unreachable()])
def test_nobody_to_ask_as(answer: Answer, look: Look) -> None:
    code, out, err = look(answers={"sts.GetCallerIdentity": answer})
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["sagemaker.DescribeCluster", "cloudformation.DescribeStacks", "eks.DescribeCluster"]
)
def test_a_right_that_is_missing_is_named(name: str, look: Look) -> None:
    code, out, _ = look("--wait", "900", answers={name: DENIED}, kubectl=TWO)
    # It stays missing, so nothing waits for it.
    assert code == (2 if name.startswith("sagemaker") else 0)
    if not name.startswith("eks"):
        assert f"the right {name.replace('.', ':')} is missing" in out
