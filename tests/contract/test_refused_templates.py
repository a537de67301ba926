"""Rejected templates leave what was there before, and a sentence for each error."""

import os
import subprocess
import sys
from pathlib import Path

from tools.node import pinned_node

import pytest
import yaml

from tests.checkout import copy_checkout, run_app
from tests.contract.test_command_line import CDK

SENTENCE = (
    "  rejected-observability/Grafana/Workspace: Type: Resource type 'AWS::Grafana::Workspace' "
    "does not exist in 'ap-south-1' (CloudFormation Validate, F3006)"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A deployment that is synthesized, and a configuration that only a validator rejects."""
    root = copy_checkout(tmp_path / "checkout")
    ran = run_app(root, "laptop")
    assert ran.returncode == 0, ran.stderr
    config = yaml.safe_load((root / "config" / "default.yaml").read_text())
    config |= {"name": "rejected", "region": "ap-south-1", "zones": ["ap-south-1a", "ap-south-1b"]}
    (root / "config" / "rejected.yaml").write_text(yaml.safe_dump(config))
    # The plan would say it first.
    with (root / "constructs" / "kascade" / "catalog" / "regions.py").open("a") as regions:
        regions.write("\nWITHOUT_MANAGED_GRAFANA = ()\n")
    return root


def written(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for folder in ("cdk.out", "dist")
        for path in (root / folder).rglob("*")
    }


def test_the_app_says_so_and_writes_nothing(checkout: Path) -> None:
    before = written(checkout)
    assert "cdk.out/laptop-serving.template.json" in before
    ran = run_app(checkout, "rejected", environment={"CDK_VALIDATION": "true"})
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == ["the templates: 1 problem, nothing was written", SENTENCE]
    assert written(checkout) == before


def test_what_could_not_be_replaced_is_said_before_anything_is(checkout: Path) -> None:
    elsewhere = checkout / "elsewhere"
    (checkout / "dist" / "manifests").rename(elsewhere)
    (checkout / "dist" / "manifests").symlink_to(elsewhere)
    before = written(checkout)
    ran = run_app(checkout, "default")
    assert ran.returncode == 2
    assert ran.stderr.startswith("dist/manifests is not a folder of this checkout, which a synth")
    assert written(checkout) == before


def test_so_it_is_below_the_command_line(checkout: Path) -> None:
    before = written(checkout)
    argv = [str(pinned_node()), str(CDK), "synth", "--quiet", "--app", f"{sys.executable} app.py"]
    own = {
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_VALIDATION": "true",
        "PYTHONPATH": str(checkout / "constructs"),
    }
    ran = subprocess.run(
        [*argv, "--context", "config=config/rejected.yaml"],
        cwd=checkout,
        env=os.environ | own,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode != 0
    assert SENTENCE in ran.stderr.splitlines()
    assert "Traceback" not in ran.stdout + ran.stderr
    assert written(checkout) == before


def test_another_deployment_takes_the_place_whole(checkout: Path) -> None:
    ran = run_app(checkout, "default")
    assert ran.returncode == 0, ran.stderr
    names = {name for name in written(checkout) if name.endswith((".template.json", "plan.json"))}
    stacks = ("cluster", "network", "observability", "serving")
    assert names == {
        "dist/plan.json",
        *(f"cdk.out/kascade-{stack}.template.json" for stack in stacks),
    }
