"""``kascade status``: what runs, beside what the plan says, and why the rest does not."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kascade.cli.kubectl import Kubectl
from kascade.cli.outputs import STANDARD_OUTPUT, interruptible, keep_inputs, write_json
from kascade.errors import KascadeError
from kascade.kube._labels import engine_selector
from kascade.sizing.plan import ServingPlan
from kascade.sizing.planner import plan_file

if TYPE_CHECKING:
    from kascade.preflight.running import ClusterState

_MISSING: Final = 1
_LOOK_SECONDS: Final = 20.0
_MOST_WAIT_SECONDS: Final = 4 * 3600
_KUBECTL_SECONDS: Final = 20.0
_MAX_REASONS: Final = 3


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All of it.

    Attributes:
        pods: None where nobody could look.
        pods_said: Why nobody could, or empty.
        endpoints: Where models and dashboards answer.
    """

    cluster: ClusterState
    pods: tuple[PodsState, ...] | None
    pods_said: str
    endpoints: dict[str, str]

    @property
    def whole(self) -> bool:
        """Whether nothing is missing, as far as one could look."""
        pods = all(one.ready >= one.planned for one in self.pods or ())
        return self.cluster.found and all(group.whole for group in self.cluster.groups) and pods


def add_status(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "status",
        help="see what runs of a deployment, and why something does not",
        description="Compares instances and pods with the plan and prints where models answer. "
        "Changes nothing. Pods are seen through kubectl, where it reaches the cluster. Exit "
        "codes: 0 all of the plan runs, 1 something is missing, 2 the configuration cannot be "
        "used or nobody can look (no credentials, no network).",
    )
    parser.add_argument("config", type=Path, help="the configuration file that is deployed")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long, at most, until nothing is missing (default: look once)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write it to this file; - prints it instead of the text",
    )
    parser.set_defaults(run=run)


@interruptible
def run(arguments: argparse.Namespace) -> int:
    """Look, until nothing is missing or the time is over.

    Returns:
        0, or 1 when something is missing.

    Raises:
        KascadeError: The configuration cannot be used, or nobody can look.
    """
    from kascade.preflight import account  # noqa: PLC0415  (boto3 is slow to import)

    if not 0 <= arguments.wait <= _MOST_WAIT_SECONDS:
        msg = f"--wait {arguments.wait:g}: give seconds, 0 to {_MOST_WAIT_SECONDS}"
        raise KascadeError(msg)
    plan = plan_file(arguments.config)
    if arguments.json is not None and arguments.json != STANDARD_OUTPUT:
        keep_inputs(arguments.json, arguments.config, "a report")
    session = account.open_session()
    account.whose(account.Account(session, region=plan.region))
    deadline = time.monotonic() + arguments.wait
    said = ""
    while True:
        status = look(plan, session, arguments.context)
        left = deadline - time.monotonic()
        if status.whole or left <= 0 or not status.cluster.found:
            break
        line = _brief(status)
        if line != said:
            sys.stderr.write(f"waiting: {line}\n")
            said = line
        time.sleep(min(_LOOK_SECONDS, left))
    if arguments.json != STANDARD_OUTPUT:
        sys.stdout.write("\n".join(_text(plan, status, str(arguments.config))) + "\n")
    if arguments.json is not None:
        write_json(_document(plan, status), arguments.json)
    return 0 if status.whole else _MISSING


def look(plan: ServingPlan, session: Any, context: str | None) -> Status:
    """Look once.

    Args:
        plan: The plan.
        session: Of boto3.
        context: Of the kubeconfig, or None for the current one.
    """
    from kascade.preflight.account import Account, CannotLookError  # noqa: PLC0415
    from kascade.preflight.running import addresses, cluster_state, eks_endpoint  # noqa: PLC0415

    # A new one each time: it remembers what it was told.
    account = Account(session, region=plan.region)
    cluster = cluster_state(plan, account)
    try:
        endpoints = addresses(plan, account)
    except CannotLookError as error:
        endpoints = {"": f"not looked at: {error}"}
    try:
        server = eks_endpoint(plan, account)
    except CannotLookError:
        server = None
    pods: tuple[PodsState, ...] | None = None
    said = ""
    try:
        pods = _pods(plan, context, server)
    except KascadeError as error:
        said = f"not looked at: {error}"
    return Status(cluster=cluster, pods=pods, pods_said=said, endpoints=endpoints)


