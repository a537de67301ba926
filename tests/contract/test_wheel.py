"""The wheel: what is in it, and that it works where the repository is not."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kascade.catalog.kubernetes import DEFAULT_KUBERNETES_VERSION
from kascade.errors import KascadeError
from kascade.kube import check_agreement
from kascade.observability.metrics import Component

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "constructs" / "kascade"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*argv, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a second environment that holds the wheel.

    It borrows every dependency from this one through a path file, which does not read that folder's
    own path files: the editable install of this checkout stays behind.
    """
    root = tmp_path_factory.mktemp("second")
    venv.create(root, with_pip=False, symlinks=True)
    (packages,) = root.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return root / "bin" / "python"


def test_the_wheel_holds_the_library_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {name for name in names if ".dist-info/" not in name}
    expected = {
        f"kascade/{path.relative_to(LIBRARY)}"
        for path in LIBRARY.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert code == expected
    assert "kascade/py.typed" in code
    assert {Path(name).suffix for name in code} <= {".py", ".sh", ".typed", ".json", ".yaml"}


def test_the_wheel_names_its_command_and_its_licence(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
    assert "kascade = kascade.cli:main" in archive.read(points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_the_library_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = """
import json, pathlib
import kascade, kascade.aws, kascade.kube, kascade.observability
root = pathlib.Path(kascade.__file__).parent
print(json.dumps({
    "root": str(root),
    "scripts": {p.name: p.read_text()[:2] for p in root.rglob("*.sh")},
    "handlers": sorted(p.parent.name for p in (root / "handlers").glob("*/index.py")),
}))
"""
    ran = subprocess.run(
        [str(installed), "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    found = json.loads(ran.stdout)
    assert Path(found["root"]).is_relative_to(installed.parents[1])
    assert found["scripts"]
    assert set(found["scripts"].values()) == {"#!"}
    folders = (path.parent.name for path in (LIBRARY / "handlers").glob("*/index.py"))
    assert found["handlers"] == sorted(folders)


def test_the_command_plans_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    config = ROOT / "config" / "default.yaml"
    argv = [str(installed), "-I", "-m", "kascade.cli", "plan", str(config), "--json", "plan.json"]
    subprocess.run(argv, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert json.loads((tmp_path / "plan.json").read_text())


EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "own_stack.py"


@pytest.mark.parametrize("region", ["us-west-2", "eu-central-1"])
def test_a_strangers_stack_synthesizes_from_the_wheel(
    installed: Path, tmp_path: Path, region: str
) -> None:
    """Its own VPC and EKS cluster; nothing of this repository but the wheel."""
    environment = {**os.environ, "CDK_OUTDIR": str(tmp_path / "cdk.out")}
    text = EXAMPLE.read_text()
    assert text.count('"us-west-2"') == 1
    example = tmp_path / EXAMPLE.name
    example.write_text(text.replace('"us-west-2"', f'"{region}"'))
    argv = [str(installed), "-I", str(example)]
    ran = subprocess.run(
        argv, cwd=tmp_path, check=False, capture_output=True, text=True, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    template = json.loads((tmp_path / "cdk.out" / "OwnStack.template.json").read_text())
    found: dict[str, list[dict[str, Any]]] = {}
    for resource in template["Resources"].values():
        found.setdefault(resource["Type"], []).append(resource.get("Properties", {}))
    (cluster,) = found["AWS::SageMaker::Cluster"]
    first, second = cluster["InstanceGroups"]
    assert first["InstanceType"] == "ml.g6e.4xlarge"
    assert second["InstanceRequirements"] == {"InstanceTypes": ["ml.g6e.8xlarge", "ml.g6e.4xlarge"]}
    (eks,) = (n for n, r in template["Resources"].items() if r["Type"] == "AWS::EKS::Cluster")
    assert cluster["Orchestrator"] == {"Eks": {"ClusterArn": {"Fn::GetAtt": [eks, "Arn"]}}}
    roles = [
        role for role in found["AWS::IAM::Role"] if role.get("Description") == "HyperPod nodes"
    ]
    assert len(roles) == 1
    (bucket,) = found["AWS::S3::Bucket"]
    assert json.dumps(bucket["BucketName"]).count("sagemaker-") == 1
    lint = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", region]
    lint += ["--ignore-checks", "W3005", "--", str(tmp_path / "cdk.out" / "OwnStack.template.json")]
    linted = subprocess.run(lint, check=False, capture_output=True, text=True)
    assert linted.stdout + linted.stderr == ""


def test_a_strangers_stack_is_short() -> None:
    lines = {
        line
        for node in ast.walk(ast.parse(EXAMPLE.read_text()))
        if isinstance(node, ast.stmt) and not _is_docstring(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    assert len(lines) < 30


def _run_example(installed: Path, folder: Path, name: str) -> str:
    """Run an example with nothing of this repository but the wheel, and return what it says."""
    example = folder / f"{name}.py"
    example.write_text((EXAMPLES / example.name).read_text())
    argv = [str(installed), "-I", str(example)]
    ran = subprocess.run(argv, cwd=folder, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _manifests(file: Path) -> list[dict[str, Any]]:
    """Read the objects of a file, each of which fits Kubernetes' own strict schema."""
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(file.read_text()))
    for item in objects:
        kubernetes_validate.validate(item, DEFAULT_KUBERNETES_VERSION, strict=True)
    check_agreement(objects)
    return objects


def _named(objects: list[dict[str, Any]], kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in objects if item["kind"] == kind]


def _names_used(value: Any, key: str) -> set[str]:
    """Values of a field wherever it stands."""
    if isinstance(value, list):
        return {name for item in value for name in _names_used(item, key)}
    if not isinstance(value, dict):
        return set()
    own = {value[key]} if isinstance(value.get(key), str) else set()
    return own | {name for item in value.values() for name in _names_used(item, key)}


def test_a_pool_of_ones_own_stands_on_what_its_file_holds(installed: Path, tmp_path: Path) -> None:
    said = _run_example(installed, tmp_path, "own_pool")
    objects = _manifests(tmp_path / "own-pool" / "pool.k8s.yaml")
    (claim,) = _named(objects, "PersistentVolumeClaim")
    assert claim in said
    assert _named(objects, "Namespace") == ["pool"]
    assert _names_used(objects, "storageClassName") - {""} <= {*_named(objects, "StorageClass")}
    ours = {name for name in _names_used(objects, "priorityClassName") if "system" not in name}
    assert ours <= {*_named(objects, "PriorityClass")}
    assert _named(objects, "Job")
    assert _named(objects, "CSIDriver") == ["curvine"]


def test_an_engine_of_ones_own_stands_on_what_its_file_holds(
    installed: Path, tmp_path: Path
) -> None:
    said = _run_example(installed, tmp_path, "own_engine")
    objects = _manifests(tmp_path / "own-engine" / "qwen2-7b.k8s.yaml")
    assert _named(objects, "Deployment") == ["qwen2-7b", "qwen2-7b-router"]
    assert _names_used(objects, "priorityClassName") <= {*_named(objects, "PriorityClass")}
    assert _names_used(objects, "storageClassName") <= {*_named(objects, "StorageClass")}
    maps = {
        volume["configMap"]["name"]
        for item in objects
        if item["kind"] == "Deployment"
        for volume in item["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    }
    assert maps
    assert maps <= {*_named(objects, "ConfigMap")}
    (url,) = (line for line in said.splitlines() if line.startswith("http"))
    name, space = url.removeprefix("http://").partition(":")[0].split(".")
    assert name in _named(objects, "Service")
    assert [space] == _named(objects, "Namespace")


def test_the_check_sees_an_engine_and_a_router_that_contradict_each_other(
    installed: Path, tmp_path: Path
) -> None:
    _run_example(installed, tmp_path, "own_engine")
    file = tmp_path / "own-engine" / "qwen2-7b.k8s.yaml"
    file.write_text(file.read_text().replace("--service-discovery-port=8000", "--x=8000"))
    with pytest.raises(KascadeError):
        _manifests(file)


def test_boards_of_ones_own_are_files_that_a_grafana_imports(
    installed: Path, tmp_path: Path
) -> None:
    _run_example(installed, tmp_path, "own_boards")
    folder = tmp_path / "own-boards"
    boards = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    assert boards
    for uid, board in boards.items():
        assert board["uid"] == uid
        (source,) = (v for v in board["templating"]["list"] if v["type"] == "datasource")
        assert source["current"]["value"] == "default"
    scraped = yaml.safe_load((folder / "scrape.yaml").read_text())
    assert {job["job_name"] for job in scraped["scrape_configs"]} == {c.value for c in Component}


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
