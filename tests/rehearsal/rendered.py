"""The manifests of a deployment as rendered: YAML on disk, read back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import yaml

from kascade import ServingPlan, plan_file
from tests.rehearsal.kubectl import Object

CONFIGS = Path(__file__).parents[2] / "config"

LIVED_IN = ("default", "fleet", "operator")
"""Configurations that are also changed, drained and removed; the others are installed. Each takes
four minutes more."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """One deployment.

    Attributes:
        plan: What it was rendered from.
        file: The configuration.
        charts: The objects of every chart that goes to the cluster, in deploy order; the first is
            applied before HyperPod has nodes.
    """

    plan: ServingPlan
    charts: dict[str, list[Object]]
    file: Path

    @classmethod
    def from_file(cls, config: Path, folder: Path) -> Self:
        """Render a configuration file into a folder and read that."""
        from k8s.charts import build_charts, manifest_app

        plan = plan_file(config)
        app = manifest_app(str(folder))
        charts = build_charts(app, plan)
        app.synth()
        names = [chart.node.id for chart in (charts.platform, *charts.serving)]
        read_back = {name: read(folder / f"{name}.yaml") for name in names}
        return cls(plan=plan, charts=read_back, file=config)

    @classmethod
    def edited(cls, original: Path, folder: Path, edit: Callable[[dict[str, Any]], object]) -> Self:
        """Render a configuration after an edit of its YAML."""
        config = yaml.safe_load(original.read_text())
        edit(config)
        for model in config["models"]:
            if "config_json" in model:
                model["config_json"] = str(original.parent / model["config_json"])
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / original.name
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        return cls.from_file(file, folder / "manifests")

    def objects(self) -> Iterator[Object]:
        """Yield every object in deploy order."""
        for objects in self.charts.values():
            yield from objects

    def find(self, kind: str, name: str = "") -> Object:
        """Return the first object of a kind, or the one of a name."""
        return next(
            item
            for item in self.objects()
            if item["kind"] == kind and name in {"", item["metadata"]["name"]}
        )

    def changed(self, kind: str, change: Callable[[Object], object], name: str = "") -> Self:
        """Return a copy in which one object is changed in place."""
        other = replace(self, charts=copy.deepcopy(self.charts))
        change(other.find(kind, name))
        return other


def read(path: Path) -> list[Object]:
    """Read all objects of a file."""
    return [item for item in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if item]


def identity(item: Object) -> str:
    """Name an object as kubectl does, with its namespace before it."""
    meta = item["metadata"]
    return f"{meta.get('namespace', '')}/{item['kind']}/{meta['name']}"
