"""Engines as Kubernetes sees them, through kubectl, and what it means where nobody sees any."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kascade.cli.kubectl import Kubectl
from kascade.errors import KascadeError
from kascade.kube._labels import engine_selector
from kascade.plan import ServingPlan

_KUBECTL_SECONDS: Final = 20.0
_MAX_REASONS: Final = 3
_NO_CONTEXT: Final = "current-context must exist"


class NoWayError(KascadeError):
    """From this machine nobody sees the deployment's pods, and waiting changes nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsState:
    """The engines of one model, or of one tenant of it.

    Attributes:
        reasons: What Kubernetes says about those that are not ready.
    """

    name: str
    planned: int
    ready: int
    reasons: tuple[str, ...]


def pods_states(
    plan: ServingPlan, context: str | None, server: str | None
) -> tuple[PodsState, ...]:
    """Look at the pods of every engine.

    Args:
        plan: The plan.
        context: Of the kubeconfig, or None for the current one.
        server: Address of the deployment's EKS API, or None where nobody knows it.

    Raises:
        NoWayError: There is no kubectl, or no context of that cluster.
        KascadeError: The look failed.
    """
    if shutil.which("kubectl") is None:
        msg = "kubectl is not on PATH; install it to see them"
        raise NoWayError(msg)
    found: list[PodsState] = []
    for engine in plan.engines:
        kubectl = Kubectl(namespace=engine.namespace, context=context)
        if not found:
            _same_cluster(plan, kubectl, server)
        selecting = ",".join(
            f"{key}={value}" for key, value in engine_selector(engine.name).items()
        )
        pods = kubectl.items(
            "get", "pods", f"--selector={selecting}", f"--request-timeout={_KUBECTL_SECONDS:g}s"
        )
        ready = [pod for pod in pods if _ready(pod)]
        reasons = dict.fromkeys(_reason(pod) for pod in pods if pod not in ready)
        found.append(
            PodsState(
                name=engine.name,
                planned=engine.replicas,
                ready=len(ready),
                reasons=tuple(reasons)[:_MAX_REASONS],
            )
        )
    return tuple(found)


def _same_cluster(plan: ServingPlan, kubectl: Kubectl, server: str | None) -> None:
    """Reject to take another cluster's pods for the deployment's.

    Raises:
        NoWayError: The context is of another cluster, or there is none.
        KascadeError: kubectl failed.
    """
    if server is None:
        return
    advice = (
        f"run aws eks update-kubeconfig --name {plan.cluster.eks_name} --region {plan.region}, or "
        "choose another --context"
    )
    try:
        view = kubectl.json("config", "view", "--minify") or {}
    except KascadeError as error:
        if _NO_CONTEXT not in str(error):
            raise
        msg = f"kubectl has no context; {advice}"
        raise NoWayError(msg) from None
    clusters = _dicts(view.get("clusters")) or [{}]
    here = str(_dict(clusters[0].get("cluster")).get("server", ""))
    if here.rstrip("/").lower() != server.rstrip("/").lower():
        msg = (
            f"kubectl's context is of {here or 'no cluster'}, and EKS cluster "
            f"{plan.cluster.eks_name} is {server}; {advice}"
        )
        raise NoWayError(msg)


def _ready(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in _dicts(_dict(pod.get("status")).get("conditions"))
    )


def _reason(pod: dict[str, Any]) -> str:
    name, status = pod["metadata"].get("name", "a pod"), _dict(pod.get("status"))
    waits = [
        _dict(state.get("waiting")) or _dict(state.get("terminated"))
        for key in ("initContainerStatuses", "containerStatuses")
        for container in _dicts(status.get(key))
        for state in (_dict(container.get("state")),)
    ]
    said = [
        f"{wait['reason']}{': ' + str(wait['message']) if wait.get('message') else ''}"
        for wait in waits
        if wait.get("reason") not in {None, "PodInitializing", "Completed"}
    ]
    said += [
        str(condition["message"])
        for condition in _dicts(status.get("conditions"))
        if condition.get("type") == "PodScheduled" and condition.get("message")
    ]
    return f"{name} is {status.get('phase', 'unknown')}" + (f" ({said[0]})" if said else "")


def _dict(value: object) -> dict[str, Any]:
    """Take what should be an object; a pod that nobody has seen yet has null in places."""
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> Sequence[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
