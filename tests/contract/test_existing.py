"""What is there already is named in the templates, and neither made nor changed by them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

import app
from kascade import plan_file
from tests.checkout import ROOT, copy_checkout, run_app
from tests.contract.deploy_order import MANIFEST, Assembly, faults
from tests.contract.test_templates import STRICT
from tests.unit.config.builders import write
from tools.outputs import Outputs, cdk_context

OTHERS = ROOT / "tests" / "data" / "configs"
NAMES = sorted(path.stem for path in OTHERS.glob("*.yaml"))

MADE = {
    "existing-vpc": {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster"},
    "existing-eks": {"AWS::SageMaker::Cluster"},
    "existing-ranges": {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster"},
}
"""What of the three clusters and networks is still made."""

NEVER = {"AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::NatGateway", "AWS::EC2::InternetGateway"}
CLUSTERS = {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster"}


def resources(outputs: Outputs) -> list[dict[str, Any]]:
    return [r for body in outputs.templates().values() for r in body["Resources"].values()]


def properties(outputs: Outputs, kind: str) -> list[dict[str, Any]]:
    return [r["Properties"] for r in resources(outputs) if r["Type"] == kind]


@pytest.mark.parametrize("name", NAMES)
def test_the_rest_is_made_and_nothing_is_wrong_with_it(tmp_path: Path, name: str) -> None:
    """Strict validation, cdk-nag and cfn-lint, as for every file of config/."""
    root = copy_checkout(tmp_path / "checkout")
    shutil.copy2(OTHERS / f"{name}.yaml", root / "config")
    ran = run_app(
        root,
        name,
        program=str(STRICT),
        context={"@aws-cdk/core:strictCfnValidateErrors": True},
        environment={"CDK_VALIDATION": "true"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    templates = sorted((root / "cdk.out").glob("*.template.json"))
    kinds = {
        r["Type"] for path in templates for r in json.loads(path.read_text())["Resources"].values()
    }
    assert kinds & NEVER == set()
    assert kinds & CLUSTERS == MADE[name]
    argv = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", "us-west-2"]
    lint = subprocess.run(
        [*argv, "--ignore-checks", "W3005", "--format", "parseable", "--", *map(str, templates)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert lint.stdout + lint.stderr == ""


def rendered(folder: Path, edit: Callable[[dict[str, Any]], object]) -> Outputs:
    """Render `config/existing.yaml` with a change of one's own."""
    config = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())
    edit(config)
    plan = plan_file(write(folder, config))
    outputs = Outputs(name="edited", assembly=folder / "cdk.out", dist=folder / "dist")
    root = cdk.App(outdir=str(outputs.assembly), context=cdk_context())
    charts = app.build(root, plan, manifests=outputs.dist / "manifests")
    root.synth()
    charts.synth()
    return outputs


def chart_objects(outputs: Outputs, chart: str) -> list[dict[str, Any]]:
    text = (outputs.dist / "manifests" / f"{chart}.yaml").read_text()
    return [found for found in yaml.safe_load_all(text) if found]


@pytest.fixture(scope="module")
def guest(synthesized: Callable[[str], Outputs]) -> Outputs:
    """The deployment that serves on somebody's clusters."""
    return synthesized("existing")


def test_it_makes_no_cluster_and_no_network(guest: Outputs) -> None:
    kinds = {resource["Type"] for resource in resources(guest)}
    assert kinds & (NEVER | CLUSTERS) == set()


def test_its_function_enters_the_cluster_by_an_access_entry(guest: Outputs) -> None:
    (entry,) = properties(guest, "AWS::EKS::AccessEntry")
    assert entry["ClusterName"] == "platform"
    ((policy,),) = ([p["PolicyArn"] for p in entry["AccessPolicies"]],)
    assert "AmazonEKSClusterAdminPolicy" in json.dumps(policy)


