"""Alerting rules about engines whose cache is there and does nothing for them."""

from __future__ import annotations

from typing import Any, Final

from kascade.observability import metrics as m
from kascade.observability.metrics import Component

UNREGISTERED: Final = "KascadeEngineNotRegistered"
UNOPENED: Final = "KascadeBlocksDoNotOpen"

_UNREGISTERED_MINUTES: Final = 10
"""Longer than a restarted LMCache server stays away and its engine needs to notice."""

_UNOPENED_HOURS: Final = 2
"""Blocks of an old key, or damaged ones, are replaced as they are asked for, which passes."""


def cache_group(*, cluster_name: str) -> dict[str, Any]:
    """Rules of every deployment.

    Args:
        cluster_name: Value of the label ``cluster`` of every target.
    """
    registered, expected, unopened = (
        f'{metric.name}{{cluster="{cluster_name}"}}'
        for metric in (m.CACHE_REGISTERED, m.CACHE_EXPECTED, m.CACHE_UNOPENED)
    )
    serving = f'up{{cluster="{cluster_name}", job="{Component.VLLM.value}"}} == 1'
    labels = {"severity": "warning", "cluster": cluster_name}
    rules = [
        {
            "alert": UNREGISTERED,
            # While vLLM loads its model it is no target that is up, and not registered yet.
            "expr": f"({registered} < {expected})\n  and on (model, pod) ({serving})",
            "for": f"{_UNREGISTERED_MINUTES}m",
            "labels": labels,
            "annotations": {
                "summary": "{{ $labels.pod }}: its LMCache server does not know the engine",
                "description": "It serves, all its probes are green, and it neither stores nor "
                "loads any block: LMCache has forgotten it and never takes it back. Delete the pod "
                "{{ $labels.pod }}.",
            },
        },
        {
            "alert": UNOPENED,
            "expr": f"sum by (model) (increase({unopened}[30m])) > 0",
            "for": f"{_UNOPENED_HOURS}h",
            "labels": labels,
            "annotations": {
                "summary": "{{ $labels.model }}: blocks that cannot be opened come back",
                "description": "Loads of {{ $labels.model }} have failed to open for hours, and "
                "each time their blocks were deleted. Pods with different keys share one "
                "directory: compare the Secrets they were started with, and the deployments that "
                "use this claim (docs/l2.md).",
            },
        },
    ]
    return {"name": "kascade-cache", "interval": "60s", "rules": rules}
