"""Alerting rules that Managed Prometheus evaluates over what its collector brings."""

from __future__ import annotations

from typing import Any, Final

import yaml

from kascade.observability.cache_rules import cache_group
from kascade.observability.metrics import (
    GENERATION_TOKENS,
    PROMPT_TOKENS,
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
    Component,
)
from kascade.observability.router_rules import router_group

WITHOUT_CACHE: Final = "KascadeEngineWithoutCache"
WITHOUT_TOKENS: Final = "KascadeEngineWithoutTokens"

_MINUTES: Final = 10
"""Longer than a pod takes to be replaced, during which one of its two targets may be gone."""

_SILENT_MINUTES: Final = 3
"""Longer than any prompt takes to be computed: its tokens are counted once it is."""


def rule_groups(*, cluster_name: str, operator_managed: bool) -> str:
    """Rule file, as YAML.

    Args:
        cluster_name: Value of the label ``cluster`` of every target.
        operator_managed: Whether HyperPod's operator makes pods of some engines.
    """
    groups = [
        cache_group(cluster_name=cluster_name),
        router_group(cluster_name=cluster_name),
        _group("kascade-engines", _without_tokens(cluster_name)),
    ]
    if operator_managed:
        groups.append(_group("kascade-operator", _without_cache(cluster_name)))
    return yaml.safe_dump({"groups": groups}, sort_keys=False, width=100)


def _group(name: str, rule: dict[str, object]) -> dict[str, Any]:
    return {"name": name, "interval": "60s", "rules": [rule]}


def _without_tokens(cluster_name: str) -> dict[str, object]:
    """Requests that wait while nothing is computed, whatever the reason.

    A core that hangs fails ``/health`` within the minute and is restarted. This sees the rest: a
    core that answers and does nothing, and loads from L2 that never end.
    """

    def of(name: str, function: str = "") -> str:
        series = f'{name}{{cluster="{cluster_name}"}}'
        return (
            f"sum by (model, pod) ({function}({series}[{_SILENT_MINUTES}m]))"
            if function
            else (f"sum by (model, pod) ({series})")
        )

    waiting = f"{of(REQUESTS_RUNNING.name)} + {of(REQUESTS_WAITING.name)}"
    tokens = f"{of(GENERATION_TOKENS.name, 'increase')} + {of(PROMPT_TOKENS.name, 'increase')}"
    return {
        "alert": WITHOUT_TOKENS,
        "expr": f"({waiting}) > 0\n  unless ({tokens}) > 0",
        "for": "2m",
        "labels": {"severity": "warning", "cluster": cluster_name},
        "annotations": {
            "summary": "{{ $labels.pod }}: requests, and not one token",
            "description": "{{ $labels.pod }} of {{ $labels.model }} has requests and has computed "
            f"nothing for {_SILENT_MINUTES} minutes. With lmcache_mp_active_prefetch_jobs above 0 "
            "a read of L2 hangs (docs/reliability.md); else its core does. Delete the pod.",
        },
    }


def _without_cache(cluster_name: str) -> dict[str, object]:
    """Pods of HyperPod's operator that run without L1 and L2.

    It looks at the effect, not at the policies: both targets of a pod are found by what stands in
    the pod, whether they answer or not, and a pod that admission did not reach has the one of vLLM
    alone. An engine that lost its server for another reason keeps its target, with ``up`` at 0.
    """
    engines, caches = (
        f'count by (model) (up{{cluster="{cluster_name}", job="{component.value}"}})'
        for component in (Component.VLLM, Component.LMCACHE)
    )
    return {
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
