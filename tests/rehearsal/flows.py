"""Which pods may speak to which, read from NetworkPolicies as Kubernetes defines them.

Nothing enforces a policy in the rehearsal, so this is the one check that follows a definition
instead of asking a program. It looks at both ends of a connection: the egress of whoever opens it
and the ingress of whoever accepts it. Address blocks are taken to hold no pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from kascade.sizing.engines import VLLM_PORT
from tests.rehearsal.kubectl import Object
from tests.rehearsal.snapshot import Snapshot, matches

COMPONENT: Final = "app.kubernetes.io/component"
MODEL: Final = "kascade.dev/engine"
_DNS: Final = {"k8s-app": "kube-dns"}


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Connections from pods with some labels to a port of pods with others."""

    source: dict[str, str]
    target: dict[str, str]
    port: str | int
    """Name of the target's container port, or a number."""

    protocol: str = "TCP"
    wanted: bool = True


def _needs(source: str, target: str, port: str | int) -> Flow:
    return Flow(source={COMPONENT: source}, target={COMPONENT: target}, port=port)


def _must_not(source: dict[str, str], target: str, port: str | int) -> Flow:
    return Flow(source=source, target={COMPONENT: target}, port=port, wanted=False)


COMPONENTS: Final = (
    "engine",
    "router",
    "master",
    "worker",
    "csi-node",
    "csi-controller",
    "bootstrap",
    "cache-keys",
    "verify",
)
FLOWS: Final = (
    _needs("router", "engine", "m-vllm"),
    # HyperPod's operator calls the same port otherwise.
    _needs("verify", "engine", VLLM_PORT),
    _needs("verify", "engine", "m-lmcache"),
    _needs("verify", "router", "http"),
    _needs("worker", "master", "rpc"),
    _needs("csi-node", "master", "rpc"),
    _needs("csi-controller", "master", "rpc"),
    _needs("bootstrap", "master", "rpc"),
    _needs("csi-node", "worker", "rpc"),
    *(
        Flow(source={COMPONENT: name}, target=_DNS, port=53, protocol=protocol)
        for name in COMPONENTS
        for protocol in ("UDP", "TCP")
    ),
    # A tenant of the cluster, and a model that was taken over.
    _must_not(_DNS, "engine", "m-vllm"),
    _must_not(_DNS, "router", "http"),
    _must_not(_DNS, "master", "rpc"),
    _must_not(_DNS, "worker", "rpc"),
    _must_not({COMPONENT: "engine"}, "master", "rpc"),
    _must_not({COMPONENT: "engine"}, "engine", "m-vllm"),
    _must_not({COMPONENT: "router"}, "engine", "m-lmcache"),
    _must_not({COMPONENT: "verify"}, "master", "rpc"),
    _must_not({COMPONENT: "engine"}, "verify", 8000),
)


def flows_are_as_meant(snapshot: Snapshot) -> Iterator[str]:
    """Every connection that a component needs is allowed, and a few others are not."""
    for flow in FLOWS:
        sources = _pods(snapshot, flow.source)
        targets = _pods(snapshot, flow.target)
        for source, target in product(sources, targets):
            if not _same_model(flow, source, target):
                continue
            barred = _barred(snapshot, source, target, flow)
            place = f"{_title(source)} to {_title(target)} on {flow.port}/{flow.protocol}"
            if flow.wanted and barred:
                yield f"NetworkPolicies keep {place} from happening: no {barred} rule allows it."
            elif not flow.wanted and not barred:
                yield f"NetworkPolicies let {place} happen, which nothing needs."


def _pods(snapshot: Snapshot, labels: dict[str, str]) -> list[Object]:
    """One pod of each template: they all have the same labels.

    A suspended CronJob has none, so its template stands for them.
    """
    found: dict[str, Object] = {}
    for pod in [*snapshot.of("Pod"), *snapshot.sleeping]:
        if matches({"matchLabels": labels}, pod["metadata"].get("labels", {})):
            found.setdefault(_title(pod), pod)
    return list(found.values())


def _title(pod: Object) -> str:
    labels = pod["metadata"].get("labels", {})
    name = labels.get("app.kubernetes.io/instance") or labels.get("app.kubernetes.io/name")
    return f"{labels.get(COMPONENT, 'pod')} {name}"


def _same_model(flow: Flow, source: Object, target: Object) -> bool:
    """Whether the flow is meant for this pair: a router serves its own model only."""
    if not flow.wanted:
        return _title(source) != _title(target) or flow.source != flow.target
    ours = source["metadata"]["labels"].get(MODEL)
    theirs = target["metadata"]["labels"].get(MODEL)
    return ours is None or theirs is None or bool(ours == theirs)


def _barred(snapshot: Snapshot, source: Object, target: Object, flow: Flow) -> str:
    """Return the direction that has no rule for the connection, or nothing."""
    number = _number(target, flow.port)
    for direction, own, other in (("egress", source, target), ("ingress", target, source)):
        policies = [p for p in snapshot.of("NetworkPolicy") if _applies(p, own, direction)]
        rules = [rule for policy in policies for rule in _rules(policy, direction)]
        if policies and not any(
            _peers_fit(snapshot, rule.get("to" if direction == "egress" else "from"), own, other)
            and _ports_fit(rule.get("ports"), target, number, flow.protocol)
            for rule in rules
        ):
            return direction
    return ""


def _applies(policy: Object, pod: Object, direction: str) -> bool:
    return (
        policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and direction.capitalize() in policy["spec"]["policyTypes"]
        and matches(policy["spec"].get("podSelector") or {}, pod["metadata"].get("labels", {}))
    )


def _rules(policy: Object, direction: str) -> list[Object]:
    rules: list[Object] = policy["spec"].get(direction) or []
    return rules


def _peers_fit(snapshot: Snapshot, peers: list[Object] | None, own: Object, other: Object) -> bool:
    if not peers:
        return True
    return any(_peer_fits(snapshot, peer, own, other) for peer in peers if "ipBlock" not in peer)


def _peer_fits(snapshot: Snapshot, peer: Object, own: Object, other: Object) -> bool:
    space = other["metadata"]["namespace"]
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], snapshot.namespaces[space]):
            return False
    elif space != own["metadata"]["namespace"]:
        return False
    return matches(peer.get("podSelector") or {}, other["metadata"].get("labels", {}))


def _ports_fit(ports: list[Object] | None, target: Object, number: int, protocol: str) -> bool:
    return not ports or any(
        port.get("protocol", "TCP") == protocol
        and ("port" not in port or _number(target, port["port"]) == number)
        for port in ports
    )


def _number(pod: Object, port: str | int) -> int:
    """Return a container port's number; -1 for a name that the pod does not have."""
    if isinstance(port, int):
        return port
    for part in ("containers", "initContainers"):
        for container in pod["spec"].get(part) or []:
            for declared in container.get("ports") or []:
                if declared.get("name") == port:
                    return int(declared["containerPort"])
    return -1
