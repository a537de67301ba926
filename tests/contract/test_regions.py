"""What the CDK's validator knows of regions, against what the catalog and the plan know."""

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.node import pinned_node

import aws_cdk as cdk
import pytest
import yaml

from kascade import plan_file
from kascade.catalog.offerings import OFFERED_IN
from kascade.catalog.regions import REGIONS, WITHOUT_HYPERPOD, WITHOUT_MANAGED_GRAFANA
from tests.checkout import CONFIGS, copy_checkout, run_app
from tests.contract.test_templates import STRICT
from tools.outputs import Outputs

PROGRAM = Path(__file__).with_name("validator_regions.js")
PACKAGE = "package/node_modules/@aws/cloudformation-validate/"

IN_STOCKHOLM: dict[str, Any] = {
    "name": "stockholm",
    "region": "eu-north-1",
    "zones": ["eu-north-1a", "eu-north-1b"],
    "instance_groups": [
        {"name": "l4", "instance_type": "ml.g6.8xlarge", "count": 1},
        {"name": "h200", "instance_type": "ml.p5e.48xlarge", "count": 1},
    ],
    "models": [
        {
            "name": f"qwen-{group}",
            "model": "Qwen/Qwen2-7B-Instruct",
            "replicas": 1,
            "instance_group": group,
        }
        for group in ("l4", "h200")
    ],
    "observability": {"enabled": False},
}
"""One type that the catalog's list has in this region, and one that it has nowhere."""


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The validator's own package, out of the archive that jsii loads aws-cdk-lib from."""
    folder = tmp_path_factory.mktemp("validator")
    (archive,) = Path(cdk.__file__).parent.glob("_jsii/aws-cdk-lib@*.jsii.tgz")
    with tarfile.open(archive) as library:
        inside = [member for member in library if member.name.startswith(PACKAGE)]
        library.extractall(folder, members=inside, filter="data")
    return folder / PACKAGE


def test_the_catalog_knows_what_a_region_lacks(
    validator: Path, synthesized: Callable[[str], Outputs], tmp_path: Path
) -> None:
    """Of every type in any template. So each region of the catalog has a configuration that passes
    the validator: without observability where Managed Grafana is not, and with it elsewhere."""
    types = {
        resource["Type"]
        for name in CONFIGS
        for body in synthesized(name).templates().values()
        for resource in body["Resources"].values()
        if resource["Type"].startswith("AWS::")
    }
    assert {"AWS::SageMaker::Cluster", "AWS::Grafana::Workspace"} <= types
    ran = subprocess.run(
        [str(pinned_node()), str(PROGRAM), str(validator), str(tmp_path / "types.template.json")],
        input=json.dumps({"regions": [*REGIONS, *WITHOUT_HYPERPOD], "types": sorted(types)}),
        check=True,
        capture_output=True,
        text=True,
    )
    lacking = json.loads(ran.stdout)
    for name in WITHOUT_HYPERPOD:
        assert "AWS::SageMaker::Cluster" in lacking.pop(name)
    expected = {name: ["AWS::Grafana::Workspace"] for name in WITHOUT_MANAGED_GRAFANA}
    assert {name: found for name, found in lacking.items() if found} == expected


def test_a_type_that_the_validators_list_lacks_is_warned_of_and_synthesized(tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "checkout")
    config = root / "config" / "stockholm.yaml"
    config.write_text(yaml.safe_dump(IN_STOCKHOLM))
    assert "eu-north-1" in OFFERED_IN["ml.g6.8xlarge"]
    warned = [str(w) for w in plan_file(config).warnings if "not listed" in w.message]
    assert [w.partition("(")[0] for w in warned] == [
        "instance_groups[1].instance_type: ml.p5e.48xlarge is not listed for eu-north-1 "
    ]
    ran = run_app(
        root,
        "stockholm",
        program=str(STRICT),
        context={"@aws-cdk/core:strictCfnValidateErrors": True},
        environment={"CDK_VALIDATION": "true"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((root / "cdk.out" / "validation-report.json").read_text())
    accepted = [
        (violation["description"], [c["constructPath"] for c in violation["violatingConstructs"]])
        for plugin in report["pluginReports"]
        for violation in plugin["suppressedViolations"]
        if violation["ruleName"] == "E3644"
    ]
    cluster = ["stockholm-cluster/HyperPod/Cluster"]
    assert sorted(accepted) == [
        (f"InstanceGroups.InstanceType: '{name}' is not valid for region 'eu-north-1'", cluster)
        for name in ("ml.g6.8xlarge", "ml.p5e.48xlarge")
    ]
