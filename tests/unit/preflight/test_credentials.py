"""Credentials that end halfway, and settings of AWS's tools that are no use: one sentence each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kascade import plan_file
from kascade.cli.main import main
from kascade.preflight import account
from tests.unit.preflight.ordinary import ordinary
from tests.unit.preflight.played import Answer, PlayedAws, Refused

DEFAULT = Path(__file__).parents[3] / "config" / "default.yaml"
CODES = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "UnrecognizedClientException")

Said = Callable[..., str]


@pytest.fixture
def sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a verb, which has to end with 2 and one sentence."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/none")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "played")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "played")

    def run(verb: str, answers: dict[str, Answer] | None = None) -> str:
        if answers is not None:
            monkeypatch.setattr(account, "open_session", PlayedAws(answers).session)
        code = main([verb, str(DEFAULT)])
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        return err

    return run


@pytest.mark.parametrize("verb", ["preflight", "status"])
@pytest.mark.parametrize("code", CODES)
def test_credentials_that_end_halfway(verb: str, code: str, sentence: Said) -> None:
    answers = ordinary(plan_file(DEFAULT))
    answers |= {name: Refused(code) for name in answers if name != "sts.GetCallerIdentity"}
    err = sentence(verb, answers)
    assert code in err
    assert "sign in again" in err


def test_credentials_that_end_at_the_last_call(sentence: Said) -> None:
    answers = ordinary(plan_file(DEFAULT)) | {"ecr.BatchGetImage": Refused("ExpiredToken")}
    assert "sign in again" in sentence("preflight", answers)


@pytest.mark.parametrize("verb", ["preflight", "status"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ENDPOINT_URL", "garbage"),
        ("AWS_ENDPOINT_URL", "http://a:99999"),
        ("AWS_DEFAULTS_MODE", "zz"),
        ("AWS_METADATA_SERVICE_TIMEOUT", "zz"),
    ],
)
def test_a_setting_that_is_no_use(
    verb: str, name: str, value: str, sentence: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert "correct that setting" in sentence(verb)


def test_a_setting_of_one_service_alone(sentence: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER", "garbage")
    for verb in ("preflight", "status"):
        err = sentence(verb, ordinary(plan_file(DEFAULT)))
        assert "Invalid endpoint: garbage; correct that setting" in err
