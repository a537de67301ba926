"""Rules that no linter knows."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import constructs
import pytest

from kascade.bench.load import VERSION

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "constructs" / "kascade"

# Spelt in two parts, so that this file does not find itself.
FORBIDDEN = {
    "a package index": re.compile(r"(?:pypi|pythonhosted|npmjs|yarnpkg)\." + r"(?:org|com)"),
    "a folder of one machine": re.compile(r"(?<![\w.}])/(?:" + r"root|Users|home)/[a-z]"),
}


def sources(*parts: str) -> Iterator[tuple[Path, ast.Module]]:
    for part in parts:
        for path in sorted((LIBRARY / part).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_the_pypi_package_is_the_one_imported() -> None:
    assert not Path(str(constructs.__file__)).is_relative_to(ROOT / "constructs")


def test_every_handler_folder_has_an_entry_point() -> None:
    folders = [p for p in (LIBRARY / "handlers").iterdir() if p.is_dir() and p.name[0] not in "_."]
    layers = {p.parent.name for p in (LIBRARY / "handlers").glob("*/python")}
    assert {p.name for p in folders if not (p / "index.py").exists()} == layers


def test_constructs_read_no_file_environment_or_context() -> None:
    """Except the script that lies beside the code and travels with it in the wheel."""
    own = LIBRARY / "aws" / "lifecycle"
    reads = {
        "read_text",
        "read_bytes",
        "try_get_context",
        "get_context",
        "getenv",
        "environ",
        "open",
    }
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for path, tree in sources("catalog", "sizing", "aws", "kube", "observability")
        if own not in path.parents
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
        and (name := node.attr if isinstance(node, ast.Attribute) else node.id) in reads
    ]
    assert found == []


def test_powers_of_1024_live_in_units_only() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in sources("catalog", "config", "sizing", "aws", "kube", "observability")
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow | ast.Mult | ast.FloorDiv | ast.Div)
            and any(
                isinstance(side, ast.Constant) and side.value == 1024
                for side in (node.left, node.right)
            )
        )
    ]
    assert found == []


def test_no_file_names_a_package_index_or_a_folder_of_one_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {what}: {match.group()}"
            for what, pattern in FORBIDDEN.items()
            if (match := pattern.search(text))
        ]
    assert found == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_the_pins_start_with_this_project_and_leave_nothing_open(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "-e ."
    assert [line for line in lines[1:] if "==" not in line] == []


def test_both_files_pin_the_same_runtime() -> None:
    runtime = set((ROOT / "requirements.txt").read_text().splitlines())
    assert runtime <= set((ROOT / "requirements-dev.txt").read_text().splitlines())


def test_the_cdk_command_line_is_pinned_without_an_address() -> None:
    lock = json.loads((ROOT / "tools" / "cdk" / "package-lock.json").read_text())
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
    assert lock["packages"][""]["dependencies"] == {
        "aws-cdk": lock["packages"]["node_modules/aws-cdk"]["version"]
    }


def test_the_rehearsal_pins_leave_nothing_open_and_name_no_address() -> None:
    lines = (ROOT / "requirements-rehearsal.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#") and "==" not in line] == []
    folder = ROOT / "tests" / "rehearsal" / "aws" / "node"
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    assert [name for name, entry in lock.items() if "resolved" in entry] == []
    assert wanted == {name: lock[f"node_modules/{name}"]["version"] for name in wanted}


def test_the_load_generators_pins_leave_nothing_open_and_are_the_release_the_code_knows() -> None:
    lines = (ROOT / "requirements-bench.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#") and "==" not in line] == []
    assert f"aiperf=={VERSION}" in lines


def test_jsii_runs_on_the_pinned_node() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "JSII_NODE"}
    code = "import tools.node, os; print(os.environ['JSII_NODE'])"
    named = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    version = subprocess.run(
        [named, "--version"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert version.startswith("v24.")
