"""Names of somebody else's that two things share, in one stack."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions

from kascade import plan_file
from kascade.aws import ServingEksCluster
from kascade.aws._ids import distinct_ids
from kascade.plan import ServingPlan, SoftwareUpdatesPlan
from stacks.network import NetworkStack
from tests.checkout import ROOT
from tests.unit.aws.builders import make_cluster_plan, make_group, make_plan, synthesize

ADMIN = "arn:aws:iam::111122223333:role/Admin"
NAMESAKE = "arn:aws:iam::444455556666:role/Admin"
PATH, DASH = "arn:aws:iam::111122223333:role/a/b", "arn:aws:iam::111122223333:role/a-b"
OTHER = "arn:aws:iam::111122223333:role/Other"
KEYS = [f"arn:aws:kms:us-west-2:{account}:key/a" for account in ("111122223333", "444455556666")]


@pytest.fixture(scope="module")
def plans() -> dict[str, ServingPlan]:
    return {"own": make_plan(), "imported": plan_file(ROOT / "config" / "existing.yaml")}


def admins(plan: ServingPlan, arns: Sequence[str]) -> dict[str, str]:
    """Logical ids of the entries of people's roles."""
    app = cdk.App()
    network = NetworkStack(app, "network", plan=plan)
    stack = cdk.Stack(app, "cluster", env=cdk.Environment(region=plan.region))
    cluster = dataclasses.replace(plan.cluster, admin_role_arns=tuple(arns))
    ServingEksCluster(stack, "Eks", plan=cluster, network=network.network)
    entries = assertions.Template.from_stack(stack).find_resources("AWS::EKS::AccessEntry")
    found = {str(e["Properties"]["PrincipalArn"]): name for name, e in entries.items()}
    return {arn: name for arn, name in found.items() if arn.startswith("arn:")}


@pytest.mark.parametrize("kind", ["own", "imported"])
@pytest.mark.parametrize("pair", [(ADMIN, NAMESAKE), (DASH, PATH)], ids=["accounts", "paths"])
def test_two_roles_of_one_name_both_become_administrators(
    plans: dict[str, ServingPlan], kind: str, pair: tuple[str, str]
) -> None:
    plan = plans[kind]
    found = admins(plan, pair)
    assert set(found) == set(pair)
    # The order says nothing, and a further role moves nobody's id: nor does one of the same name.
    assert admins(plan, [pair[1], OTHER, pair[0]]).items() >= found.items()
    assert admins(plan, pair[:1]).items() <= found.items()


def test_an_id_of_its_own_name_is_not_touched() -> None:
    assert distinct_ids("Admin", {ADMIN: "Admin", OTHER: "Other"}) == {
        ADMIN: "Admin-Admin",
        OTHER: "Admin-Other",
    }


def test_two_keys_of_one_id_encrypt_the_volumes(tmp_path: Path) -> None:
    group = make_group(volume_kms_key_arn=KEYS[0], root_volume_kms_key_arn=KEYS[1])
    plan = make_plan(cluster=make_cluster_plan(groups=(group,)))
    cluster = synthesize(tmp_path, plan).only("cluster", "AWS::SageMaker::Cluster")
    (written,) = cluster["Properties"]["InstanceGroups"]
    configs = [entry["EbsVolumeConfig"] for entry in written["InstanceStorageConfigs"]]
    assert [config["VolumeKmsKeyId"] for config in configs] == KEYS


def test_alarms_that_the_cdk_writes_alike_all_roll_back(tmp_path: Path) -> None:
    names = ("a/b", "a--b")
    updates = SoftwareUpdatesPlan(
        schedule="cron(0 3 ? * SUN *)",
        batch_size=1,
        batch_is_percentage=False,
        wait_seconds=0,
        rollback_alarms=names,
    )
    plan = make_plan(cluster=make_cluster_plan(software_updates=updates))
    cluster = synthesize(tmp_path, plan).only("cluster", "AWS::SageMaker::Cluster")
    written: Any = cluster["Properties"]["InstanceGroups"][0]["ScheduledUpdateConfig"]
    alarms = written["DeploymentConfig"]["AutoRollbackConfiguration"]
    assert alarms == [{"AlarmName": name} for name in names]
