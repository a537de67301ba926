"""AWS's own chart of what HyperPod expects inside EKS, from a local clone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from kascade.catalog.instances import INSTANCES
from kascade.catalog.regions import REGIONS
from kascade.config.blocks import ServingConfig
from kascade.config.reading import UnreadableError, read_text
from kascade.errors import ConfigPath, Problem

HEALTH_AGENT: Final = "health-monitoring-agent"
NVIDIA_PLUGIN: Final = "nvidia-device-plugin"
EFA_PLUGIN: Final = "aws-efa-k8s-device-plugin"
RIGHTS: Final = ("deep-health-check", "hyperpod-patching", "job-auto-restart")
"""Parts that let the HyperPod service act in the cluster; the first makes its namespace."""

PARTS: Final = (HEALTH_AGENT, *RIGHTS, NVIDIA_PLUGIN, EFA_PLUGIN)
"""Names of what serving needs, as in the chart's Chart.yaml (aws/sagemaker-hyperpod-cli,
helm_chart/HyperPodHelmChart)."""

_FIELD: Final = ("kubernetes", "dependencies_chart")
_CLONE: Final = "helm_chart/HyperPodHelmChart in a clone of aws/sagemaker-hyperpod-cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenciesChart:
    """What of the chart decides over its values.

    Attributes:
        conditions: Each part of the chart with the values that switch it on, such as
            ``mpi-operator.enabled``; none where the chart always has it.
    """

    conditions: Mapping[str, tuple[str, ...]]


def read_dependencies_chart(
    config: ServingConfig, folder: Path
) -> tuple[DependenciesChart | None, list[Problem]]:
    """Look at the chart that a configuration names.

    Args:
        config: A configuration whose fields are valid one by one.
        folder: Of the configuration file; the chart's path counts from it.

    Returns:
        The chart, or None where there is none or it is of no use, and why that is.
    """
    named = config.kubernetes.dependencies_chart
    if named is None:
        return None, []
    try:
        place = _place(named, folder)
        chart = _chart(place, named)
        agent = _agent(place, named)
    except UnreadableError as error:
        return None, [Problem(path=_FIELD, code="dependencies-chart", message=str(error))]
    problems = list(_unknown(config, agent, named))
    return (None, problems) if problems else (chart, [])


def _place(named: str, folder: Path) -> Path:
    if Path(named).is_absolute():
        msg = (
            f"{named!r} is an absolute path, which another machine does not have; give it relative "
            "to the folder of this file"
        )
        raise UnreadableError(msg)
    place = folder / named
    try:
        is_file, is_folder = place.is_file(), place.is_dir()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{named} cannot be looked at: {reason}; name {_CLONE}"
        raise UnreadableError(msg) from None
    if is_file:
        msg = f"{named} is a file; name the folder of the chart, {_CLONE}"
        raise UnreadableError(msg)
    if not is_folder:
        msg = (
            f"there is no folder {named} (it counts from the folder of the configuration file); "
            f"name {_CLONE}"
        )
        raise UnreadableError(msg)
    return place


def _chart(place: Path, named: str) -> DependenciesChart:
    text = read_text(
        place / "Chart.yaml",
        "chart",
        shown=f"{named or '.'}/Chart.yaml",
        base="the folder of the configuration file",
    )
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        msg = f"{named}/Chart.yaml is not valid YAML; restore it from the clone"
        raise UnreadableError(msg) from None
    conditions = dict(_conditions(content))
    missing = [part for part in PARTS if part not in conditions]
    if missing:
        msg = (
            f"{named} is not AWS's chart of HyperPod's dependencies: its Chart.yaml does not list "
            f"{', '.join(missing)}; name {_CLONE}"
        )
        raise UnreadableError(msg)
    always = sorted(part for part, values in conditions.items() if not values and part not in PARTS)
    if always:
        msg = (
            f"{named}/Chart.yaml gives {', '.join(always)} no condition, so nothing could switch "
            "it off; take it out of the dependencies there, or give it one"
        )
        raise UnreadableError(msg)
    # Helm wants every part to be there, also those that are switched off.
    absent = sorted(part for part in conditions if not _is_there(place, part))
    if absent:
        msg = (
            f"{named}/charts lacks {', '.join(absent)}, and Helm installs no chart with a part "
            f"missing; run `helm dependency update` in that folder"
        )
        raise UnreadableError(msg)
    return DependenciesChart(conditions=conditions)


def _conditions(content: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    listed = content.get("dependencies") if isinstance(content, dict) else None
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            condition = str(item.get("condition") or "")
            yield item["name"], tuple(filter(None, map(str.strip, condition.split(","))))


def _is_there(place: Path, part: str) -> bool:
    """Say whether a part is unpacked or archived; an archive is called PART-VERSION.tgz."""
    if (place / "charts" / part / "Chart.yaml").is_file():
        return True
    called = re.compile(rf"{re.escape(part)}-v?[0-9].*\.tgz")
    return any(called.fullmatch(path.name) for path in (place / "charts").glob(f"{part}-*.tgz"))


def is_chart(place: Path) -> bool:
    """Say whether a folder holds a Helm chart."""
    return (place / "Chart.yaml").is_file()


def unpacked_parts(place: Path) -> list[str]:
    """Names of the parts whose files lie in the chart's folder and not in an archive.

    ``helm dependency update`` archives those as well. Then Helm takes whichever it meets first, and
    an archive that is older than the files has been seen.
    """
    return sorted(path.parent.name for path in (place / "charts").glob("*/Chart.yaml"))


def _agent(place: Path, named: str) -> str:
    """Read the templates of the health agent as text."""
    templates = place / "charts" / HEALTH_AGENT / "templates"
    paths = sorted(path for path in templates.glob("[!.]*") if path.is_file())
    if not paths:
        msg = (
            f"{named}/charts/{HEALTH_AGENT}/templates has no files, so nothing says which nodes "
            f"the agent knows; name {_CLONE}"
        )
        raise UnreadableError(msg)
    shown = f"{named}/charts/{HEALTH_AGENT}/templates"
    return "\n".join(read_text(p, "template", shown=f"{shown}/{p.name}") for p in paths)


def _unknown(config: ServingConfig, agent: str, named: str) -> Iterator[Problem]:
    """What the agent's templates do not know, and would leave out without a word."""
    types: dict[str, ConfigPath] = {}
    for index, group in enumerate(config.instance_groups):
        for name in group.types:
            if name in INSTANCES and INSTANCES[name].gpus:
                types.setdefault(name, ("instance_groups", index))
    unlisted = [name for name in types if not re.search(rf"{re.escape(name)}(?![\w.])", agent)]
    if unlisted:
        yield Problem(
            path=_FIELD,
            code="chart-instance-type",
            message=f"the health agent of {named} runs on listed types only, and "
            f"{', '.join(unlisted)} is not among them, so HyperPod would replace no broken node; "
            "take a newer clone, another type, or leave this out: Kascade's own agent runs on "
            "every type",
            also_reads=tuple(types[name] for name in unlisted),
        )
    quoted = re.search(rf"[\"']{re.escape(config.region)}[\"']", agent)
    if config.region in REGIONS and not quoted and config.images.health_agent is None:
        yield Problem(
            path=_FIELD,
            code="chart-region",
            message=f"the health agent of {named} knows no registry in {config.region} and would "
            "name one of another region; take a newer clone, or name the image in "
            "images.health_agent",
            also_reads=(("region",), ("images", "health_agent")),
        )
