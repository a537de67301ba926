"""The templates against CloudFormation's own schemas, the CDK's strict rules and cdk-nag."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kascade import ServingPlan
from tests.checkout import copy_checkout, run_app
from tools.outputs import Outputs

STRICT = Path(__file__).with_name("strict_app.py")
TEMPLATE_BYTES = 1_000_000
RESOURCES = 500

Synthesized = Callable[[str], Outputs]


def test_cfn_lint_finds_nothing(
    synthesized: Synthesized, plan: Callable[[str], ServingPlan], config: str
) -> None:
    """Without W3005: the CDK spells out dependencies that a reference already implies."""
    cfn_lint = Path(sys.executable).with_name("cfn-lint")
    argv = [str(cfn_lint), "--regions", plan(config).region]
    argv += ["--ignore-checks", "W3005", "--format", "parseable", "--"]
    argv += map(str, synthesized(config).template_files.values())
    result = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert result.stdout + result.stderr == ""
    assert result.returncode == 0


def test_templates_stay_inside_the_service_limits(synthesized: Synthesized, config: str) -> None:
    outputs = synthesized(config)
    sizes = {name: path.stat().st_size for name, path in outputs.template_files.items()}
    assert {name: size for name, size in sizes.items() if size >= TEMPLATE_BYTES} == {}
    counts = {name: len(body["Resources"]) for name, body in outputs.templates().items()}
    assert {name: count for name, count in counts.items() if count >= RESOURCES} == {}


def test_a_synth_asks_aws_for_nothing(synthesized: Synthesized, config: str) -> None:
    assert synthesized(config).manifest().get("missing", []) == []


def test_a_synth_warns_of_nothing(synthesized: Synthesized, config: str) -> None:
    outputs = synthesized(config)
    said = [
        f"{where}: {entry['data']}"
        for path in sorted(outputs.assembly.glob("*.metadata.json"))
        for where, entries in json.loads(path.read_text()).items()
        for entry in entries
        if entry["type"] in {"aws:cdk:warning", "aws:cdk:error"}
    ]
    assert said == []


def test_strict_validation_and_cdk_nag_find_nothing(
    tmp_path: Path, plan: Callable[[str], ServingPlan], config: str
) -> None:
    """In a process of their own, because the validator starts once per process or never."""
    root = copy_checkout(tmp_path / "checkout")
    ran = run_app(
        root,
        config,
        program=str(STRICT),
        context={"@aws-cdk/core:strictCfnValidateErrors": True},
        environment={"CDK_VALIDATION": "true"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((root / "cdk.out" / "validation-report.json").read_text())
    # cdk-nag reports itself only when it finds something; the next test sees that it would.
    conclusions = {entry["pluginName"]: entry["conclusion"] for entry in report["pluginReports"]}
    # And CloudFormation's part only where something is acknowledged: the zones of a VPC of ours.
    own_vpc = plan(config).network.existing is None
    assert conclusions == ({"CloudFormation Validate": "success"} if own_vpc else {})


def test_cdk_nag_finds_what_is_wrong(tmp_path: Path) -> None:
    """The negative control: an open bucket stops the synth, in cdk-nag's words."""
    root = copy_checkout(tmp_path / "checkout")
    ran = run_app(root, "default", program=str(STRICT), environment={"OPEN_BUCKET": "1"})
    assert ran.returncode == 1
    assert "AwsSolutions-S1" in ran.stderr
