"""The scrape configuration of Managed Prometheus' collector.

The collector takes ``global`` and ``scrape_configs`` and nothing else, no less than 30 seconds
between scrapes, and at most 256 KB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from kascade.errors import KascadeError
from kascade.kube import _labels
from kascade.observability.metrics import Component
from kascade.plan import Namespaces, ObservabilityPlan

MIN_INTERVAL_SECONDS = 30

PORTS: Mapping[Component, str] = {
    Component.VLLM: _labels.VLLM_PORT,
    Component.LMCACHE: _labels.LMCACHE_PORT,
    Component.ROUTER: _labels.ROUTER_PORT,
    Component.JANITOR: _labels.JANITOR_PORT,
    Component.CURVINE_MASTER: _labels.MASTER_PORT,
    Component.CURVINE_WORKER: _labels.WORKER_PORT,
    Component.CURVINE_FUSE: _labels.FUSE_PORT,
}
"""Container port that serves a component's ``/metrics``."""

_POD = "__meta_kubernetes_pod"
_TIMEOUT_SECONDS = 10


def scrape_configuration(
    plan: ObservabilityPlan,
    *,
    cluster_name: str,
    namespaces: Namespaces,
    operator_managed: Sequence[str] = (),
) -> str:
    """Prometheus YAML that finds every component's pods by the name of a container port.

    A native sidecar counts as an init container; its ports are found like any other. The label
    ``model`` is the engine's name in the plan. Unlike ``model_name`` it stands on every series of
    an engine, its LMCache server and its router, and never depends on how a model is spelled.

    Pods of HyperPod's operator call vLLM's port otherwise and carry the engine's name in a label of
    its own. They are found by these, so that one that admission did not reach is found as well.

    Args:
        plan: The plan's slice.
        cluster_name: Label of every series.
        namespaces: Where pods are looked for.
        operator_managed: Engines whose pods the operator makes.

    Raises:
        ValueError: The plan asks for a shorter interval than the collector takes.
    """
    if plan.scrape_interval_seconds < MIN_INTERVAL_SECONDS:
        message = (
            f"The scrape interval is {plan.scrape_interval_seconds} s; Managed Prometheus' "
            f"collector takes {MIN_INTERVAL_SECONDS} s or more."
        )
        raise ValueError(message)
    configuration = {
        "global": {
            "scrape_interval": f"{plan.scrape_interval_seconds}s",
            "scrape_timeout": f"{_TIMEOUT_SECONDS}s",
        },
        "scrape_configs": [
            _job(
                component,
                cluster_name=cluster_name,
                namespaces=namespaces,
                operator_managed=operator_managed,
            )
            for component in PORTS
        ],
    }
    return yaml.safe_dump(configuration, sort_keys=False, width=100)


def scrape_jobs(
    *, cluster: str, serving_namespace: str | None = None, cache_namespace: str | None = None
) -> str:
    """Prometheus YAML for ``scrape_config_files`` of a Prometheus of one's own in the cluster.

    Its account may list and watch pods, and its addresses are among the parts' ``collector_cidrs``.

    Args:
        cluster: Label ``cluster`` of every series, by which a reader of the boards chooses.
        serving_namespace: Of engines and routers. Default: none of them is scraped.
        cache_namespace: Of a Curvine pool. Default: none is scraped.

    Raises:
        KascadeError: The cluster has no name, or there is no namespace.
    """
    if not isinstance(cluster, str) or not cluster:
        msg = f"cluster is {cluster!r}; give the name that the boards shall show"
        raise KascadeError(msg)
    if not serving_namespace and not cache_namespace:
        msg = "there is neither serving_namespace nor cache_namespace; name one or both"
        raise KascadeError(msg)
    namespaces = Namespaces(
        serving=serving_namespace or "", cache=cache_namespace or "", hyperpod=""
    )
    jobs = [
        _job(component, cluster_name=cluster, namespaces=namespaces, operator_managed=())
        for component in PORTS
        if (serving_namespace if component.serves_one_model else cache_namespace)
    ]
    return yaml.safe_dump({"scrape_configs": jobs}, sort_keys=False, width=100)


def _job(
    component: Component,
    *,
    cluster_name: str,
    namespaces: Namespaces,
    operator_managed: Sequence[str],
) -> dict[str, object]:
    home = namespaces.serving if component.serves_one_model else namespaces.cache
    return {
        "job_name": component.value,
        "metrics_path": "/metrics",
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [home]}}],
        "relabel_configs": [
            _keep_targets(component, operator_managed),
            _drop(f"{_POD}_phase", "Failed|Succeeded"),
            {"target_label": "cluster", "replacement": cluster_name},
            _copy("__meta_kubernetes_namespace", "namespace"),
            _copy(f"{_POD}_name", "pod"),
            _copy(f"{_POD}_node_name", "node"),
            *_model_rules(component, operator_managed),
        ],
        "metric_relabel_configs": [_drop("__name__", ".+_created"), *_prefix_rules(component)],
    }


def _keep_targets(component: Component, operator_managed: Sequence[str]) -> dict[str, object]:
    """Keep the component's own port, and the one that the operator gives vLLM."""
    rule = _keep(f"{_POD}_container_port_name", PORTS[component])
    if component is not Component.VLLM or not operator_managed:
        return rule
    return {
        **rule,
        "source_labels": [f"{_POD}_container_port_name", _label(_labels.OPERATOR_LABEL)],
        "regex": f"{PORTS[component]};.*|{_labels.OPERATOR_PORT};({'|'.join(operator_managed)})",
    }


def _model_rules(component: Component, operator_managed: Sequence[str]) -> list[dict[str, object]]:
    if not component.serves_one_model:
        return []
    rules = [_copy(_label(_labels.ENGINE_LABEL), "model")]
    if operator_managed:
        of_operator = _copy(_label(_labels.OPERATOR_LABEL), "model")
        rules.append({**of_operator, "regex": f"({'|'.join(operator_managed)})"})
    return rules


def _label(name: str) -> str:
    """Meta label of a pod's label."""
    return f"{_POD}_label_" + "".join(c if c.isalnum() else "_" for c in name)


def _prefix_rules(component: Component) -> list[dict[str, object]]:
    """Give Curvine's bare names (``capacity``, ``available``) the name of their component.

    RE2 has no negative look-ahead. So every name gets the prefix, and the second rule takes it
    away again from those that had one of their own.
    """
    if component not in (Component.CURVINE_MASTER, Component.CURVINE_WORKER):
        return []
    prefix = component.value.replace("-", "_")
    return [
        _rename("(.+)", f"{prefix}_$1"),
        _rename(f"{prefix}_((curvine|client|process|scrape|up)(_.+)?)", "$1"),
    ]


def _keep(label: str, regex: str) -> dict[str, object]:
    return {"source_labels": [label], "regex": regex, "action": "keep"}


def _drop(label: str, regex: str) -> dict[str, object]:
    return {"source_labels": [label], "regex": regex, "action": "drop"}


def _copy(label: str, target: str) -> dict[str, object]:
    return {"source_labels": [label], "target_label": target}


def _rename(regex: str, replacement: str) -> dict[str, object]:
    return {
        "source_labels": ["__name__"],
        "regex": regex,
        "target_label": "__name__",
        "replacement": replacement,
    }
