"""Add-ons that no configuration here chooses, under the same rules as those that one does."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from tests.checkout import copy_checkout, run_app

STRICT = Path(__file__).with_name("strict_app.py")


def test_every_feature_at_once_is_valid_and_nags_of_nothing(tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "checkout")
    config = yaml.safe_load((root / "config" / "operator.yaml").read_text())
    config["kubernetes"]["addons"] = {
        "task_governance": True,
        "training_operator": True,
        "observability_workspace_arn": "arn:aws:aps:us-west-2:111122223333:workspace/ws-1",
    }
    (root / "config" / "features.yaml").write_text(yaml.safe_dump(config))
    ran = run_app(
        root,
        "features",
        program=str(STRICT),
        context={"@aws-cdk/core:strictCfnValidateErrors": True},
        environment={"CDK_VALIDATION": "true"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    template = root / "cdk.out" / f"{config['name']}-cluster.template.json"
    names = {
        resource["Properties"]["AddonName"]
        for resource in json.loads(template.read_text())["Resources"].values()
        if resource["Type"] == "AWS::EKS::Addon"
    }
    assert {name for name in names if name.startswith("amazon-sagemaker-hyperpod-")} == {
        "amazon-sagemaker-hyperpod-inference",
        "amazon-sagemaker-hyperpod-observability",
        "amazon-sagemaker-hyperpod-taskgovernance",
        "amazon-sagemaker-hyperpod-training-operator",
    }
    argv = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", "us-west-2"]
    argv += ["--ignore-checks", "W3005", "--format", "parseable", "--", str(template)]
    linted = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert linted.stdout + linted.stderr == ""
