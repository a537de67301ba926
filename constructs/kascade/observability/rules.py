"""Alerting rules that Managed Prometheus evaluates over what its collector brings."""

from __future__ import annotations

from typing import Any, Final

import yaml

from kascade.observability.metrics import Component
from kascade.observability.router_rules import router_group

WITHOUT_CACHE: Final = "KascadeEngineWithoutCache"

_MINUTES: Final = 10
"""Longer than a pod takes to be replaced, during which one of its two targets may be gone."""


def rule_groups(*, cluster_name: str, operated: bool) -> str:
    """Rule file, as YAML.

    Args:
        cluster_name: Value of the label ``cluster`` of every target.
        operated: Whether HyperPod's operator makes the pods of some engines.
    """
    groups = [router_group(cluster_name=cluster_name)]
    if operated:
        groups.append(_operator_group(cluster_name=cluster_name))
    return yaml.safe_dump({"groups": groups}, sort_keys=False, width=100)


def _operator_group(*, cluster_name: str) -> dict[str, Any]:
    """Rule for engines whose pods HyperPod's operator makes.

    It looks at the effect, not at the policies: both targets of a pod are found by what stands in
    the pod, whether they answer or not, and a pod that admission did not reach has the one of vLLM
    alone. An engine that lost its server for another reason keeps its target, with ``up`` at 0.
    """
    engines, caches = (
        f'count by (model) (up{{cluster="{cluster_name}", job="{component.value}"}})'
        for component in (Component.VLLM, Component.LMCACHE)
    )
    rule = {
        "alert": WITHOUT_CACHE,
        # A model without any cache has no series on the right hand side to compare with.
        "expr": f"{engines}\n  > ({caches} or 0 * {engines})",
        "for": f"{_MINUTES}m",
        "labels": {"severity": "warning", "cluster": cluster_name},
        "annotations": {
            "summary": "{{ $labels.model }}: more engines than LMCache servers",
            "description": "Pods of {{ $labels.model }} run without L1 and L2, so they compute "
            "every prompt that their GPU does not hold. Their admission policy did not reach them: "
            "see whether it is there (docs/operator.md), then delete those pods.",
        },
    }
    return {"name": "kascade-operator", "interval": "60s", "rules": [rule]}
