"""AWS's own chart in place of HyperPod's agents: rendered by Helm itself, in order, and the same
wherever it is cloned."""

import json
import shutil
import subprocess
import sys
import tarfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT, copy_checkout, run_app
from tests.contract.deploy_order import HYPERPOD, RELEASE, Assembly, awaits_pods, faults
from tests.contract.test_templates import STRICT
from tools.outputs import Outputs
from tools.rehearsal_env import unpack_programs

CHART = ROOT / "tests" / "data" / "charts" / "hyperpod"
AGENT = "health-monitoring-agent"
TYPES = ["ml.g6e.4xlarge", "ml.g6e.8xlarge"]
GPU_IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/k8s-device-plugin@sha256:" + "a" * 64


def configuration() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    (group,) = config["instance_groups"]
    # One of them with EFA; the chart's own list of types for it has neither.
    del group["instance_type"]
    group["instance_types"] = TYPES
    group["taints"] = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    config["kubernetes"] = config.get("kubernetes", {}) | {"dependencies_chart": "../vendor/chart"}
    config["images"] = {"nvidia_device_plugin": GPU_IMAGE}
    return config


def lay_out(root: Path) -> Path:
    """Make a checkout with the chart beside its configurations."""
    copy_checkout(root)
    (root / "config" / "chart.yaml").write_text(yaml.safe_dump(configuration()))
    shutil.copytree(CHART, root / "vendor" / "chart")
    return root


def outputs(root: Path) -> Outputs:
    name = str(configuration()["name"])
    return Outputs(name=name, assembly=root / "cdk.out", dist=root / "dist")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = lay_out(tmp_path_factory.mktemp("chart") / "checkout")
    ran = run_app(root, "chart")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return root


@pytest.fixture(scope="module")
def assembly(checkout: Path) -> Assembly:
    return Assembly.of(outputs(checkout))


def the_release(assembly: Assembly) -> dict[str, Any]:
    (node,) = assembly.find(lambda r: r["Type"] == RELEASE)
    return dict(assembly.resources[node]["Properties"])


def url_of(assembly: Assembly) -> str:
    return json.dumps(the_release(assembly)["ChartAssetURL"])


