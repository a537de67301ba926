"""Configurations for tests, and edits that change one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import InvalidConfigError, plan_file
from kascade.errors import format_path

Edit = Callable[[dict[str, Any]], object]

Row = tuple[Edit, str, str, *tuple[str, ...]]
"""An error, its path and code, and what was computed for the sentence. No code: not named yet."""


def base() -> dict[str, Any]:
    return {
        "name": "demo",
        "region": "us-west-2",
        "zones": ["us-west-2a", "us-west-2b"],
        "instance_groups": [{"name": "gpu", "instance_type": "ml.g6e.4xlarge", "count": 2}],
        "models": [{"name": "qwen", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 2}],
    }


def write(folder: Path, content: object) -> Path:
    path = folder / "deployment.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        plan_file(path)
    return [str(problem) for problem in caught.value.problems]


def codes_of(path: Path) -> list[tuple[str, str]]:
    """Place and code of each problem."""
    with pytest.raises(InvalidConfigError) as caught:
        plan_file(path)
    return [(format_path(problem.path), problem.code) for problem in caught.value.problems]


def group(index: int = 0, **changes: object) -> Edit:
    return lambda c: c["instance_groups"][index].update(changes)


def model(index: int = 0, **changes: object) -> Edit:
    return lambda c: c["models"][index].update(changes)


def top(**changes: object) -> Edit:
    return lambda c: c.update(changes)


def tenancy(kind: str, *tenants: object, index: int = 0) -> Edit:
    return model(index, tenancy={"kind": kind, "tenants": list(tenants)})


def both(*edits: Edit) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        for edit in edits:
            edit(config)

    return apply


DIRECTORY: dict[str, Any] = {"kind": "directory", "claim": "kv", "capacity_gib": 100}
