"""What is wrong in a running cluster, each as one sentence.

A check reads a snapshot of the API server and knows nothing of how the objects came there, so it
works for every configuration. `problems` runs them all; no sentence means all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.rehearsal.flows import flows_are_as_meant
from tests.rehearsal.kubectl import Kubectl, Object
from tests.rehearsal.snapshot import Snapshot, matches

_EXPECTED_WARNINGS: Final = frozenset(
    {
        "FailedScheduling",
        "FailedToCreateEndpoint",
        "FailedToUpdateEndpoint",
        "FailedToUpdateEndpointSlices",
        "NodeNotReady",
    }
)
"""A wait, or two controllers that met and of which one tried again; what is still wrong afterwards
is reported by the check of its kind."""

_FRESH: Final = timedelta(seconds=20)
"""A warning that was not repeated for so long is over."""

Check = Callable[["Snapshot"], Iterator[str]]


def problems(kubectl: Kubectl) -> list[str]:
    """Return everything that is wrong now, sorted."""
    snapshot = Snapshot.take(kubectl)
    return sorted({sentence for check in CHECKS for sentence in check(snapshot)})


def named(item: Object) -> str:
    """Return how sentences call an object."""
    meta = item["metadata"]
    place = f"{meta['namespace']}/" if "namespace" in meta else ""
    return f"{item['kind']} {place}{meta['name']}"


def pods_run(snapshot: Snapshot) -> Iterator[str]:
    """Every pod has a node and runs, or has succeeded."""
    for pod in snapshot.of("Pod"):
        status = pod.get("status", {})
        if "deletionTimestamp" in pod["metadata"]:
            yield f"{named(pod)} is being deleted."
        elif not pod["spec"].get("nodeName"):
            yield f"{named(pod)} has no node: {_unscheduled(status)}"
        elif status.get("phase") not in {"Running", "Succeeded"}:
            yield f"{named(pod)} has a node but is {status.get('phase')}."


def _unscheduled(status: Object) -> str:
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("message"):
            return str(condition["message"])
    return "the scheduler has not looked at it."


def workloads_complete(snapshot: Snapshot) -> Iterator[str]:
    """Every workload has all its pods, of its latest template."""
    for item in snapshot.objects:
        if item["kind"] not in _WANTED:
            continue
        status = item.get("status", {})
        wanted, ready = wanted_pods(item), status.get(_READY[item["kind"]], 0)
        updated = status.get("updatedReplicas", status.get("updatedNumberScheduled", wanted))
        if status.get("observedGeneration", 1) < item["metadata"].get("generation", 1):
            yield f"{named(item)} has a change that its controller has not seen."
        elif item["kind"] == "DaemonSet" and _on_delete(item):
            if ready != wanted:
                yield f"{named(item)} has {ready} of {wanted} pods ready."
        elif not wanted == ready == updated:
            yield (
                f"{named(item)} has {ready} of {wanted} pods ready, {updated} of them of its "
                f"latest template."
            )
        for condition in status.get("conditions", []):
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
                yield f"{named(item)} cannot make pods: {condition['message']}"


_WANTED: Final[Mapping[str, Callable[[Object], int]]] = {
    "Deployment": lambda item: int(item["spec"].get("replicas", 1)),
    "StatefulSet": lambda item: int(item["spec"].get("replicas", 1)),
    "DaemonSet": lambda item: int(item.get("status", {}).get("desiredNumberScheduled", 0)),
    "Job": lambda item: int(item["spec"].get("completions", 1)),
}
_READY: Final = {
    "Deployment": "availableReplicas",
    "StatefulSet": "readyReplicas",
    "DaemonSet": "numberReady",
    "Job": "succeeded",
}


def wanted_pods(item: Object) -> int:
    """Return how many pods a workload asks for; 0 for what is no workload."""
    return _WANTED[item["kind"]](item) if item["kind"] in _WANTED else 0


def _on_delete(item: Object) -> bool:
    return bool(item["spec"].get("updateStrategy", {}).get("type") == "OnDelete")


def daemons_have_nodes(snapshot: Snapshot) -> Iterator[str]:
    """Every DaemonSet has a node to run on."""
    for item in snapshot.of("DaemonSet"):
        if not wanted_pods(item):
            yield f"{named(item)} finds no node: look at its node selector, affinity and taints."


def services_have_pods(snapshot: Snapshot) -> Iterator[str]:
    """Every Service with a selector has a ready pod behind each of its ports."""
    slices = snapshot.of("EndpointSlice")
    for service in snapshot.of("Service"):
        selector = service["spec"].get("selector")
        if not selector:
            continue
        meta = service["metadata"]
        own = [
            item
            for item in slices
            if item["metadata"]["namespace"] == meta["namespace"]
            and item["metadata"]["labels"].get("kubernetes.io/service-name") == meta["name"]
        ]
        ready = [
            endpoint
            for item in own
            for endpoint in item.get("endpoints") or []
            if endpoint["conditions"].get("ready")
        ]
        if not ready:
            yield f"{named(service)} has no ready pod: its selector is {selector}."
            continue
        served = {port.get("name") for item in own for port in item.get("ports") or []}
        for port in service["spec"]["ports"]:
            if port.get("name") not in served:
                yield (
                    f"{named(service)} port {port.get('name') or port['port']} leads nowhere: no "
                    f"chosen pod has a port called {port.get('targetPort')}."
                )


def policies_fit_pods(snapshot: Snapshot) -> Iterator[str]:
    """Every NetworkPolicy that names pods or ports names ones that exist."""
    for policy in snapshot.of("NetworkPolicy"):
        space, spec = policy["metadata"]["namespace"], policy["spec"]
        subject = spec.get("podSelector") or {}
        pods = snapshot.pods(subject, [space])
        # One that fits every pod of its namespace is a default, and a Job's pods come and go.
        if subject and not pods and not _finished(snapshot, subject, space):
            yield f"{named(policy)} chooses no pod: its selector is {subject.get('matchLabels')}."
            continue
        if subject and pods:
            for rule in spec.get("ingress") or []:
                yield from _ports_exist(policy, "ingress", rule, pods)
        for rule in spec.get("egress") or []:
            for peer in rule.get("to") or []:
                if "podSelector" not in peer:
                    continue
                chosen = _peer_pods(snapshot, peer, space)
                if chosen:
                    yield from _ports_exist(policy, "egress", rule, chosen)
                elif not _finished(snapshot, peer["podSelector"], space):
                    yield f"{named(policy)} lets pods reach none: no pod fits {peer}."


def _finished(snapshot: Snapshot, selector: Object, namespace: str) -> bool:
    """Whether the pods are those of a Job that has ended, or of one that nobody has started."""
    sleeping = (
        pod["metadata"]["namespace"] == namespace
        and matches(selector, pod["metadata"].get("labels", {}))
        for pod in snapshot.sleeping
    )
    return any(sleeping) or any(
        job["metadata"]["namespace"] == namespace
        and matches(selector, job["spec"]["template"]["metadata"].get("labels", {}))
        for job in snapshot.of("Job")
    )


def _peer_pods(snapshot: Snapshot, peer: Object, own: str) -> list[Object]:
    spaces = [own]
    if "namespaceSelector" in peer:
        selector = peer["namespaceSelector"]
        spaces = [name for name, labels in snapshot.namespaces.items() if matches(selector, labels)]
    return snapshot.pods(peer["podSelector"], spaces)


_DNS_PORT: Final = 53
"""CoreDNS's own; the stand-in for its pods declares none."""


