"""`kascade preflight` over prepared accounts, through the command, with boto3 in between."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import plan_file
from kascade.cli.main import main
from kascade.planning.loading import load_config
from kascade.preflight import account
from kascade.preflight.run import CHECKS, preflight
from tests.unit.preflight.accounts import ACCOUNTS, TROUBLE, Prepared
from tests.unit.preflight.ordinary import ordinary
from tests.unit.preflight.played import DENIED, PlayedAws, Refused, Unreachable

ROOT = Path(__file__).parents[3]
CONFIGS = sorted(p.stem for p in (ROOT / "config").glob("*.yaml") if p.stem != "reference")
PAGE = ROOT / "docs" / "preflight.md"

Look = Callable[..., tuple[int, str, str]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Look:
    """Return a function that runs the command against a played AWS."""

    def run(aws: PlayedAws, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(account, "open_session", aws.session)
        code = main(["preflight", *arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


def edited(prepared: Prepared, folder: Path) -> Path:
    config = yaml.safe_load((ROOT / "config" / f"{prepared.config}.yaml").read_text())
    prepared.edit(config)
    path = folder / "account.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def states(document: dict[str, Any]) -> dict[str, str]:
    return {row["check"]: row["state"] for row in document["rows"]}


@pytest.mark.parametrize("name", CONFIGS)
def test_nothing_is_in_the_way_of_any_configuration(name: str, look: Look) -> None:
    path = ROOT / "config" / f"{name}.yaml"
    aws = PlayedAws(ordinary(plan_file(path)))
    code, out, _ = look(aws, str(path))
    assert aws.wrong == []
    assert code == 0
    assert out.splitlines()[-1] == f"{len(CHECKS)} rows: {len(CHECKS)} ok, 0 warn, 0 fail"


@pytest.mark.parametrize("name", ACCOUNTS)
def test_prepared_account(name: str, look: Look, tmp_path: Path) -> None:
    prepared = ACCOUNTS[name]
    path = edited(prepared, tmp_path)
    plan = plan_file(path)
    answers = ordinary(plan)
    prepared.change(answers, plan)
    aws = PlayedAws(answers)
    code, out, _ = look(aws, str(path), "--json", str(tmp_path / "rows.json"))
    assert aws.wrong == []
    document = json.loads((tmp_path / "rows.json").read_text())
    found = states(document)
    assert list(found) == [check.name for check in CHECKS]
    assert {row: state for row, state in found.items() if state != "ok"} == dict(prepared.rows)
    assert code == prepared.code
    words = " ".join(out.split())
    assert [text for text in prepared.says if text not in words] == []
    # Whatever is not well says what to do.
    for row in document["rows"]:
        for finding in row["findings"]:
            assert bool(finding["todo"]) == (finding["state"] != "ok")


def page_states() -> dict[str, set[str]]:
    """The states that the page gives each row; ok is understood."""
    rows: dict[str, set[str]] = {}
    for section in PAGE.read_text().partition("## The rows")[2].split("### ")[1:]:
        name, _, text = section.partition("\n")
        text = text.partition("## ")[0]
        rows[name] = {"ok"} | {state for state in ("warn", "fail") if f"\n* {state}: " in text}
    return rows


def test_every_state_of_every_row_is_reached_by_an_account() -> None:
    reached: dict[str, set[str]] = {check.name: {"ok"} for check in CHECKS}
    for name, prepared in ACCOUNTS.items():
        if name != "no rights at all":
            for row, state in prepared.rows.items():
                reached[row].add(state)
    assert page_states() == reached
    assert len(ACCOUNTS) >= 25
    assert f"The {len(ACCOUNTS)} prepared accounts" in PAGE.read_text()


@pytest.mark.parametrize(
    ("config", "kind"),
    [("default", kind) for kind in TROUBLE]
    + [(config, "a missing right") for config in ("existing", "weights", "operator")],
)
def test_a_call_that_fails_is_a_warning_of_its_row(config: str, kind: str) -> None:
    path = ROOT / "config" / f"{config}.yaml"
    wish, plan = load_config(path), plan_file(path)
    answers = ordinary(plan)
    aws = PlayedAws(answers)
    session = aws.session()
    preflight(wish, plan, session)
    answer, words = TROUBLE[kind]
    page = PAGE.read_text()
    for name in sorted(aws.operations() - {"sts.GetCallerIdentity"}):
        aws.answers = answers | {name: answer}
        report = preflight(wish, plan, session)
        findings = [finding for row in report.rows for finding in row.findings]
        bad = [finding for finding in findings if finding.state != "ok"]
        assert report.state == "warn", (name, report.state)
        assert [one.said for one in bad if words not in one.said] == [], name
        if answer is DENIED:
            right = account.Account(session, region=plan.region).right(*name.split("."))
            assert all(right in one.said and right in one.todo for one in bad), name
            assert f"`{right}`" in page, "the page lists every right"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Refused("ExpiredToken"), "sign in again"),
        (Refused("InvalidClientTokenId"), "us-west-2 is not enabled"),
        (DENIED, "AccessDenied"),
        (Unreachable(), "AWS cannot be reached from here"),
    ],
)
def test_without_anybody_to_ask_as_there_is_one_sentence(
    answer: Any, words: str, look: Look
) -> None:
    path = ROOT / "config" / "default.yaml"
    aws = PlayedAws(ordinary(plan_file(path)) | {"sts.GetCallerIdentity": answer})
    code, out, err = look(aws, str(path))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_without_credentials_there_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    path = ROOT / "config" / "default.yaml"
    assert main(["preflight", str(path)]) == 2
    assert "there are no AWS credentials to look with" in capsys.readouterr().err
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert main(["preflight", str(path)]) == 2
    err = capsys.readouterr().err
    assert "nobody" in err
    assert len(err.splitlines()) == 1


SIGNING: dict[str, tuple[dict[str, str], str, str]] = {
    "half of a key": ({"AWS_ACCESS_KEY_ID": "AKIA"}, "", "there are no AWS credentials"),
    "a profile on top of none": (
        {"AWS_PROFILE": "a"},
        "[profile a]\nrole_arn = arn:aws:iam::111122223333:role/r\nsource_profile = gone\n",
        "there are no AWS credentials",
    ),
    "a program that fails": (
        {"AWS_PROFILE": "a"},
        "[profile a]\ncredential_process = false\n",
        "there are no AWS credentials",
    ),
    "a token that is not there": (
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "/none", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"},
        "",
        "there are no AWS credentials",
    ),
    "a broken file": ({}, "[profile a\n", "mend that file"),
}


@pytest.mark.parametrize("case", SIGNING)
def test_credentials_that_are_no_use_are_one_sentence(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    environment, text, words = SIGNING[case]
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["preflight", str(ROOT / "config" / "default.yaml")]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_report_never_takes_the_place_of_a_configuration(
    look: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "config" / "default.yaml"
    aws = PlayedAws(ordinary(plan_file(path)))
    code, _, err = look(aws, str(path), "--json", str(path))
    assert code == 2
    assert "would replace" in err
    assert aws.asked == []
    del capsys


def test_an_interruption_is_one_sentence(look: Look) -> None:
    path = ROOT / "config" / "default.yaml"

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    aws = PlayedAws(ordinary(plan_file(path)) | {"ssm.GetParameter": interrupted})
    assert look(aws, str(path)) == (130, "", "interrupted; nothing was changed\n")


def test_the_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("preflight", "status"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        words = " ".join(capsys.readouterr().out.split())
        assert re.search(r"Exit codes: 0 .* 1 .* 2 ", words)


def test_deploy_looks_first_unless_told_not_to_and_says_what_runs() -> None:
    make = shutil.which("make")
    assert make is not None

    def steps(*given: str) -> str:
        command = [make, "--dry-run", "deploy", *given]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    looked, made, after = (
        "kascade.cli preflight",
        "--import-existing-resources",
        "kascade.cli status",
    )
    text = steps()
    assert text.index(looked) < text.index(made) < text.index(after)
    assert looked not in steps("PREFLIGHT=0")
    assert "--wait 7" in steps("STATUS_WAIT=7")
