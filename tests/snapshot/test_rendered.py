"""Everything a deployment consists of, against reviewed copies.

A copy that changes is a change to live systems: read it as a reviewer of `cdk diff` would, then
accept it with `make snapshots`.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.types import SerializableData

from tools.outputs import Outputs

pytestmark = pytest.mark.snapshot

CONFIGS = ["default", "fleet"]
KINDS = ["managed", "directory"]
"""Other kinds of L2; their templates differ in nothing that is not in the manifests."""

MANIFEST_TYPE = "Custom::AWSCDK-EKS-KubernetesResource"


class YamlFile(SingleFileSnapshotExtension):
    """One readable file for each manifest."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"


class JsonFile(SingleFileSnapshotExtension):
    """One readable file for each template, keys sorted."""

    _write_mode = WriteMode.TEXT
    file_extension = "json"

    def serialize(self, data: SerializableData, **_: Any) -> str:
        return json.dumps(data, indent=1, sort_keys=True) + "\n"


_PROGRAM = re.compile(r"  (\S+\.(?:py|sh)): ")
_KEY = re.compile(r"  \S|\S")
"""A line that begins the next key of a ConfigMap's data, or ends them."""


def _without_programs(text: str) -> str:
    """Leave out the lines of programs that ConfigMaps carry: they are reviewed as code."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if _KEY.match(line):
            program = _PROGRAM.match(line)
            inside = program is not None
            if program:
                line = f"  {program[1]}: a program"  # noqa: PLW2901
                lines.append(line)
        if not inside:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("name", [*CONFIGS, *KINDS])
def test_manifests(
    name: str, synthesized: Callable[[str], Outputs], snapshot: SnapshotAssertion
) -> None:
    files = synthesized(name).manifest_files
    assert len(files) >= 5
    for path in files:
        if path.stem != "dashboards":  # the board has a test of its own
            text = _without_programs(path.read_text())
            assert text == snapshot(name=f"{name}-{path.stem}", extension_class=YamlFile)


def test_engines_with_mounted_weights(
    synthesized: Callable[[str], Outputs], snapshot: SnapshotAssertion
) -> None:
    """The rest of that configuration is as in the others."""
    engines = [p for p in synthesized("weights").manifest_files if p.stem.startswith("engine-")]
    assert len(engines) == 2
    for path in engines:
        assert _without_programs(path.read_text()) == snapshot(
            name=path.stem, extension_class=YamlFile
        )


@pytest.mark.parametrize("name", CONFIGS)
def test_templates(
    name: str, synthesized: Callable[[str], Outputs], snapshot: SnapshotAssertion
) -> None:
    templates = synthesized(name).templates()
    assert len(templates) == 4
    for stack, template in templates.items():
        assert _readable(template) == snapshot(name=stack, extension_class=JsonFile)


def test_the_stacks_apply_what_lies_in_the_manifests(
    synthesized: Callable[[str], Outputs],
) -> None:
    for name in CONFIGS:
        outputs = synthesized(name)
        applied = [
            item
            for template in outputs.templates().values()
            for resource in template["Resources"].values()
            if resource["Type"] == MANIFEST_TYPE
            for item in _manifest(resource)
        ]
        written = [item for path, item in outputs.objects() if path.stem != "dashboards"]
        assert sorted(map(_text, applied)) == sorted(map(_text, written))
        assert len(applied) > 40


def _manifest(resource: dict[str, Any]) -> list[dict[str, Any]]:
    separator, lines = resource["Properties"]["Manifest"]["Fn::Join"]
    objects: list[dict[str, Any]] = json.loads(separator.join(lines))
    return objects


def _text(item: object) -> str:
    return json.dumps(item, sort_keys=True)


def _readable(template: dict[str, Any]) -> dict[str, Any]:
    """Without what stands elsewhere (manifests) and what only says that some file changed."""
    copy: dict[str, Any] = json.loads(re.sub(r"\b[0-9a-f]{64}\b", "<asset>", json.dumps(template)))
    for resource in copy["Resources"].values():
        if resource["Type"] == MANIFEST_TYPE:
            (item,) = _manifest(resource)
            place = item["metadata"].get("namespace", "")
            resource["Properties"]["Manifest"] = (
                f"{item['kind']} {place}/{item['metadata']['name']}"
            )
    return copy
