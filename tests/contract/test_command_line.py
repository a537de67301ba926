"""The two programs a person calls: `kascade` and `cdk`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.node import pinned_node

import pytest

from tests.checkout import ROOT, copy_checkout
from tools.outputs import Document, Outputs

CDK = ROOT / "tools" / "cdk" / "node_modules" / "aws-cdk" / "bin" / "cdk"
BROKEN = ["name: UPPER\n", "nonsense\n", "", "name: [\n"]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_bad_configuration_ends_with_its_problems_only(tmp_path: Path, broken: str) -> None:
    (tmp_path / "bad.yaml").write_text(broken)
    argv = [sys.executable, "-m", "kascade.cli", "plan", "bad.yaml", "--json", "plan.json"]
    ran = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.strip()
    assert "Traceback" not in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.yaml"]


def without_paths(template: Document) -> Document:
    """Drop the construct paths that only the command line asks for."""
    for resource in template["Resources"].values():
        resource.get("Metadata", {}).pop("aws:cdk:path", None)
        if not resource.get("Metadata", True):
            del resource["Metadata"]
    return template


def missing_assets(outputs: Outputs) -> list[str]:
    """Files that a deployment would upload and that are not there."""
    named = [
        source["path"]
        for path in outputs.assembly.glob("*.assets.json")
        for kind in ("files", "dockerImages")
        for asset in json.loads(path.read_text())[kind].values()
        if (source := asset["source"])
    ]
    assert len(named) > len(outputs.template_files)
    return [name for name in named if not (outputs.assembly / name).exists()]


def test_cdk_synth_gives_what_the_tests_look_at(
    synthesized: Callable[[str], Outputs], tmp_path: Path
) -> None:
    root = copy_checkout(tmp_path / "checkout")
    app = f"{sys.executable} app.py"
    ran = subprocess.run(
        [str(pinned_node()), str(CDK), "synth", "--quiet", "--app", app],
        cwd=root,
        env=os.environ
        | {"CDK_DISABLE_CLI_TELEMETRY": "true", "PYTHONPATH": str(root / "constructs")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = Outputs(name="default", assembly=root / "cdk.out", dist=root / "dist")
    assert missing_assets(made) == []
    expected = synthesized("default")
    assert made.plan() == expected.plan()
    assert [o for _, o in made.objects()] == [o for _, o in expected.objects()]
    templates = {name: without_paths(body) for name, body in made.templates().items()}
    assert templates == {name: without_paths(body) for name, body in expected.templates().items()}


def test_the_command_line_is_the_pinned_one() -> None:
    lock = json.loads((ROOT / "tools" / "cdk" / "package-lock.json").read_text())
    ran = subprocess.run(
        [str(pinned_node()), str(CDK), "--version"], check=True, capture_output=True, text=True
    )
    assert ran.stdout.startswith(lock["packages"]["node_modules/aws-cdk"]["version"])
