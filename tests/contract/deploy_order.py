"""What of an assembly is made before what, and what has to be.

The order is CloudFormation's own: a resource waits for what it names in DependsOn and for whatever
its properties refer to, and a stack waits for the stacks that the assembly's manifest lists.
`faults` names what that leaves to chance or makes impossible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tools.outputs import Outputs

Node = tuple[str, str]
"""Stack and logical id."""

Resource = Mapping[str, Any]

BEGIN, END = "(begin)", "(end)"
"""Logical ids of a stack's two ends, which stand between its resources and another stack's."""

_IN_TEXT = re.compile(r"\$\{([^!}.]+)(?:\.[^}]+)?\}")


@dataclass(frozen=True)
class Assembly:
    """The templates of one synth and the stacks that each stack waits for."""

    templates: dict[str, dict[str, Any]]
    stacks: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, outputs: Outputs) -> Assembly:
        """Read what a synth wrote."""
        templates = outputs.templates()
        artifacts = outputs.manifest()["artifacts"]
        return cls(
            templates=templates,
            stacks={
                name: tuple(d for d in artifacts[name].get("dependencies", ()) if d in templates)
                for name in templates
            },
        )

    @cached_property
    def resources(self) -> Mapping[Node, Resource]:
        """Every resource of every stack."""
        return {
            (stack, name): resource
            for stack, template in self.templates.items()
            for name, resource in template["Resources"].items()
        }

    @cached_property
    def waits_for(self) -> Mapping[Node, set[Node]]:
        """What each resource, and each end of a stack, waits for directly."""
        graph: dict[Node, set[Node]] = {}
        for stack, template in self.templates.items():
            names = template["Resources"].keys()
            graph[stack, BEGIN] = {(earlier, END) for earlier in self.stacks[stack]}
            graph[stack, END] = {(stack, BEGIN), *((stack, name) for name in names)}
            for name, resource in template["Resources"].items():
                named = set(_referred(resource)) & names
                graph[stack, name] = {(stack, BEGIN), *((stack, other) for other in named)}
        return graph

    def order(self) -> list[Node]:
        """Sort everything, earliest first.

        Raises:
            CycleError: Something waits for itself, by way of others.
        """
        return list(TopologicalSorter(self.waits_for).static_order())

    @cached_property
    def _all_before(self) -> Mapping[Node, frozenset[Node]]:
        before: dict[Node, frozenset[Node]] = {}
        for node in self.order():
            direct = self.waits_for[node]
            before[node] = frozenset(direct).union(*(before[other] for other in direct))
        return before

    def before(self, node: Node) -> frozenset[Node]:
        """Return everything that surely exists once a resource is begun."""
        return self._all_before[node]

    def find(self, wanted: Callable[[Resource], bool]) -> list[Node]:
        """Return the resources of a kind."""
        return [node for node, resource in self.resources.items() if wanted(resource)]


def _referred(resource: Resource) -> Iterator[str]:
    depends = resource.get("DependsOn", [])
    yield from [depends] if isinstance(depends, str) else depends
    yield from _in_properties({k: v for k, v in resource.items() if k != "DependsOn"})


def _in_properties(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _in_properties(item)
    elif isinstance(value, Mapping):
        match value:
            case {"Ref": str(name)}:
                yield name
            case {"Fn::GetAtt": [str(name), *_]}:
                yield name
            case {"Fn::GetAtt": str(name)}:
                yield name.partition(".")[0]
            case {"Fn::Sub": str(text)}:
                yield from _IN_TEXT.findall(text)
            case {"Fn::Sub": [str(text), values]}:
                yield from set(_IN_TEXT.findall(text)) - values.keys()
                yield from _in_properties(values)
            case _:
                for item in value.values():
                    yield from _in_properties(item)


# --- what is what --------------------------------------------------------------------------------

EARLY_ADDONS = frozenset({"vpc-cni", "kube-proxy", "eks-pod-identity-agent"})
"""Add-ons that EKS calls active without a node; it waits for the pods of every other."""

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
AWAITED_OBJECT = "Custom::AWSCDK-EKS-KubernetesObjectValue"
RELEASE = "Custom::AWSCDK-EKS-HelmChart"
HYPERPOD, NODEGROUP = "AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"
EKS, ADDON, ENTRY = "AWS::EKS::Cluster", "AWS::EKS::Addon", "AWS::EKS::AccessEntry"
BALANCER_DRAIN = "Custom::BalancerDrain"
INFERENCE = "amazon-sagemaker-hyperpod-inference"
"""The add-on whose controller makes load balancers."""
EBS_DRIVER = "aws-ebs-csi-driver"
"""The add-on that makes volumes for claims, and deletes them."""

KUBECTL = frozenset({MANIFEST, AWAITED_OBJECT, RELEASE})

_NETWORK = frozenset(
    f"AWS::EC2::{kind}"
    for kind in (
        "NatGateway",
        "Route",
        "Subnet",
        "SubnetRouteTableAssociation",
        "VPC",
        "VPCEndpoint",
    )
)


_KINDS = {
    EKS: "EKS",
    ENTRY: "access entry",
    NODEGROUP: "system nodes",
    HYPERPOD: "HyperPod",
    **dict.fromkeys(_NETWORK, "network"),
}


def kind_of(resource: Resource) -> str:
    """Say what a resource is to the order of a deployment; empty where it does not matter."""
    if resource["Type"] == ADDON:
        early = resource["Properties"]["AddonName"] in EARLY_ADDONS
        return "early add-on" if early else "add-on with pods"
    return _KINDS.get(resource["Type"], "")


def awaits_pods(resource: Resource) -> bool:
    """Say whether a resource is only complete once pods run."""
    if kind_of(resource) == "add-on with pods":
        return True
    if resource["Type"] == RELEASE:
        # CDK's function hands --wait to Helm for either of them.
        properties = resource["Properties"]
        return any(str(properties.get(key)).lower() == "true" for key in ("Wait", "Atomic"))
    return bool(resource["Type"] == AWAITED_OBJECT)


# --- what has to hold ----------------------------------------------------------------------------


def faults(assembly: Assembly) -> list[str]:
    """Say where a deployment could wait for something that comes later, or not at all."""
    try:
        assembly.order()
    except CycleError as error:
        return [f"a cycle: {' <- '.join('/'.join(node) for node in error.args[1])}"]
    return sorted(
        [
            *_missing(assembly),
            *_too_early(assembly),
            *_of_hyperpod(assembly),
            *_of_balancers(assembly),
            *_of_volumes(assembly),
        ]
    )


_FIRST: tuple[tuple[str, str], ...] = (
    ("network", "EKS"),
    ("EKS", "access entry"),
    ("EKS", "early add-on"),
    ("EKS", "system nodes"),
    ("early add-on", "system nodes"),
    ("early add-on", "HyperPod"),
    ("access entry", "HyperPod"),
    ("system nodes", "HyperPod"),
    ("network", "HyperPod"),
)
"""Pairs of kinds: each resource of the first is there before any of the second is begun."""


def _missing(assembly: Assembly) -> Iterator[str]:
    kinds = {node: _kind(node, resource) for node, resource in assembly.resources.items()}
    for first, then in _FIRST:
        earlier = {node for node, kind in kinds.items() if kind == first}
        for node in [node for node, kind in kinds.items() if kind == then]:
            for late in earlier - assembly.before(node):
                yield f"{_name(node)} ({then}) does not wait for {_name(late)} ({first})"
    own = {
        node
        for node in assembly.find(lambda r: r["Type"] == ENTRY)
        if "KubectlRole" in str(assembly.resources[node]["Properties"]["PrincipalArn"])
    }
    for node in assembly.find(lambda r: r["Type"] in KUBECTL):
        if own - assembly.before(node):
            yield f"{_name(node)} does not wait for the rights of the function that applies it"


def _kind(node: Node, resource: Resource) -> str:
    """Leave out the endpoints of later stacks, which serve only these."""
    kind = kind_of(resource)
    return "" if kind == "network" and not node[0].endswith("-network") else kind


def _too_early(assembly: Assembly) -> Iterator[str]:
    """Find what waits for pods, but for no node that they could run on."""
    nodes = set(assembly.find(lambda r: r["Type"] in {NODEGROUP, HYPERPOD}))
    if not nodes:
        return  # a cluster of others, which has its own
    for node in assembly.find(awaits_pods):
        if not assembly.before(node) & nodes:
            yield f"{_name(node)} awaits pods, and no node is there before it"


def _of_hyperpod(assembly: Assembly) -> Iterator[str]:
    """Find what HyperPod needs while it is made, and what has to have its nodes."""
    for cluster in assembly.find(lambda r: r["Type"] == HYPERPOD):
        stack, before = cluster[0], assembly.before(cluster)
        later = {node for node in assembly.resources if cluster in assembly.before(node)}
        for node in sorted(_needed(assembly, cluster) - before):
            yield f"{_name(cluster)} does not wait for {_name(node)}"
        for node in assembly.find(lambda r: r["Type"] == MANIFEST):
            if node[0] == stack and node not in before | later:
                yield f"{_name(node)} is neither before nor after {_name(cluster)}"
        for node in assembly.find(lambda r: r["Type"] in KUBECTL):
            if node[0] != stack and node not in later:
                yield f"{_name(node)} does not wait for {_name(cluster)}, whose nodes it runs on"
        for node in assembly.find(lambda r: r["Type"] == ADDON):
            name = assembly.resources[node]["Properties"]["AddonName"]
            if name.startswith("amazon-sagemaker-hyperpod") and node not in later:
                yield f"{_name(node)} does not wait for {_name(cluster)}, whose nodes it runs on"


def _of_balancers(assembly: Assembly) -> Iterator[str]:
    """Find what would be deleted before the load balancers that it makes, or that it asks for.

    A deletion goes the other way round: what comes after the waiter goes before it waits.
    """
    drains = assembly.find(lambda r: r["Type"] == BALANCER_DRAIN)
    for node in assembly.find(lambda r: r["Type"] == ADDON):
        named = assembly.resources[node]["Properties"]["AddonName"] == INFERENCE
        if named and not any(node in assembly.before(drain) for drain in drains):
            yield f"{_name(node)} goes without a wait for the load balancers that it made"
    for node in assembly.find(lambda r: r["Type"] == MANIFEST):
        asks = "InferenceEndpointConfig" in str(assembly.resources[node]["Properties"]["Manifest"])
        for drain in drains if asks else ():
            if drain not in assembly.before(node):
                yield f"{_name(node)} may go later than {_name(drain)} waits for its load balancer"


def _of_volumes(assembly: Assembly) -> Iterator[str]:
    """Find what a deletion would take from the EBS driver before it has deleted all volumes.

    Claims go with the workloads that have them; the volume is detached and deleted after that, and
    nobody waits for it. Time for it is HyperPod's deletion, or that of the namespaces where
    somebody else's HyperPod stays.
    """
    there = assembly.resources
    manifests = assembly.find(lambda r: r["Type"] == MANIFEST)
    texts = {node: str(there[node]["Properties"]["Manifest"]) for node in manifests}
    clusters = assembly.find(lambda r: r["Type"] == HYPERPOD)
    nodes = set(assembly.find(lambda r: r["Type"] == NODEGROUP))
    for driver in assembly.find(lambda r: r["Type"] == ADDON):
        if there[driver]["Properties"]["AddonName"] != EBS_DRIVER:
            continue
        named = set(_in_properties(there[driver]["Properties"]))
        rights = {
            (driver[0], name)
            for name, resource in assembly.templates[driver[0]]["Resources"].items()
            if (resource["Type"] == "AWS::IAM::Role" and name in named)
            or (
                resource["Type"] == "AWS::IAM::Policy"
                and named & set(_in_properties(resource["Properties"]["Roles"]))
            )
        }
        if not any(there[right]["Type"] == "AWS::IAM::Policy" for right in rights):
            yield f"{_name(driver)} has no rights on HyperPod's nodes"
        for right in sorted((rights | nodes) - assembly.before(driver)):
            yield f"{_name(driver)} may outlive {_name(right)}, without which it deletes no volume"
        for node in manifests:
            if "volumeClaimTemplate" in texts[node] and driver not in assembly.before(node):
                yield f"{_name(node)} may outlive {_name(driver)}, which deletes its volumes"
        for node in clusters or [n for n in manifests if '"kind": "Namespace"' in texts[n]]:
            if driver not in assembly.before(node):
                yield f"{_name(node)} may outlive {_name(driver)}, so volumes have no time to go"


def _needed(assembly: Assembly, cluster: Node) -> set[Node]:
    stack, there = cluster[0], assembly.resources
    roles = set(_in_properties(there[cluster]["Properties"]))
    reachable = {stack, *assembly.stacks[stack]}
    found = {
        node
        for node in assembly.find(lambda r: r["Type"] == "AWS::IAM::Policy")
        if node[0] == stack and roles & set(_in_properties(there[node]["Properties"]["Roles"]))
    }
    for node, resource in there.items():
        match resource["Type"]:
            case "Custom::AWS" | "AWS::S3::BucketPolicy" if (
                node[0] == stack and "ifecycle" in node[1]
            ):
                found.add(node)
            case "AWS::EC2::SecurityGroupIngress" | "AWS::EC2::SecurityGroupEgress":
                found |= {node} & {(name, node[1]) for name in reachable}
            case kind if kind in KUBECTL and node[0] == stack and _looked_for(resource):
                found.add(node)
            case _:
                pass
    return found


def _looked_for(applied: Resource) -> bool:
    properties = applied["Properties"]
    text = str(properties.get("Manifest") or properties.get("Values"))
    return "aws-hyperpod" in text or "device-plugin" in text


def _name(node: Node) -> str:
    return "/".join(node)
