"""Files of `preflight` and `status`: where the report goes is seen first, and no secret is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kascade import plan_file
from kascade.cli.main import main
from kascade.preflight import account
from tests.unit.preflight.ordinary import ordinary
from tests.unit.preflight.played import PlayedAws

DEFAULT = Path(__file__).parents[3] / "config" / "default.yaml"
VERBS = ("preflight", "status")


def refused(
    verb: str, given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    aws = PlayedAws(ordinary(plan_file(DEFAULT)))
    monkeypatch.setattr(account, "open_session", aws.session)
    code = main([verb, str(DEFAULT), "--json", given])
    out, err = capsys.readouterr()
    assert (code, out, aws.asked) == (2, "", [])
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize("verb", VERBS)
def test_a_report_that_cannot_be_written_is_said_before_a_look(
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    target = tmp_path / "none" / "x.json"
    err = refused(verb, str(target), monkeypatch, capsys)
    assert err == f"{target} cannot be written: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []
    assert "Is a directory" in refused(verb, str(tmp_path), monkeypatch, capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_name_is_no_file(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    err = refused(verb, "", monkeypatch, capsys)
    assert "--json is empty" in err
    assert "name a file" in err


def test_a_report_stays_as_it_is_while_nobody_has_looked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("{}")

    def nobody() -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(account, "open_session", nobody)
    for target in (old, new):
        assert main(["preflight", str(DEFAULT), "--json", str(target)]) == 130
    capsys.readouterr()
    assert old.read_text() == "{}"
    assert not new.exists()


@pytest.mark.parametrize(
    "text",
    [
        "root:x:0:0:root:/root:/bin/bash\n" * 8,
        f"a: *{'z' * 400}\n",
        f"a: !{'z' * 400} 3\n",
        f"a: 0x{'1' * 200}\n",
    ],
)
def test_of_a_file_that_is_none_only_a_piece_is_shown(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    assert main(["preflight", str(path)]) == 2
    err = capsys.readouterr().err
    shown = [line for line in err.splitlines() if "line 1:" in line]
    assert shown
    assert all(len(line) < 300 for line in shown)
    assert err.count("root:/root:") <= 2
    assert max(err.count(letter * 121) for letter in "z1") == 0