def _pods(plan: ServingPlan, context: str | None, server: str | None) -> tuple[PodsState, ...]:
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
    """Refuse to take another cluster's pods for the deployment's.

    Raises:
        KascadeError: The context is of another cluster.
    """
    if server is None:
        return
    view = kubectl.json("config", "view", "--minify") or {}
    clusters = view.get("clusters") or [{}]
    here = str((clusters[0].get("cluster") or {}).get("server", ""))
    if here.rstrip("/").lower() != server.rstrip("/").lower():
        msg = (
            f"kubectl's context is of {here or 'no cluster'}, and EKS cluster "
            f"{plan.cluster.eks_name} is {server}; run aws eks update-kubeconfig --name "
            f"{plan.cluster.eks_name} --region {plan.region}, or choose another --context"
        )
        raise KascadeError(msg)


def _ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _reason(pod: dict[str, Any]) -> str:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    waits = [
        (state.get("waiting") or state.get("terminated") or {})
        for key in ("initContainerStatuses", "containerStatuses")
        for container in status.get(key) or []
        for state in (container.get("state") or {},)
    ]
    said = [
        f"{wait['reason']}{': ' + wait['message'] if wait.get('message') else ''}"
        for wait in waits
        if wait.get("reason") not in {None, "PodInitializing", "Completed"}
    ]
    said += [
        condition["message"]
        for condition in status.get("conditions") or []
        if condition["type"] == "PodScheduled" and condition.get("message")
    ]
    return f"{name} is {status.get('phase', 'unknown')}" + (f" ({said[0]})" if said else "")


def _brief(status: Status) -> str:
    parts = [
        f"{group.running if group.running is not None else '?'} of {group.planned} instances of "
        f"{group.name}"
        for group in status.cluster.groups
        if not group.elastic
    ]
    parts += [f"{one.ready} of {one.planned} engines of {one.name}" for one in status.pods or ()]
    return ", ".join(parts)


def _text(plan: ServingPlan, status: Status, source: str) -> Iterator[str]:
    yield f"{source} in {plan.region}: {_summary(status)}"
    yield ""
    yield f"HyperPod cluster {plan.cluster.hyperpod_name}: {status.cluster.said}"
    for group in status.cluster.groups:
        running = "?" if group.running is None else str(group.running)
        most = "at most " if group.elastic else ""
        yield f"  group {group.name}: {running} of {most}{group.planned} instances"
        yield from _indented(group.reasons)
    yield ""
    yield "Engines" + (f": {status.pods_said}" if status.pods_said else "")
    for one in status.pods or ():
        yield f"  {one.name}: {one.ready} of {one.planned} ready"
        yield from _indented(one.reasons)
    yield ""
    yield "Addresses" + ("" if status.endpoints else ": no stack of the deployment names one yet")
    for address in status.endpoints.values():
        yield f"  {address}"


def _summary(status: Status) -> str:
    if not status.whole:
        return "not all of it runs"
    if status.pods is None:
        return "all instances run, and nobody could look at the engines"
    return "all of it runs"


def _indented(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}"


def _document(plan: ServingPlan, status: Status) -> dict[str, Any]:
    return {
        "name": plan.name,
        "region": plan.region,
        "whole": status.whole,
        "hyperpod": status.cluster.said,
        "groups": [{**asdict(group), "whole": group.whole} for group in status.cluster.groups],
        "engines": None if status.pods is None else [asdict(one) for one in status.pods],
        "engines_not_seen": status.pods_said or None,
        "endpoints": list(status.endpoints.values()),
    }
