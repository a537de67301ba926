"""Which parts of AWS's chart of HyperPod's dependencies are on."""

from __future__ import annotations

from kascade.config.dependencies import EFA_PLUGIN, HEALTH_AGENT, NVIDIA_PLUGIN, RIGHTS
from kascade.plan import DependenciesChartPlan
from kascade.sizing.draft import Draft

_IMAGES = ("health_agent", "nvidia_device_plugin", "efa_device_plugin")


def dependencies_plan(draft: Draft, *, gpus: bool, efa: bool) -> DependenciesChartPlan | None:
    """Return what is to be installed of the chart, or None without one.

    Everything that serving does not need is off, whatever a newer chart brings: it has
    training operators, which would wait for nodes, and operators that EKS add-ons bring here.

    Args:
        draft: The configuration.
        gpus: Whether any node has GPUs.
        efa: Whether any node has EFA.
    """
    chart, path = draft.dependencies_chart, draft.config.kubernetes.dependencies_chart
    if chart is None or path is None:
        return None
    wanted = {*RIGHTS}
    wanted |= {HEALTH_AGENT, NVIDIA_PLUGIN} if gpus else set()
    wanted |= {EFA_PLUGIN} if efa else set()
    named = {role: getattr(draft.config.images, role) for role in _IMAGES}
    return DependenciesChartPlan(
        path=path,
        # One condition may be that of several parts.
        switches={
            value: any(value in chart.conditions[part] for part in wanted)
            for _, values in sorted(chart.conditions.items())
            for value in values
        },
        images={role: image for role, image in named.items() if image is not None},
    )