def test_nothing_is_applied_before_its_function_may_enter(guest: Outputs) -> None:
    (template,) = (body for name, body in guest.templates().items() if name.endswith("-cluster"))
    found = template["Resources"]
    (entry,) = (n for n, r in found.items() if r["Type"] == "AWS::EKS::AccessEntry")
    applied = {
        name: r for name, r in found.items() if r["Type"] == "Custom::AWSCDK-EKS-KubernetesResource"
    }
    assert applied
    for name in applied:
        assert entry in _upstream(found, name), name


def _upstream(found: dict[str, Any], name: str) -> set[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        depends = found[waiting.pop()].get("DependsOn", [])
        new = set([depends] if isinstance(depends, str) else depends) - seen
        seen |= new
        waiting += new
    return seen


def test_an_ebs_driver_of_its_own_goes_after_the_namespaces(tmp_path: Path) -> None:
    """HyperPod stays, so its deletion gives volumes no time to go."""
    root = copy_checkout(tmp_path / "checkout")
    config = yaml.safe_load((root / "config" / "existing.yaml").read_text())
    had = ["vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent"]
    config["kubernetes"]["existing"]["addons"] = had
    (root / "config" / "lacking.yaml").write_text(yaml.safe_dump(config))
    ran = run_app(root, "lacking")
    assert ran.returncode == 0, ran.stderr
    whole = Assembly.of(Outputs(name="guest", assembly=root / "cdk.out", dist=root / "dist"))
    assert faults(whole) == []

    broken = Assembly(templates=whole.templates, stacks=whole.stacks)
    for node in broken.find(lambda r: r["Type"] == MANIFEST):
        names = broken.resources[node].get("DependsOn", [])
        kept = [name for name in names if "Addonawsebscsidriver" not in name]
        broken.templates[node[0]]["Resources"][node[1]]["DependsOn"] = kept
    assert any("so volumes have no time to go" in fault for fault in faults(broken))


def test_it_brings_nothing_that_hyperpod_brought(guest: Outputs) -> None:
    text = (guest.dist / "manifests" / "platform.yaml").read_text()
    assert "aws-hyperpod" not in text
    assert "device-plugin" not in text


def test_the_worker_makes_its_directory_once_the_mount_is_proved(guest: Outputs) -> None:
    objects = yaml.safe_load_all((guest.dist / "manifests" / "cache.yaml").read_text())
    (pod,) = (
        o["spec"]["template"]["spec"]
        for o in objects
        if o["kind"] == "DaemonSet" and o["metadata"]["name"].startswith("curvine-worker")
    )
    assert {v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v} == {"/opt/dlami/nvme"}
    (data,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "nvme")
    assert data["subPath"] == "kascade/guest"
    assert pod["initContainers"][0]["name"] == "check-nvme"


def weights_in_s3(config: dict[str, Any]) -> None:
    config["models"][0]["weights"] = {"kind": "s3", "bucket": "weights", "prefix": "qwen2"}


@pytest.mark.parametrize("listed", [[], ["eks-node-monitoring-agent"], ["coredns"]])
def test_what_a_whole_cluster_hangs_on_is_never_made_on_somebodys(
    tmp_path: Path, listed: list[str]
) -> None:
    """Who has Cilium or a chart has no such add-on to name; one of ours would replace theirs."""

    def edit(config: dict[str, Any]) -> None:
        config["kubernetes"]["existing"]["addons"] = listed
        weights_in_s3(config)

    made = {
        found["AddonName"]: (found["ResolveConflicts"], found["PreserveOnDelete"])
        for found in properties(rendered(tmp_path, edit), "AWS::EKS::Addon")
    }
    assert made == dict.fromkeys(
        ["eks-pod-identity-agent", "aws-ebs-csi-driver", "aws-mountpoint-s3-csi-driver"],
        ("NONE", True),
    )


def test_the_functions_group_reaches_their_api_server_and_nothing_else(tmp_path: Path) -> None:
    """Their cluster's group is that of nodes and pods, too."""
    rules = [
        rule
        for rule in properties(rendered(tmp_path, lambda _: None), "AWS::EC2::SecurityGroupIngress")
        if "kubectl" in rule["Description"]
    ]
    (rule,) = rules
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)


