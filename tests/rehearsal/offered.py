"""A cluster that somebody offers for the rehearsal: kind, or a sandbox."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.rehearsal.cloud import EbsProvisioner
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Kubectl, KubectlError, Object
from tests.rehearsal.kwok import start_kwok
from tools.controlplane.build import build_kwok

PATIENCE: Final = 6
"""A stock cluster trusts a silent node for 50 s and lets its pods stay 300 s more."""

_OF_EVERY_CLUSTER: Final = frozenset(
    {"default", "kube-node-lease", "kube-public", "kube-system", "local-path-storage"}
)


class NotOfferedError(Exception):
    """A cluster in which the rehearsal will not run, in one sentence."""


@contextmanager
def offered_cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """Rehearse in an existing cluster; all that came is deleted at the end.

    Raises:
        NotOfferedError: Somebody uses the cluster.
    """
    kubectl = Kubectl(kubeconfig)
    check_unused(kubectl)
    kinds = kubectl.kinds()
    before = {item["metadata"]["uid"] for item in kubectl.everywhere(kinds)}
    folder = Path(tempfile.mkdtemp(prefix="kascade-rehearsal-"))
    kwok = start_kwok(build_kwok(), kubeconfig=kubeconfig, folder=folder)
    try:
        with EbsProvisioner(kubectl):
            try:
                yield Cluster(kubectl, patience=PATIENCE)
            finally:
                _delete_the_rest(kubectl, before)
    finally:
        kwok.stop()
        shutil.rmtree(folder)


def check_unused(kubectl: Kubectl) -> None:
    """Reject a cluster that cannot be used, or that somebody uses.

    Raises:
        NotOfferedError: With the reason.
    """
    if not kubectl.kubeconfig.is_file() or not kubectl.kubeconfig.read_bytes().strip():
        msg = f"{kubectl.kubeconfig} is no kubeconfig: there is no such file, or nothing in it."
        raise NotOfferedError(msg)
    try:
        _check_contents(kubectl)
    except KubectlError as error:
        last = str(error).splitlines()[-1]
        msg = (
            f"The cluster of {kubectl.kubeconfig} cannot be used: {last}. The rehearsal needs an "
            f"administrator of a fresh cluster, such as `kind create cluster` makes."
        )
        raise NotOfferedError(msg) from None


def _check_contents(kubectl: Kubectl) -> None:
    found = [item["metadata"]["name"] for item in kubectl.get("namespaces")]
    strange = [f"namespace {name}" for name in sorted(set(found) - _OF_EVERY_CLUSTER)]
    strange += [
        f"{item['kind']} {item['metadata']['name']}"
        for item in kubectl.everywhere(["pods", "persistentvolumes"])
        if item["metadata"].get("namespace") not in _OF_EVERY_CLUSTER - {"default"}
    ]
    if strange:
        msg = (
            f"The cluster of {kubectl.kubeconfig} has {', '.join(strange)}, so somebody uses it. "
            f"The rehearsal deletes what comes into a cluster while it runs: offer it a fresh "
            f"one, such as `kind create cluster` makes."
        )
        raise NotOfferedError(msg)


_ORDER: Final = (
    frozenset({"Namespace", "DaemonSet", "Deployment", "StatefulSet", "CustomResourceDefinition"}),
    frozenset({"PersistentVolume"}),
)
"""What controllers would make again goes first, then what that released; nodes go last, since a
pod whose node is gone stays until it is collected."""


def _delete_the_rest(kubectl: Kubectl, before: set[str]) -> None:
    def new() -> list[Object]:
        return [
            item
            for item in kubectl.everywhere(kubectl.kinds())
            if item["metadata"]["uid"] not in before and item["kind"] not in {"Event", "Lease"}
        ]

    for kinds in _ORDER:
        kubectl.delete(item for item in new() if item["kind"] in kinds)
    kubectl.delete(item for item in new() if item["kind"] != "Node")
    kubectl.delete(new())