def _ports_exist(policy: Object, direction: str, rule: Object, pods: list[Object]) -> Iterator[str]:
    declared = [
        port
        for pod in pods
        for part in ("containers", "initContainers")
        for container in pod["spec"].get(part) or []
        for port in container.get("ports") or []
    ]
    known = {port.get("name") for port in declared} | {port["containerPort"] for port in declared}
    for port in rule.get("ports") or []:
        wanted = port.get("port")
        if wanted is not None and wanted not in known and wanted != _DNS_PORT:
            names = sorted(str(item) for item in known if item is not None)
            yield (
                f"{named(policy)} allows {direction} on port {wanted}, which no chosen pod has; "
                f"they have {', '.join(names) or 'none'}."
            )


def budgets_protect(snapshot: Snapshot) -> Iterator[str]:
    """Every PodDisruptionBudget covers pods and lets at least one go."""
    for budget in snapshot.of("PodDisruptionBudget"):
        status = budget.get("status", {})
        if not status.get("expectedPods"):
            yield f"{named(budget)} protects no pod."
        elif not status.get("disruptionsAllowed"):
            yield f"{named(budget)} lets no pod go: a node that carries one cannot be drained."


def claims_bound(snapshot: Snapshot) -> Iterator[str]:
    """Every claim has its volume."""
    for claim in snapshot.of("PersistentVolumeClaim"):
        if (phase := claim.get("status", {}).get("phase")) != "Bound":
            yield f"{named(claim)} is {phase}."


def quotas_hold(snapshot: Snapshot) -> Iterator[str]:
    """Every quota is counted, and leaves room."""
    for quota in snapshot.of("ResourceQuota"):
        status = quota.get("status", {})
        if status.get("hard") != quota["spec"].get("hard"):
            yield f"{named(quota)} is not counted yet."
        for name in sorted(status.get("hard", {})):
            if status.get("used", {}).get(name) == status["hard"][name] != "0":
                yield f"{named(quota)} has no {name} left."


def no_warnings(snapshot: Snapshot) -> Iterator[str]:
    """No controller warns of anything: one that met another says so once, and tries again."""
    since = datetime.now(UTC) - _FRESH
    for event in snapshot.of("Event"):
        if event.get("type") != "Warning" or event["reason"] in _EXPECTED_WARNINGS:
            continue
        if _last_seen(event) > since:
            about = event["involvedObject"]
            yield (
                f"{about['kind']} {about.get('namespace', '')}/{about['name']}: {event['reason']}: "
                f"{event['message']}"
            )


def _last_seen(event: Object) -> datetime:
    series = (event.get("series") or {}).get("lastObservedTime")
    seen = series or event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(seen or event["metadata"]["creationTimestamp"])


CHECKS: Final[tuple[Check, ...]] = (
    pods_run,
    workloads_complete,
    daemons_have_nodes,
    services_have_pods,
    policies_fit_pods,
    flows_are_as_meant,
    budgets_protect,
    claims_bound,
    quotas_hold,
    no_warnings,
)