def test_the_deployments_own_group_waits_for_interfaces_in_their_vpc(tmp_path: Path) -> None:
    """And deletes nothing there: it has no right to, and is told no cluster's name."""
    folder = rendered(tmp_path, lambda _: None)
    (drain,) = properties(folder, "Custom::InterfaceDrain")
    assert "ClusterName" not in drain
    assert len(drain["SecurityGroupIds"]) == 1
    statements = [
        statement
        for policy in properties(folder, "AWS::IAM::Policy")
        if "DrainHandlerRole" in str(policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    assert "ec2:DescribeNetworkInterfaces" in str(statements)
    assert "ec2:Delete" not in str(statements)


def test_add_ons_of_a_cluster_of_our_own_are_ours(
    synthesized: Callable[[str], Outputs],
) -> None:
    made = properties(synthesized("default"), "AWS::EKS::Addon")
    assert len(made) == 5
    assert {(a["ResolveConflicts"], a["PreserveOnDelete"]) for a in made} == {("OVERWRITE", False)}


def driver_nodes(outputs: Outputs) -> list[dict[str, Any]]:
    """Which nodes Curvine's driver runs on."""
    (driver,) = (
        found
        for found in chart_objects(outputs, "cache")
        if found["kind"] == "DaemonSet" and found["metadata"]["name"] == "curvine-csi-node"
    )
    affinity = driver["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expressions: list[dict[str, Any]] = term["matchExpressions"]
    return expressions


def test_the_caches_driver_keeps_off_the_owners_other_groups(
    guest: Outputs, synthesized: Callable[[str], Outputs]
) -> None:
    label = "sagemaker.amazonaws.com/instance-group-name"
    assert driver_nodes(guest) == [{"key": label, "operator": "In", "values": ["worker-group-1"]}]
    assert driver_nodes(synthesized("default")) == [{"key": label, "operator": "Exists"}]


def test_every_pod_that_mounts_the_cache_is_where_its_driver_is(guest: Outputs) -> None:
    (expression,) = driver_nodes(guest)
    mounting = []
    charts = [path.stem for path in sorted((guest.dist / "manifests").glob("*.yaml"))]
    for found in (o for name in charts for o in chart_objects(guest, name)):
        pod = found.get("spec", {}).get("template", {}).get("spec", {})
        if any("persistentVolumeClaim" in volume for volume in pod.get("volumes", [])):
            mounting.append(found["kind"])
            assert json.dumps(expression) in json.dumps(pod["affinity"]), found["metadata"]["name"]
    assert mounting == ["Deployment", "Deployment"]  # engine and janitor


def _volume_rights(outputs: Outputs) -> list[Any]:
    """What the EBS driver's role may attach volumes to."""
    return [
        statement["Resource"]
        for found in properties(outputs, "AWS::IAM::Policy")
        for statement in found["PolicyDocument"]["Statement"]
        if "sagemaker:AttachClusterNodeVolume" in statement["Action"]
    ]


def test_volumes_are_attached_to_that_hyperpod_cluster_alone(
    tmp_path: Path, synthesized: Callable[[str], Outputs]
) -> None:
    def edit(config: dict[str, Any]) -> None:
        config["kubernetes"]["existing"]["addons"] = ["vpc-cni"]

    (cluster,) = _volume_rights(rendered(tmp_path, edit))
    assert cluster == "arn:aws:sagemaker:us-west-2:111122223333:cluster/0a1b2c3d4e5f"
    (clusters,) = _volume_rights(synthesized("default"))
    assert json.dumps(clusters).endswith(':cluster/*"]]}')
