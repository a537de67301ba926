"""A cluster that somebody offers, in place of one of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rehearsal.conftest import KUBERNETES
from tests.rehearsal.controlplane import ControlPlane
from tests.rehearsal.kubectl import Kubectl
from tests.rehearsal.offered import NotOfferedError, offered_cluster
from tests.rehearsal.rendered import CONFIGS, Rendered, identity

pytestmark = pytest.mark.own_control_plane

_COME_AND_GO = frozenset({"Lease", "ConfigMap", "ServiceAccount"})
"""Those that the cluster's own controllers make at their leisure."""


def test_an_offered_cluster_is_left_as_it_was(tmp_path: Path) -> None:
    rendered = Rendered.from_file(CONFIGS / "default.yaml", tmp_path)
    with ControlPlane(KUBERNETES, simulate_nodes=False) as plane:
        before = _names(plane.kubectl)
        with offered_cluster(plane.kubeconfig) as cluster:
            cluster.install(rendered)
            cluster.settle()
            assert len(_names(plane.kubectl)) > len(before) + len(list(rendered.objects())) / 2
        assert _names(plane.kubectl) == before


def test_a_cluster_in_use_is_refused() -> None:
    with ControlPlane(KUBERNETES, simulate_nodes=False) as plane:
        plane.kubectl("create", "namespace", "payroll")
        with (
            pytest.raises(NotOfferedError, match="has namespace payroll, so somebody uses it"),
            offered_cluster(plane.kubeconfig),
        ):
            pass


def _names(kubectl: Kubectl) -> set[str]:
    items = kubectl.everywhere(kubectl.kinds())
    return {identity(item) for item in items if item["kind"] not in _COME_AND_GO}
