"""Errors about AWS's own chart of HyperPod's dependencies."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.unit.config.builders import write

ROOT = Path(__file__).parents[4]


CHART = ROOT / "tests" / "data" / "charts" / "hyperpod"
AGENT = Path("charts", "health-monitoring-agent")


Edit = Callable[[dict[str, Any], Path], object]
"""Of the configuration and of the chart's folder."""


def named(path: str) -> Edit:
    return lambda config, _: config["kubernetes"].update(dependencies_chart=path)


def without(part: str) -> Edit:
    return lambda _, chart: shutil.rmtree(chart / part)


def written(file: str, content: str | bytes) -> Edit:
    def edit(_: dict[str, Any], chart: Path) -> None:
        content_bytes = content if isinstance(content, bytes) else content.encode()
        (chart / file).write_bytes(content_bytes)

    return edit


def of_type(name: str) -> Edit:
    return lambda config, _: config["instance_groups"][0].update(instance_type=name)


def in_region(name: str) -> Edit:
    return lambda config, _: config.update(region=name, zones=[f"{name}a", f"{name}b"])


def on_a_cluster_that_is_there(config: dict[str, Any], _: Path) -> None:
    there = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())
    there["kubernetes"] |= config["kubernetes"]
    config.clear()
    config.update(there)


MISTAKES: dict[str, tuple[Edit, str, str]] = {
    "an absolute path": (
        named("/opt/chart"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "no such folder": (named("chart-2"), "kubernetes.dependencies_chart", "dependencies-chart"),
    "a file": (named("chart/Chart.yaml"), "kubernetes.dependencies_chart", "dependencies-chart"),
    "nothing": (named(""), "kubernetes.dependencies_chart", "dependencies-chart"),
    "the folder above": (named("."), "kubernetes.dependencies_chart", "dependencies-chart"),
    "no YAML": (
        written("Chart.yaml", "a: [b"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "a list": (written("Chart.yaml", "- a"), "kubernetes.dependencies_chart", "dependencies-chart"),
    "no text": (
        written("Chart.yaml", b"\xff\xfe"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "another chart": (
        written("Chart.yaml", "name: nginx\ndependencies: [{name: common}, 3]\n"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "parts that were not fetched": (
        without("charts/nvidia-device-plugin"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "a part that is off and was not fetched": (
        without("charts/mpi-operator"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "an agent without templates": (
        without(f"{AGENT}/templates"),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "a name that no folder has": (
        named("a" * 290),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "a part that nothing switches off": (
        lambda _, chart: (chart / "Chart.yaml").write_text(
            (chart / "Chart.yaml").read_text().replace("    condition: of-tomorrow.enabled\n", "")
        ),
        "kubernetes.dependencies_chart",
        "dependencies-chart",
    ),
    "a type that the agent does not know": (
        of_type("ml.g6e.2xlarge"),
        "kubernetes.dependencies_chart",
        "chart-instance-type",
    ),
    "a region that the agent does not know": (
        in_region("us-east-2"),
        "kubernetes.dependencies_chart",
        "chart-region",
    ),
    "an existing HyperPod cluster": (
        on_a_cluster_that_is_there,
        "kubernetes.dependencies_chart",
        "unread",
    ),
}


def lay_out(folder: Path, edit: Edit | None = None) -> Path:
    config = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    config["kubernetes"] = config.get("kubernetes", {}) | {"dependencies_chart": "chart"}
    shutil.copytree(CHART, folder / "chart")
    if edit is not None:
        edit(config, folder / "chart")
    return write(folder, config)
