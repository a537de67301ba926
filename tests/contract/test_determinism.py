"""The same configuration gives the same bytes, wherever and whenever it is synthesized."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.checkout import CONFIGS, ROOT, copy_checkout, run_app

# For the CDK's own tools, with traces that name jsii's scratch folder; nothing deploys from them.
UNCOMPARED = (".metadata.json", "tree.json", "validation-report.json")


def synthesize(
    root: Path, config: str, environment: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Run app.py of that checkout and return every file it wrote."""
    ran = run_app(root, config, environment=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("cdk.out", "dist")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and not path.name.endswith(UNCOMPARED)
    }


def test_two_synths_agree_to_the_byte(tmp_path: Path, config: str) -> None:
    here = copy_checkout(tmp_path / "one")
    there = copy_checkout(tmp_path / "another folder" / "deeper")
    first = synthesize(here, config, {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"})
    second = synthesize(there, config, {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kolkata"})
    assert first
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


def test_no_output_names_the_folder_it_was_made_in(tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "one")
    written = synthesize(root, "default")
    marks = (str(tmp_path).encode(), str(ROOT).encode())
    assert [n for n, content in written.items() if any(mark in content for mark in marks)] == []


def test_a_second_configuration_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    first, second = CONFIGS[:2]
    used = copy_checkout(tmp_path / "used")
    synthesize(used, first)
    fresh = copy_checkout(tmp_path / "fresh")
    manifests = [name for name in synthesize(used, second) if name.startswith("dist/")]
    assert manifests == [name for name in synthesize(fresh, second) if name.startswith("dist/")]


@pytest.mark.parametrize("broken", ["name: UPPER\n", "nonsense\n", ""])
def test_a_bad_configuration_writes_nothing(tmp_path: Path, broken: str) -> None:
    root = copy_checkout(tmp_path / "one")
    (root / "config" / "bad.yaml").write_text(broken)
    ran = run_app(root, "bad")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.strip()
    assert "Traceback" not in ran.stderr
    assert not (root / "dist").exists()
    # The CDK makes the folder as soon as there is an app to ask for the configuration's name.
    assert list((root / "cdk.out").rglob("*")) == []
