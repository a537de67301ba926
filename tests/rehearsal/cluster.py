"""A cluster that deployments are installed into, looked at and removed from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.rehearsal.checks import problems, wanted_pods
from tests.rehearsal.cloud import EbsProvisioner, aws_workloads, claims_of_people
from tests.rehearsal.controlplane import ControlPlane
from tests.rehearsal.kubectl import Kubectl, Object
from tests.rehearsal.nodes import NodeGroup, planned_groups
from tests.rehearsal.operator import as_kubernetes, of_kind, rendered_by_operator
from tests.rehearsal.rendered import Rendered, identity, read
from tests.rehearsal.snapshot import Snapshot

CRDS: Final = Path(__file__).with_name("crds")
"""One file for each kind of someone else's that a chart uses."""

SETTLE_SECONDS: Final = 90

_DATA: Final = os.environ.get("KASCADE_DATA")
"""A folder of others' files, see CONTRIBUTING.md; its ``crds`` are the operator's own."""
_WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job")


class Cluster:
    """A cluster under rehearsal.

    Attributes:
        kubectl: An administrator's.
        groups: The node groups that have joined, by name.
        patience: Factor on every wait that depends on how fast controllers are.
    """

    def __init__(self, kubectl: Kubectl, *, patience: float = 1) -> None:
        self.kubectl = kubectl
        self.patience = patience
        self.groups: dict[str, NodeGroup] = {}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.kubectl.kubeconfig

    def install(self, rendered: Rendered, *, hyperpod_nodes: bool = True) -> None:
        """Bring up a deployment in the order in which the stacks do.

        System nodes first, then the platform chart, then HyperPod's nodes, then the others. Every
        warning of the API server is an error.

        Args:
            rendered: The deployment.
            hyperpod_nodes: False leaves HyperPod's groups empty.
        """
        self.define_crds()
        groups = planned_groups(rendered.plan)
        platform, *serving = rendered.charts.values()
        self.join([groups.pop("system")])
        self.kubectl.apply(aws_workloads(rendered.plan))
        self.kubectl.apply(platform)
        self.kubectl.apply(claims_of_people(rendered.plan))
        if hyperpod_nodes:
            self.join(groups.values())
        for objects in serving:
            self._apply_chart(objects)

    def define_crds(self) -> None:
        """Make every kind of crds/ known."""
        files = sorted(CRDS.glob("*.yaml"))
        for file in files:
            self.kubectl.apply(read(_real(file)))
        # `kubectl wait` fails on a definition that is so new that it has no conditions yet.
        if not self.within(self._all_established, 60):
            msg = "Not every custom resource definition is established after 60 s."
            raise AssertionError(msg)

    def _all_established(self) -> bool:
        return all(
            any(
                condition["type"] == "Established" and condition["status"] == "True"
                for condition in item.get("status", {}).get("conditions") or []
            )
            for item in self.kubectl.get("customresourcedefinitions")
        )

    def join(self, groups: Iterable[NodeGroup]) -> None:
        """Let the nodes of some groups join."""
        for group in groups:
            self.groups[group.name] = group
            if group.count:
                self.kubectl.create(group.nodes())

    def apply(self, rendered: Rendered) -> None:
        """Apply every chart once more, as an update does."""
        for objects in rendered.charts.values():
            self._apply_chart(objects, "--force-conflicts")

    def _apply_chart(self, objects: list[Object], *options: str) -> None:
        """Apply one chart, and what Kyverno and HyperPod's operator make of it."""
        policies = of_kind(objects, "MutatingPolicy")
        if policies:
            api = self.mutating_policy_api()
            self.kubectl.apply(
                [item for policy in policies for item in as_kubernetes(policy, api)], *options
            )
        self.kubectl.apply(objects, *options)
        if endpoints := of_kind(objects, "InferenceEndpointConfig"):
            self.kubectl.apply(map(rendered_by_operator, endpoints), *options)

    def mutating_policy_api(self) -> str:
        """Return the newest version of MutatingAdmissionPolicy that the server has."""
        served = self.kubectl("api-versions").split()
        group = "admissionregistration.k8s.io"
        return (
            "v1"
            if self._serves_stable()
            else next(name for name in ("v1beta1", "v1alpha1") if f"{group}/{name}" in served)
        )

    def _serves_stable(self) -> bool:
        listed = self.kubectl("get", "--raw", "/apis/admissionregistration.k8s.io/v1")
        return '"mutatingadmissionpolicies"' in listed

    def forget_events(self) -> None:
        """Delete the events so far: what was broken on purpose was warned of, rightly."""
        self.kubectl("delete", "events", "--all", "--all-namespaces")

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until nothing is wrong.

        Raises:
            AssertionError: Something still is, with every sentence about it.
        """
        last: list[str] = []

        def well() -> bool:
            last[:] = problems(self.kubectl)
            return not last

        if not self.within(well, seconds):
            msg = f"Not settled after {seconds:g} s:\n" + "\n".join(last)
            raise AssertionError(msg)

    def complains(self, words: str, seconds: float = SETTLE_SECONDS) -> str:
        """Wait until a check says a sentence with these words, and return it.

        Raises:
            AssertionError: None did; the sentences that there were are in it.
        """
        last: list[str] = []

        def said() -> bool:
            last[:] = problems(self.kubectl)
            return any(words in sentence for sentence in last)

        if not self.within(said, seconds):
            msg = f"No check says {words!r} within {seconds:g} s, only:\n" + "\n".join(last)
            raise AssertionError(msg)
        return next(sentence for sentence in last if words in sentence)

    def within(self, true: Callable[[], bool], seconds: float) -> bool:
        """Whether something becomes true in time."""
        deadline = time.monotonic() + seconds * self.patience
        while not true():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.3)
        return True

    def versions(self, rendered: Rendered) -> dict[str, str]:
        """Return the version of every object of a deployment, by its identity."""
        kinds = sorted({item["kind"] for item in rendered.objects()})
        ours = {identity(item) for item in rendered.objects()}
        return {
            name: _version(item)
            for item in self.kubectl.everywhere(kinds)
            if (name := identity(item)) in ours
        }

    def remove(self, rendered: Rendered) -> None:
        """Delete a deployment's objects, the last first, and wait until they are gone."""
        for objects in reversed(rendered.charts.values()):
            for policy in of_kind(objects, "MutatingPolicy"):
                self.kubectl.delete(as_kubernetes(policy, self.mutating_policy_api()))
            endpoints = of_kind(objects, "InferenceEndpointConfig")
            self.kubectl.delete(map(rendered_by_operator, endpoints))
            self.kubectl.delete(reversed(objects))

    def table(self) -> list[tuple[str, int, int, int]]:
        """Return pods wanted, scheduled and running or succeeded, by kind of workload."""
        snapshot = Snapshot.take(self.kubectl)
        owners = {item["metadata"]["uid"]: item for item in self._replica_sets()}
        rows = []
        for kind in _WORKLOADS:
            wanted = sum(wanted_pods(item) for item in snapshot.of(kind))
            pods = [pod for pod in snapshot.of("Pod") if _kind_of(pod, owners) == kind]
            scheduled = [pod for pod in pods if pod["spec"].get("nodeName")]
            well = [pod for pod in pods if pod["status"].get("phase") in {"Running", "Succeeded"}]
            rows.append((kind, wanted, len(scheduled), len(well)))
        return rows

    def _replica_sets(self) -> list[Object]:
        return self.kubectl.everywhere(["replicasets"])


def _version(item: Object) -> str:
    """Count changes of an object.

    The API server checks the types of an admission policy by itself, and the next apply, whatever
    it says, then sorts the list of who wrote what: of that kind only changes of the content count.
    """
    policy = item["kind"] == "ValidatingAdmissionPolicy"
    return str(item["metadata"]["generation" if policy else "resourceVersion"])


def _kind_of(pod: Object, replica_sets: dict[str, Object]) -> str:
    for owner in pod["metadata"].get("ownerReferences", []):
        return "Deployment" if owner["uid"] in replica_sets else str(owner["kind"])
    return "Pod"


def _real(reduced: Path) -> Path:
    """Return the definition that the kind's owner publishes, where there is one to read."""
    if _DATA is not None:
        for file in Path(_DATA, "crds").glob(f"*_{reduced.name}"):
            return file
    return reduced


@contextmanager
def own_cluster(kubernetes: str) -> Iterator[Cluster]:
    """Start a control plane, with the part of AWS that makes volumes; gone with the block."""
    with ControlPlane(kubernetes) as plane, EbsProvisioner(plane.kubectl):
        yield Cluster(plane.kubectl)
