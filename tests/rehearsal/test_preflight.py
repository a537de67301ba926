"""`kascade preflight` and `kascade status` against the emulated AWS, before and after a stack.

The emulator lacks much of what is asked. Each such thing has to be a warning of its row.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.rehearsal.aws.deployment import Deployment
from tests.rehearsal.aws.emulator import ACCOUNT, Emulator
from tools.rehearsal_env import rehearsal_environment

pytestmark = pytest.mark.rehearsal

LACKING = {
    "add-on versions",
    "ec2 quotas",
    "hyperpod quotas",
    "identity center",
    "instance types",
    "kubernetes version",
}
"""Rows whose calls the emulator does not answer."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    scratch = tmp_path_factory.mktemp("preflight")
    config = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    region = config["region"]
    emulator = Emulator(
        scratch / "aws",
        installed=rehearsal_environment(),
        region=region,
        kubeconfig=Path("/dev/null"),
    )
    with emulator as aws:
        yield Deployment(
            scratch / "checkout", config=config, region=region, environment=aws.environment()
        )


def rows(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Look, and return what each row found, by its name."""
    run = deployment.kascade("preflight", "--json", "rows.json")
    assert "Traceback" not in run.output
    assert run.code in {0, 1}, run.output
    document = json.loads((deployment.root / "rows.json").read_text())
    assert document["account"] == ACCOUNT
    assert (document["state"] == "fail") == (run.code == 1)
    return {row["check"]: row for row in document["rows"]}


def said(row: dict[str, Any]) -> str:
    return " ".join(finding["said"] for finding in row["findings"])


def test_before_the_account_is_bootstrapped(deployment: Deployment) -> None:
    found = rows(deployment)
    assert found["bootstrap"]["state"] == "fail"
    for name in LACKING:
        assert found[name]["state"] == "warn", found[name]
        assert "not looked at" in said(found[name])
    for name in ("identity", "zones", "ranges", "stacks"):
        assert found[name]["state"] == "ok", found[name]
    assert "kascade-network is free" in said(found["stacks"])


def test_after_the_first_stack(deployment: Deployment) -> None:
    deployment.bootstrap().must_succeed()
    deployment.synth().must_succeed()
    deployment.deploy("kascade-network").must_succeed()
    found = rows(deployment)
    assert found["bootstrap"]["state"] == "ok"
    assert found["stacks"]["state"] == "ok"
    assert "kascade-network is there and will be updated" in said(found["stacks"])
    assert "kascade-cluster is free" in said(found["stacks"])
    # Its own VPC is no other one with the same addresses, and no VPC that is still to be made.
    assert found["ranges"]["state"] == "ok", found["ranges"]
    assert "VPC, addresses and NAT gateways are made already" in said(found["ec2 quotas"])


def test_status_says_what_nobody_could_look_at(deployment: Deployment) -> None:
    run = deployment.kascade("status", "--json", "status.json")
    # The emulator has no HyperPod, so nobody could look at the instances.
    assert run.code == 2, run.output
    assert "instances were not looked at" in run.output
    assert "Traceback" not in run.output
    document = json.loads((deployment.root / "status.json").read_text())
    assert document["whole"] is False
    assert [group["running"] for group in document["groups"]] == [None]
