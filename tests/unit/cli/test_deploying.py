"""The lock around a deployment: it may stay only for what exists."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from kascade.cli import main as kascade
from tests.checkout import ROOT
from tools import deploying

TEXT = (ROOT / "config" / "default.yaml").read_text()
Run = Callable[..., int]
OWN, OTHER = "111111111111", "222222222222"


def refusal(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "DescribeStacks")


class Account:
    """What an account says when it is asked: stacks by name and state, or an error."""

    def __init__(self, error: Exception | None = None, number: str = OWN, **states: str) -> None:
        self.error, self.number, self.states = error, number, states


class Session:
    """boto3's, with an answer for each time that it is asked; the last one goes on."""

    def __init__(self, *answers: Account) -> None:
        self.answers = list(answers)
        self.now = self.answers[0]

    def client(self, service: str, **_: object) -> Any:
        if service == "sts":
            self.now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return self

    def get_caller_identity(self) -> dict[str, str]:
        if self.now.error is not None:
            raise self.now.error
        return {"Account": self.now.number}

    def describe_stacks(self, *, StackName: str) -> Any:  # noqa: N803 - boto3's name
        states, part = self.now.states, StackName.removeprefix("kascade-")
        if part not in states:
            raise refusal("ValidationError", f"Stack with id {StackName} does not exist")
        return {"Stacks": [{"StackStatus": states[part]}]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, config: Path) -> Run:
    def run(verb: str, code: int, *answers: Account, more: Sequence[str] = ()) -> int:
        session = Session(*answers)
        monkeypatch.setattr(boto3, "Session", lambda **_: session)
        program = [sys.executable, "-c", f"raise SystemExit({code})", verb, *more]
        return deploying.main([verb, str(config), *program])

    return run


LIVE = Account(network="CREATE_COMPLETE", cluster="UPDATE_COMPLETE")


@pytest.mark.parametrize(
    ("aws", "stays", "words"),
    [
        (Account(), False, f"removed: account {OWN} has no stack of kascade in us-west-2"),
        (Account(NoCredentialsError()), False, "removed: without credentials"),
        (Account(network="REVIEW_IN_PROGRESS"), False, "removed"),
        (Account(network="ROLLBACK_COMPLETE"), False, "removed"),
        (Account(network="CREATE_IN_PROGRESS"), True, f"{OWN} has kascade-network"),
        (Account(network="CREATE_COMPLETE", cluster="ROLLBACK_FAILED"), True, "kascade-cluster"),
        (Account(refusal("AccessDenied", "no")), True, "If none does, delete it"),
        (Account(EndpointConnectionError(endpoint_url="x")), True, "delete it"),
        (Account(ValueError("Invalid endpoint: garbage")), True, "Invalid endpoint: garbage"),
    ],
)
def test_a_deployment_that_failed_keeps_a_lock_only_of_what_exists(  # noqa: PLR0913
    run: Run,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    aws: Account,
    stays: bool,
    words: str,
) -> None:
    assert run("deploy", 1, aws) == 1
    assert config.with_suffix(".lock").exists() == stays
    assert words in capsys.readouterr().out


def test_a_lock_that_was_there_stays_whatever_happens(run: Run, config: Path) -> None:
    assert run("deploy", 0, Account()) == 0
    lock = config.with_suffix(".lock").read_text()
    assert run("deploy", 1, Account()) == 1
    assert config.with_suffix(".lock").read_text() == lock


@pytest.mark.parametrize(
    ("code", "answers", "words"),
    [
        (0, [LIVE, Account()], f"removed: account {OWN} has no stack of kascade in us-west-2"),
        (1, [LIVE, Account()], None),
        (0, [LIVE, Account(network="DELETE_FAILED")], f"stays: account {OWN} has kascade-network"),
        (0, [Account()], f"stays: account {OWN} had no stack of kascade in us-west-2 before"),
        (0, [Account(network="ROLLBACK_COMPLETE"), Account()], "had no stack of kascade"),
        (0, [Account(NoCredentialsError())], "Unable to locate credentials"),
        (0, [LIVE, Account(NoCredentialsError())], "Unable to locate credentials"),
        (0, [Account(ValueError("Invalid endpoint: garbage")), Account()], "Invalid endpoint"),
        (0, [LIVE, Account(refusal("ExpiredToken", "too late"))], "too late"),
    ],
)
def test_it_goes_only_when_what_was_there_is_destroyed(  # noqa: PLR0913
    run: Run,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    code: int,
    answers: list[Account],
    words: str | None,
) -> None:
    assert run("deploy", 0, LIVE) == 0
    capsys.readouterr()
    assert run("destroy", code, *answers) == code
    said = capsys.readouterr().out
    assert said.count("\n") == (words is not None)
    assert (words or "") in said
    assert config.with_suffix(".lock").exists() == ("removed" not in said)


