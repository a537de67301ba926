"""NetworkPolicies and their rules.

Ports are numbers, never names: the VPC CNI's agent resolves named ports of ingress rules only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Final

import cdk8s
from constructs import Construct

from kascade.kube._objects import Fields, Metadata, add_object

_PRIVATE_RANGES: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""RFC 1918. EKS takes its service addresses, the API server's among them, from these ranges."""

_LINK_LOCAL: Final = "169.254.0.0/16"
"""Instance metadata and the Pod Identity agent."""

_HTTPS: Final = 443
_DNS: Final = 53


def add_policy(
    scope: Construct,
    *,
    meta: Metadata,
    selecting: Mapping[str, str],
    ingress: Sequence[Fields] | None = None,
    egress: Sequence[Fields] | None = None,
) -> cdk8s.ApiObject:
    """Add a NetworkPolicy; a direction that is None is left to the default-deny policy."""
    spec: dict[str, object] = {
        "podSelector": {"matchLabels": dict(selecting)} if selecting else {},
        "policyTypes": [
            direction
            for direction, rules in (("Ingress", ingress), ("Egress", egress))
            if rules is not None
        ],
    }
    if ingress:
        spec["ingress"] = list(ingress)
    if egress:
        spec["egress"] = list(egress)
    return add_object(
        scope,
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        meta=meta,
        body={"spec": spec},
    )


def tcp(*ports: int) -> list[Fields]:
    """TCP ports of a rule."""
    return [{"protocol": "TCP", "port": port} for port in ports]


def pods(selecting: Mapping[str, str], namespace: str | None = None) -> Fields:
    """Peer: the selected pods of the policy's own, or of another, namespace."""
    peer: dict[str, object] = {"podSelector": {"matchLabels": dict(selecting)}}
    if namespace is not None:
        peer["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return peer


def ingress_from(peers: Sequence[Fields], *ports: int) -> Fields:
    """Rule: these peers may open these ports."""
    return {"from": list(peers), "ports": tcp(*ports)}


def labelled(label: str) -> list[Fields]:
    """Peers: pods of the policy's own namespace, and whole namespaces, that carry a label."""
    wanted = {"matchLabels": {label: "true"}}
    return [{"podSelector": wanted}, {"namespaceSelector": wanted}]


def egress_to(peers: Sequence[Fields], *ports: int) -> Fields:
    """Rule: these ports of these peers may be opened."""
    return {"to": list(peers), "ports": tcp(*ports)}


def scrape_ingress(collector_cidrs: Sequence[str], *ports: int) -> list[Fields]:
    """Let the managed Prometheus collector in, and nobody else.

    It is no pod but one network interface in each of its own subnets, so its addresses name it.
    Without collector there is no rule: an empty list of peers would let everybody in.
    """
    if not collector_cidrs:
        return []
    return [ingress_from([{"ipBlock": {"cidr": cidr}} for cidr in collector_cidrs], *ports)]


def dns_egress() -> Fields:
    """Let pods resolve names: UDP, and TCP for long answers."""
    return {
        "to": [pods({"k8s-app": "kube-dns"}, namespace="kube-system")],
        "ports": [
            {"protocol": "UDP", "port": _DNS},
            {"protocol": "TCP", "port": _DNS},
        ],
    }


def api_server_egress(vpc_cidrs: Sequence[str]) -> Fields:
    """Let a pod call the Kubernetes API.

    The agent of the VPC CNI sees the service address before it is translated to the API server's
    network interface in the VPC, and neither is known at synth time.
    """
    return egress_to([{"ipBlock": {"cidr": cidr}} for cidr in _private(vpc_cidrs)], _HTTPS)


def internet_egress(vpc_cidrs: Sequence[str]) -> Fields:
    """Let a pod fetch over HTTPS from public addresses, and from no private one.

    That leaves out the API server, instance metadata and every other pod.
    """
    excluded = [*_private(vpc_cidrs), _LINK_LOCAL]
    return egress_to([{"ipBlock": {"cidr": "0.0.0.0/0", "except": excluded}}], _HTTPS)


def _private(vpc_cidrs: Sequence[str]) -> list[str]:
    """List every private range; a VPC may also use addresses outside RFC 1918.

    >>> _private(["10.0.0.0/16"]), _private(["10.1.0.0/16", "100.64.0.0/16"])[-1]
    (['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'], '100.64.0.0/16')
    """
    known = [IPv4Network(cidr) for cidr in _PRIVATE_RANGES]
    others = [
        cidr for cidr in vpc_cidrs if not any(IPv4Network(cidr).subnet_of(each) for each in known)
    ]
    return [*_PRIVATE_RANGES, *others]
