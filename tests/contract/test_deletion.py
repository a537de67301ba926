"""What stays when a deployment is deleted, and that no deletion waits for ever."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

import app
from kascade import ServingPlan
from tests.checkout import ROOT, copy_checkout, run_app
from tests.contract.deploy_order import ADDON, INFERENCE, Assembly, faults
from tools.outputs import Outputs, cdk_context

Synthesized = Callable[[str], Outputs]

SHORTEST, LONGEST = 60, 1800
KEPT = {"AWS::Logs::LogGroup", "AWS::S3::Bucket"}
LOG_GROUP = "AWS::Logs::LogGroup"


def resources(outputs: Outputs) -> Iterator[tuple[str, dict[str, Any]]]:
    for stack, template in outputs.templates().items():
        for name, resource in template["Resources"].items():
            yield f"{stack}/{name}", resource


def policies(outputs: Outputs) -> set[tuple[str, str, str]]:
    return {
        (resource["Type"], resource["DeletionPolicy"], resource["UpdateReplacePolicy"])
        for _, resource in resources(outputs)
        if resource["Type"] in KEPT
    }


def test_every_custom_resource_is_waited_for_within_bounds(
    synthesized: Synthesized, config: str
) -> None:
    waits = {
        name: resource["Properties"].get("ServiceTimeout")
        for name, resource in resources(synthesized(config))
        if resource["Type"].startswith("Custom::")
        or resource["Type"] == "AWS::CloudFormation::CustomResource"
    }
    assert waits
    assert {n: w for n, w in waits.items() if not w or not SHORTEST <= int(w) <= LONGEST} == {}


def test_log_groups_and_buckets_are_kept(synthesized: Synthesized, config: str) -> None:
    found = policies(synthesized(config))
    assert {policy for _, *both in found for policy in both} == {"RetainExceptOnCreate", "Retain"}
    assert LOG_GROUP in {kind for kind, *_ in found}


def test_no_function_writes_to_a_log_group_that_nobody_deletes(
    synthesized: Synthesized, config: str
) -> None:
    for template in synthesized(config).templates().values():
        groups = {n for n, r in template["Resources"].items() if r["Type"] == LOG_GROUP}
        for name, resource in template["Resources"].items():
            if resource["Type"] == "AWS::Lambda::Function":
                logging = resource["Properties"].get("LoggingConfig", {})
                assert logging.get("LogGroup", {}).get("Ref") in groups, name


@pytest.fixture(scope="module")
def with_both_keys(
    plan: Callable[[str], ServingPlan], tmp_path_factory: pytest.TempPathFactory
) -> Outputs:
    return _with_both_keys(plan, "default", tmp_path_factory.mktemp("keys"))


def _with_both_keys(plan: Callable[[str], ServingPlan], config: str, root: Path) -> Outputs:
    outputs = Outputs(name=config, assembly=root / "cdk.out", dist=root / "dist")
    made = cdk.App(
        outdir=str(outputs.assembly), context=cdk_context() | {"kascade:allow-destroy": "true"}
    )
    app.build(made, replace(plan(config), on_delete="destroy"), manifests=outputs.dist)
    made.synth()
    return outputs


def test_with_both_keys_they_go(with_both_keys: Outputs) -> None:
    assert policies(with_both_keys) == {(kind, "Delete", "Delete") for kind in KEPT}


def test_the_keys_change_nothing_else(with_both_keys: Outputs, synthesized: Synthesized) -> None:
    def rest(outputs: Outputs) -> dict[str, Any]:
        decided = {"DeletionPolicy", "UpdateReplacePolicy", "Metadata"}
        return {
            name: {k: v for k, v in resource.items() if not (kept and k in decided)}
            for name, resource in resources(outputs)
            for kept in [resource["Type"] in KEPT]
        }

    assert rest(with_both_keys) == rest(synthesized("default"))
    # A changed policy alone is no update to CloudFormation.
    said = [
        {r["Metadata"]["kascade:on-delete"] for _, r in resources(o) if r["Type"] in KEPT}
        for o in (with_both_keys, synthesized("default"))
    ]
    assert said == [{"destroy"}, {"retain"}]


@pytest.mark.parametrize(
    ("context", "quiet"), [({}, False), ({"kascade:allow-destroy": "true"}, True)]
)
def test_one_key_says_what_the_other_is(
    tmp_path: Path, context: dict[str, str], quiet: bool
) -> None:
    root = copy_checkout(tmp_path / "checkout")
    file = root / "config" / "default.yaml"
    given = yaml.safe_load(file.read_text()) | {"on_delete": "destroy"}
    file.write_text(yaml.safe_dump(given))
    ran = run_app(root, "default", context=context)
    assert ran.returncode == 0, ran.stderr
    command = "make deploy CONFIG=config/default.yaml ALLOW_DESTROY=1"
    assert (command in ran.stderr) is not quiet
    assert ran.stderr.count("\n") == (0 if quiet else 1)


@pytest.mark.parametrize("verb", ["deploy", "destroy"])
@pytest.mark.parametrize(
    ("given", "turned"),
    [("1", True), ("true", True), ("True", True), ("yes", True), ("", False), ("0", False)],
)
def test_the_second_key_is_one_flag_for_either_verb(verb: str, given: str, turned: bool) -> None:
    ran = subprocess.run(
        ["make", "--dry-run", verb, "CONFIG=config/fleet.yaml", f"ALLOW_DESTROY={given}"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    (line,) = (one for one in ran.stdout.splitlines() if f"cdk {verb} --all" in one)
    assert "--context config='config/fleet.yaml'" in line
    assert ("--context kascade:allow-destroy=true" in line) is turned
    assert "--force" not in line


DRAIN = "Custom::BucketDrain"


def test_a_bucket_that_somebody_fills_is_emptied_between_the_two(
    plan: Callable[[str], ServingPlan], tmp_path: Path
) -> None:
    """The operator goes first, then what it wrote, then the bucket; a deletion goes backwards."""
    outputs = _with_both_keys(plan, "operator", tmp_path)
    assembly = Assembly.of(outputs)
    assert faults(assembly) == []
    (drain,) = assembly.find(lambda r: r["Type"] == DRAIN)
    (addon,) = assembly.find(
        lambda r: r["Type"] == ADDON and r["Properties"]["AddonName"] == INFERENCE
    )
    bucket = (drain[0], assembly.resources[drain]["Properties"]["BucketName"]["Ref"])
    assert "Certificates" in bucket[1]
    assert bucket in assembly.before(drain)
    assert drain in assembly.before(addon)
    assert assembly.resources[bucket]["DeletionPolicy"] == "Delete"
    rights = [
        (statement["Action"], statement["Resource"])
        for node, resource in assembly.resources.items()
        if resource["Type"] == "AWS::IAM::Policy" and "CertificatesDrainHandlerRole" in node[1]
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
    ]
    arn = {"Fn::GetAtt": [bucket[1], "Arn"]}
    assert rights[1:] == [
        ("s3:ListBucketVersions", arn),
        (["s3:DeleteObject", "s3:DeleteObjectVersion"], {"Fn::Join": ["", [arn, "/*"]]}),
        ("cloudformation:DescribeStacks", {"Ref": "AWS::StackId"}),
    ]


def test_without_both_keys_nothing_can_empty_a_bucket(
    synthesized: Synthesized, config: str
) -> None:
    found = list(resources(synthesized(config)))
    assert [name for name, resource in found if resource["Type"] == DRAIN] == []
    rights = [
        statement
        for _, resource in found
        for policy in resource.get("Properties", {}).get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if "s3:DeleteObjectVersion" in statement["Action"]
    ]
    assert str(found).count("s3:DeleteObjectVersion") == len(rights)
    # The upload of the lifecycle script takes its own back, and nothing else.
    assert {right["Resource"]["Fn::Join"][1][-1] for right in rights} <= {"/on_create-*.sh"}