@pytest.mark.parametrize("verb", ["deploy", "destroy"])
def test_a_lock_of_another_account_stays(
    run: Run, config: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    config.write_text(f"{TEXT}\naccount: '{OTHER}'\n")
    if verb == "destroy":
        assert run("deploy", 0, LIVE) == 0
    code = int(verb == "deploy")
    assert run(verb, code, LIVE if verb == "destroy" else Account(), Account()) == code
    said = capsys.readouterr().out
    assert f"stays: it is of account {OTHER}, and account {OWN} was asked" in said
    assert "us-west-2" in said
    assert config.with_suffix(".lock").exists()


def test_a_profile_called_deploy_does_not_turn_one_verb_into_the_other(
    run: Run, config: Path
) -> None:
    more = ["--profile", "deploy"]
    assert run("destroy", 0, LIVE, Account(), more=more) == 0
    assert not config.with_suffix(".lock").exists()
    assert run("deploy", 0, LIVE) == 0
    assert run("destroy", 0, LIVE, Account(), more=more) == 0
    assert not config.with_suffix(".lock").exists()


def test_make_says_the_verb() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if ".deploying " in line]
    verbs = [re.search(r"\.deploying (\w+) .*\$\(CDK\) (\w+) ", line) for line in lines]
    said = [verb.groups() for verb in verbs if verb is not None]
    assert said == [("deploy", "deploy"), ("destroy", "destroy")]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("program", ["", "/nowhere/node", "/dev/null"])
def test_a_program_that_cannot_start_is_one_sentence_and_leaves_the_lock_as_it_was(
    config: Path, capsys: pytest.CaptureFixture[str], program: str, *, old: bool
) -> None:
    lock, before = config.with_suffix(".lock"), None
    if old:
        kascade(["lock", str(config)])
        before = lock.read_text()
        config.write_text(TEXT.replace("us-west-2b]", "us-west-2b, us-west-2c]"))
        assert config.read_text() != TEXT
    capsys.readouterr()
    assert deploying.main(["deploy", str(config), program, "deploy"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{program!r} cannot be started (")
    assert said.count("\n") == 1
    assert (lock.read_text() if lock.exists() else None) == before


@pytest.mark.parametrize(
    "words",
    ["", "deploy", "deploy {}", "{} program deploy", "deploy  program", "destroy . program"],
)
def test_arguments_that_say_too_little_are_one_sentence(
    config: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert deploying.main(words.format(config).split(" ") if words else []) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(f"usage: {deploying.USAGE}\n")
    assert not config.with_suffix(".lock").exists()


def test_an_endpoint_that_is_none_is_one_sentence(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "garbage")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    for verb, code in (("deploy", 1), ("destroy", 0)):
        program = [sys.executable, "-c", f"raise SystemExit({code})"]
        assert deploying.main([verb, str(config), *program]) == code
        assert "(Invalid endpoint: garbage). If none does, delete it" in capsys.readouterr().out
        assert config.with_suffix(".lock").exists()


def test_with_a_closed_output_nothing_runs(config: Path) -> None:
    touch = ["/usr/bin/touch", str(config.parent / "ran")]
    words = [sys.executable, "-m", "tools.deploying", "destroy", str(config), *touch]
    ended = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("standard output is closed")
    assert not (config.parent / "ran").exists()


def test_nothing_is_deployed_of_what_the_lock_refuses(
    run: Run, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(TEXT.replace("region: us-west-2", "region: nowhere"))
    assert run("deploy", 0, Account()) == 2
    assert "nowhere" in capsys.readouterr().err
