"""Alerting rule about a router that sends prompts without knowing where their prefix is."""

from __future__ import annotations

from typing import Any, Final

from kascade.observability import metrics as m

WITHOUT_PREFIX: Final = "KascadeRouterWithoutPrefix"

_MINUTES: Final = 10
"""Longer than it takes to leave out, or to replace, an engine that does not answer."""

_SHARE: Final = 0.1
"""Above it, it is no retry. An engine that has just died costs some requests their prefix."""


def router_group(*, cluster_name: str) -> dict[str, Any]:
    """Rules of every deployment; a router without prefixes makes no such series.

    Args:
        cluster_name: Value of the label ``cluster`` of every target.
    """
    name = m.ROUTER_PREFIX_DECISIONS.name
    unknown, every = (
        f'sum by (model) (increase({name}{{cluster="{cluster_name}"{more}}}[{_MINUTES}m]))'
        for more in (f", {m.UNKNOWN_PREFIX}", "")
    )
    rule = {
        "alert": WITHOUT_PREFIX,
        "expr": f"{unknown}\n  > {_SHARE:g} * {every}",
        "for": f"{_MINUTES}m",
        "labels": {"severity": "warning", "cluster": cluster_name},
        "annotations": {
            "summary": "{{ $labels.model }}: the router does not know the tokens of prompts",
            "description": "More than a tenth of the prompts of {{ $labels.model }} went to the "
            "least loaded replica, wherever their prefix is: an engine did not render them within "
            "a second. Does each answer POST /v1/completions/render, and not 403? Does one hang? "
            "Prompts at /v1/messages, and those with images, are never known.",
        },
    }
    return {"name": "kascade-router", "interval": "60s", "rules": [rule]}
