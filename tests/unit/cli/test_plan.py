"""`kascade plan` as a person runs it."""

import json
from pathlib import Path

import pytest

from kascade.cli import main

ROOT = Path(__file__).parents[3]
DEFAULT = ROOT / "config" / "default.yaml"


def test_prints_every_tier_and_writes_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "deep" / "plan.json"
    assert main(["plan", str(DEFAULT), "--json", str(target)]) == 0
    out = capsys.readouterr().out
    for word in ("L0", "L1", "L2", "qwen2-7b", "USD/h", "prefixaware", "ml.g6e.4xlarge"):
        assert word in out
    assert not any(line.endswith(" ") for line in out.splitlines())
    assert json.loads(target.read_text())["name"] == "kascade"


def test_a_bad_file_ends_with_2_says_why_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(DEFAULT.read_text().replace("replicas: 2", "replicas: 7"))
    target = tmp_path / "plan.json"
    assert main(["plan", str(bad), "--json", str(target)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 problem, nothing was written" in captured.err
    assert "need 7 GPUs" in captured.err
    assert not target.exists()


def test_the_same_plan_prints_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", str(DEFAULT)])
    first = capsys.readouterr().out
    main(["plan", str(DEFAULT)])
    assert capsys.readouterr().out == first
