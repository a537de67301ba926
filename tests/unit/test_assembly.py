"""What the CDK rejects becomes sentences; errors of the code keep their traceback."""

from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sns as sns

from tools.assembly import RefusedTemplatesError, in_sentences, synthesize, take_its_place


def test_an_error_of_the_cdk_is_a_sentence(tmp_path: Path) -> None:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path)), "S")
    sns.Topic(stack, "Twice")
    with (
        pytest.raises(RefusedTemplatesError, match="1 problem, nothing was written") as caught,
        in_sentences(),
    ):
        sns.Topic(stack, "Twice")
    assert "There is already a Construct with name 'Twice' in Stack" in str(caught.value)


def test_a_mistake_of_the_code_is_not() -> None:
    with pytest.raises(RuntimeError, match="ours"), in_sentences():
        raise RuntimeError("ours")


def test_what_is_no_part_of_an_assembly_stays(tmp_path: Path) -> None:
    place = tmp_path / "cdk.out"
    place.mkdir()
    for name in ("synth.lock", "Old.template.json", "validation-report.json"):
        (place / name).write_text("{}")
    app = cdk.App(outdir=str(tmp_path / "made"))
    sns.Topic(cdk.Stack(app, "New"), "Topic")
    take_its_place(synthesize(app), place)
    names = {path.name for path in place.iterdir()}
    assert {"synth.lock", "New.template.json", "manifest.json"} <= names
    assert names.isdisjoint({"Old.template.json", "validation-report.json"})
