"""Values of AWS's own chart of HyperPod's dependencies (aws/sagemaker-hyperpod-cli)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kascade.kube._pods import UNHEALTHY_NODE, of_types, tolerations
from kascade.plan import DependenciesChartPlan, PlatformPlan

_EFA_TOLERATIONS: Final = (
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
)
"""The chart's own; its list is replaced by ours, which adds the deployment's taints."""


def dependencies_values(
    chart: DependenciesChartPlan, platform: PlatformPlan, *, region: str
) -> dict[str, Any]:
    """What the chart is told; names as in its ``values.yaml`` and in those of its parts.

    Args:
        chart: The plan's slice.
        platform: Its types, taints and images.
        region: Without it the agent's image is looked up by a node's label, and there is no node.
    """
    values: dict[str, Any] = {"global": {"region": region}}
    for path, on in chart.switches.items():
        _set(values, path.split("."), on)
    _set(values, ["health-monitoring-agent", "region"], region)
    if "health_agent" in chart.images:
        _set(values, ["health-monitoring-agent", "hmaimage"], chart.images["health_agent"])
    own = tolerations(platform.taint_keys)
    if platform.gpu_instance_types:
        plugin = values.setdefault("nvidia-device-plugin", {})
        # Its own affinity asks for labels that HyperPod nodes do not carry, the chart's for a list
        # of types that may lack one of these.
        plugin["affinity"] = of_types(platform.gpu_instance_types)
        plugin["tolerations"] = [*own, UNHEALTHY_NODE]
        plugin |= _image(chart.images.get("nvidia_device_plugin"))
    if platform.efa_instance_types:
        plugin = values.setdefault("aws-efa-k8s-device-plugin", {})
        plugin["supportedInstanceLabels"] = {"values": list(platform.efa_instance_types)}
        plugin["tolerations"] = [*_EFA_TOLERATIONS, *own, UNHEALTHY_NODE]
        plugin |= _image(chart.images.get("efa_device_plugin"))
    return values


def _set(values: dict[str, Any], path: Sequence[str], value: object) -> None:
    *folders, name = path
    for folder in folders:
        if not isinstance(values.get(folder), dict):
            values[folder] = {}
        values = values[folder]
    values[name] = value


def _image(reference: str | None) -> dict[str, Any]:
    """Take a reference apart; the charts put ``repository:tag`` together again.

    >>> _image("nvcr.io/nvidia/k8s-device-plugin:v0.16.1")
    {'image': {'repository': 'nvcr.io/nvidia/k8s-device-plugin', 'tag': 'v0.16.1'}}
    >>> _image("registry.example.com:5000/plugin")["image"]["tag"]  # as containerd reads it
    'latest'
    """
    if reference is None:
        return {}
    repository, _, tag = reference.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = reference, "latest"
    return {"image": {"repository": repository, "tag": tag}}
