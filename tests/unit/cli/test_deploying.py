"""The lock around a deployment: it may stay only for what exists."""

import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from tests.checkout import ROOT
from tools import deploying

TEXT = (ROOT / "config" / "default.yaml").read_text()


class CloudFormation:
    """Stacks by name and state, or an error for every question."""

    def __init__(self, error: Exception | None = None, **states: str) -> None:
        self.error, self.states = error, states

    def describe_stacks(self, *, StackName: str) -> Any:  # noqa: N803 - boto3's name
        if self.error is not None:
            raise self.error
        part = StackName.removeprefix("kascade-")
        if part not in self.states:
            message = f"Stack with id {StackName} does not exist"
            error = {"Code": "ValidationError", "Message": message}
            raise ClientError({"Error": error}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self.states[part]}]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    return path


def run(
    monkeypatch: pytest.MonkeyPatch, config: Path, aws: CloudFormation, verb: str, code: int
) -> int:
    monkeypatch.setattr(deploying, "_client", lambda *_: aws)
    program = [sys.executable, "-c", f"raise SystemExit({code})", verb]
    return deploying.main([str(config), *program])


REFUSED = ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeStacks")


@pytest.mark.parametrize(
    ("aws", "stays", "words"),
    [
        (CloudFormation(), False, "removed: no stack of kascade exists in us-west-2"),
        (CloudFormation(NoCredentialsError()), False, "removed"),
        (CloudFormation(network="REVIEW_IN_PROGRESS"), False, "removed"),
        (CloudFormation(network="ROLLBACK_COMPLETE"), False, "removed"),
        (CloudFormation(network="CREATE_IN_PROGRESS"), True, "kascade-network exists"),
        (CloudFormation(network="CREATE_COMPLETE", cluster="ROLLBACK_FAILED"), True, "exists"),
        (CloudFormation(REFUSED), True, "If none does, delete it"),
        (CloudFormation(EndpointConnectionError(endpoint_url="x")), True, "delete it"),
    ],
)
def test_a_deployment_that_failed_keeps_a_lock_only_of_what_exists(  # noqa: PLR0913
    monkeypatch: pytest.MonkeyPatch,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    aws: CloudFormation,
    stays: bool,
    words: str,
) -> None:
    assert run(monkeypatch, config, aws, "deploy", 1) == 1
    assert config.with_suffix(".lock").exists() == stays
    assert words in capsys.readouterr().out


def test_a_lock_that_was_there_stays_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    assert run(monkeypatch, config, CloudFormation(), "deploy", 0) == 0
    lock = config.with_suffix(".lock").read_text()
    assert run(monkeypatch, config, CloudFormation(), "deploy", 1) == 1
    assert config.with_suffix(".lock").read_text() == lock


@pytest.mark.parametrize(
    ("code", "states", "stays"),
    [(0, {}, False), (1, {}, True), (0, {"network": "DELETE_FAILED"}, True)],
)
def test_it_goes_when_all_is_destroyed(
    monkeypatch: pytest.MonkeyPatch,
    config: Path,
    *,
    code: int,
    states: dict[str, str],
    stays: bool,
) -> None:
    assert run(monkeypatch, config, CloudFormation(), "deploy", 0) == 0
    aws = CloudFormation()
    aws.states = states
    assert run(monkeypatch, config, aws, "destroy", code) == code
    assert config.with_suffix(".lock").exists() == stays


def test_nothing_is_deployed_of_what_the_lock_refuses(
    monkeypatch: pytest.MonkeyPatch, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(TEXT.replace("region: us-west-2", "region: nowhere"))
    assert run(monkeypatch, config, CloudFormation(), "deploy", 0) == 2
    assert "nowhere" in capsys.readouterr().err
