"""The library's page: its blocks are one program, which is run and synthesized as it stands."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from kascade import aws
from tests.contract.deploy_order import HYPERPOD, RELEASE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "constructs" / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CHART = ROOT / "tests" / "data" / "charts" / "hyperpod"
Resources = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(CHART, folder / "chart")
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"README block {number}", "exec"), names)  # noqa: S102 - our own page
    app, stack = names["app"], names["stack"]
    installer = iam.Role(
        stack, "Installer", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
    )
    names["install_awss_chart"](installer, folder / "chart")
    assembly = app.synth()
    template = assembly.get_stack_by_name(stack.stack_name).template
    found: Resources = template["Resources"]
    return found


def of_type(resources: Resources, kind: str) -> Resources:
    return {name: it for name, it in resources.items() if it["Type"] == kind}


def test_the_page_shows_every_group_that_it_makes(resources: Resources) -> None:
    clusters = of_type(resources, HYPERPOD)
    groups = sorted(
        group["InstanceGroupName"]
        for cluster in clusters.values()
        for group in cluster["Properties"]["InstanceGroups"]
    )
    assert groups == ["gpu", "gpu", "guarded", "large", "spare"]


def test_both_clusters_wait_for_the_agents_and_one_for_the_chart(resources: Resources) -> None:
    barrier = next(name for name in resources if name.startswith("AgentsApplied"))
    (release,) = of_type(resources, RELEASE)
    waited = [set(it["DependsOn"]) for it in of_type(resources, HYPERPOD).values()]
    assert all(barrier in names for names in waited)
    assert sum(release in names for names in waited) == 1


def test_the_update_goes_back_by_the_alarm_of_the_page(resources: Resources) -> None:
    (alarm,) = of_type(resources, "AWS::CloudWatch::Alarm")
    assert resources[alarm]["Properties"]["Namespace"] == "ContainerInsights"
    found = json.dumps([it["Properties"] for it in of_type(resources, HYPERPOD).values()])
    assert f'"AlarmName": {{"Ref": "{alarm}"}}' in found
    (addon,) = of_type(resources, "AWS::EKS::Addon").values()
    assert addon["Properties"]["AddonName"] == "amazon-cloudwatch-observability"
    assert PAGE.count("amazon-cloudwatch-observability") == 2


def test_what_goes_with_the_stack_is_what_the_table_says(resources: Resources) -> None:
    kept = [
        it["DeletionPolicy"]
        for kind in ("AWS::S3::Bucket", "AWS::Logs::LogGroup")
        for it in of_type(resources, kind).values()
    ]
    assert kept == ["Delete"] * 4
    retention = [
        it["Properties"]["RetentionInDays"]
        for it in of_type(resources, "AWS::Logs::LogGroup").values()
    ]
    assert sorted(retention) == [30, 90]


@pytest.mark.parametrize(
    "name", sorted(n for n in aws.__all__ if n[0].isupper() and n not in {
        # A plan's own, which the table on top leaves to the plan.
        "FeatureAddons", "KarpenterAutoscaling", "ServingEksCluster", "ServingNetwork",
        "KubernetesObject", "ManifestError", "IHyperPodCluster",
    })
)  # fmt: skip
def test_the_page_names_what_a_stranger_may_use(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


def test_the_rule_of_two_keys_can_be_had_as_a_function() -> None:
    from kascade.aws.removal import keep_or_destroy

    app = cdk.App()
    stack = cdk.Stack(app, "One")
    aws.LifecycleScript(
        stack, "Script", deployment="blue", plan=aws.lifecycle.PlainNodes(log_retention_days=7)
    )
    keep_or_destroy(app, destroy=False)
    template = app.synth().get_stack_by_name("One").template["Resources"]
    (bucket,) = of_type(template, "AWS::S3::Bucket").values()
    assert bucket["DeletionPolicy"] == "RetainExceptOnCreate"
