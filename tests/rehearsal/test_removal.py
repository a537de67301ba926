"""What is left when a deployment goes."""

from __future__ import annotations

import pytest

from tests.rehearsal.cloud import aws_workloads, claims_of_people
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.rendered import LIVED_IN, Rendered, identity

_NOT_OURS = frozenset({"Node", "Lease", "CSINode"})
"""Cluster-wide kinds that the simulated cloud and its controllers bring."""


@pytest.mark.parametrize("rendered", LIVED_IN, indirect=True)
def test_namespaces_go_and_nothing_stays(empty_cluster: Cluster, rendered: Rendered) -> None:
    kubectl = empty_cluster.kubectl
    empty_cluster.define_crds()
    kinds = kubectl.kinds()
    ours = {identity(item) for item in rendered.objects()}
    spaces = {
        item["metadata"]["name"] for item in rendered.objects() if item["kind"] == "Namespace"
    }
    before = {identity(item) for item in kubectl.everywhere(kinds)}
    assert not ours & before

    others = {
        identity(item)
        for item in [*aws_workloads(rendered.plan), *claims_of_people(rendered.plan)]
        if item["metadata"].get("namespace") not in spaces
    }

    def left() -> list[str]:
        return sorted(
            identity(item)
            for item in kubectl.everywhere(kinds)
            if identity(item) not in others and (identity(item) in ours or _is_extra(item))
        )

    def _is_extra(item: Object) -> bool:
        space = item["metadata"].get("namespace")
        if space is None:
            return item["kind"] not in _NOT_OURS and identity(item) not in before
        return space in spaces

    empty_cluster.install(rendered)
    empty_cluster.settle()
    kubectl("delete", "namespace", *sorted(spaces), "--wait", "--timeout=120s", seconds=150)
    assert [name for name in left() if name.partition("/")[0] in spaces] == []

    empty_cluster.remove(rendered)
    assert empty_cluster.within(lambda: left() == [], 20), left()