@pytest.fixture(scope="module")
def installed(
    checkout: Path, assembly: Assembly, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What Helm makes of the asset and the values of the template."""
    folder = tmp_path_factory.mktemp("helm")
    unpack_programs(folder / "programs")
    values = folder / "values.yaml"
    values.write_text(the_release(assembly)["Values"])
    (staged,) = (p for p in (checkout / "cdk.out").glob("asset.*") if (p / "Chart.yaml").is_file())
    argv = [str(folder / "programs" / "helm"), "template", "dependencies", str(staged)]
    argv += ["--namespace", "kube-system", "--values", str(values)]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [item for item in yaml.safe_load_all(ran.stdout) if item]


def test_linter_and_order_have_nothing_against_it(checkout: Path, assembly: Assembly) -> None:
    assert faults(assembly) == []
    argv = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", "us-west-2"]
    argv += ["--ignore-checks", "W3005", "--format", "parseable", "--"]
    argv += map(str, outputs(checkout).template_files.values())
    lint = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert lint.stdout + lint.stderr == ""


def test_hyperpod_waits_for_the_release_and_that_for_no_pod(assembly: Assembly) -> None:
    (cluster,) = assembly.find(lambda r: r["Type"] == HYPERPOD)
    (release,) = assembly.find(lambda r: r["Type"] == RELEASE)
    assert release in assembly.before(cluster)
    assert not awaits_pods(assembly.resources[release])


def test_a_release_that_hyperpod_does_not_wait_for_is_found(assembly: Assembly) -> None:
    templates = deepcopy(assembly.templates)
    ((stack, name),) = assembly.find(lambda r: r["Type"] == RELEASE)
    ((_, cluster),) = assembly.find(lambda r: r["Type"] == HYPERPOD)
    templates[stack]["Resources"][cluster]["DependsOn"].remove(name)
    broken = Assembly(templates=templates, stacks=assembly.stacks)
    assert f"{stack}/{cluster} does not wait for {stack}/{name}" in faults(broken)


def test_the_function_may_read_this_chart_and_nothing_else(assembly: Assembly) -> None:
    (release,) = assembly.find(lambda r: r["Type"] == RELEASE)
    policies = [
        (node, resource["Properties"]["PolicyDocument"]["Statement"])
        for node, resource in assembly.resources.items()
        if resource["Type"] == "AWS::IAM::Policy" and "KubectlRole" in str(resource["Properties"])
    ]
    ((policy, (statement,)),) = policies
    assert policy in assembly.before(release)
    assert statement["Action"] == "s3:GetObject"
    (key,) = url_of(assembly).rpartition("/")[2].split('"', 1)[:1]
    assert key.endswith(".zip")
    assert key in json.dumps(statement["Resource"])


def test_only_what_serving_needs_is_installed(installed: list[dict[str, Any]]) -> None:
    found = {(item["kind"], item["metadata"]["name"]) for item in installed}
    assert found == {
        ("Namespace", "aws-hyperpod"),
        ("ServiceAccount", "deep-health-check-service-account"),
        ("ServiceAccount", AGENT),
        ("DaemonSet", AGENT),
        ("DaemonSet", "dependencies-nvidia-device-plugin"),
        ("DaemonSet", "dependencies-aws-efa-k8s-device-plugin"),
        *(
            (kind, name)
            for kind in ("ClusterRole", "ClusterRoleBinding")
            for name in ("job-auto-restart", "hyperpod-patching")
        ),
    }


def test_daemons_stand_on_the_types_of_this_deployment(installed: list[dict[str, Any]]) -> None:
    pods = {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]
        for item in installed
        if item["kind"] == "DaemonSet"
    }
    nvidia, efa = (
        pods["dependencies-nvidia-device-plugin"],
        pods["dependencies-aws-efa-k8s-device-plugin"],
    )
    assert sorted(_types(nvidia)) == TYPES
    assert _types(efa) == ["ml.g6e.8xlarge"]
    for pod in (nvidia, efa):
        keys = {toleration["key"] for toleration in pod["tolerations"]}
        assert keys >= {"team", "nvidia.com/gpu", "sagemaker.amazonaws.com/node-health-status"}
    assert "CriticalAddonsOnly" in {toleration["key"] for toleration in efa["tolerations"]}


def _types(pod: dict[str, Any]) -> list[str]:
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((term,),) = (required["nodeSelectorTerms"],)
    (expression,) = term["matchExpressions"]
    return list(expression["values"])


def test_images_are_the_regions_and_the_configured_ones(installed: list[dict[str, Any]]) -> None:
    images = {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]["containers"][0]["image"]
        for item in installed
        if item["kind"] == "DaemonSet"
    }
    assert images[AGENT].startswith("905418368575.dkr.ecr.us-west-2.")
    assert images["dependencies-nvidia-device-plugin"] == GPU_IMAGE


def test_nothing_of_it_is_applied_a_second_time(checkout: Path) -> None:
    text = (checkout / "dist" / "manifests" / "platform.yaml").read_text()
    assert "aws-hyperpod" not in text
    assert "device-plugin" not in text


def test_another_clone_is_the_same_asset_and_nothing_is_wrong_with_it(
    assembly: Assembly, tmp_path: Path
) -> None:
    """Strict validation and cdk-nag, where Helm fetched the parts: a lock with a time in it, and a
    stale archive."""
    root = lay_out(tmp_path / "elsewhere")
    chart = root / "vendor" / "chart"
    (chart / "Chart.lock").write_text('generated: "2026-11-30T08:00:00Z"\n')
    stale = tmp_path / "values.yaml"
    stale.write_text("namespace: of-another-time\n")
    with tarfile.open(chart / "charts" / f"{AGENT}-0.1.0.tgz", "w:gz") as archive:
        archive.add(stale, f"{AGENT}/values.yaml")
    ran = run_app(
        root,
        "chart",
        program=str(STRICT),
        context={"@aws-cdk/core:strictCfnValidateErrors": True},
        environment={"CDK_VALIDATION": "true"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert url_of(Assembly.of(outputs(root))) == url_of(assembly)
    (staged,) = (p for p in (root / "cdk.out").glob("asset.*") if (p / "Chart.yaml").is_file())
    assert list((staged / "charts").glob("*.tgz")) == []


def test_no_path_of_a_machine_is_in_what_is_written(checkout: Path) -> None:
    written = [*(checkout / "cdk.out").glob("*.template.json"), *(checkout / "dist").rglob("*.*")]
    assert [path.name for path in written if str(checkout) in path.read_text()] == []
