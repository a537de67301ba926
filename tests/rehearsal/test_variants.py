"""Settings that no shipped configuration uses, rendered and installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.rendered import CONFIGS, Rendered


def tainted(config: Object) -> None:
    """Only pods that tolerate the group's taint may use it: ours have to, every one."""
    config["instance_groups"][0]["taints"] = [
        {"key": "team", "value": "llm", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    ]


@pytest.mark.parametrize("edit", [tainted], ids=lambda edit: edit.__name__)
def test_it_runs(empty_cluster: Cluster, tmp_path: Path, edit: Callable[[Object], None]) -> None:
    rendered = Rendered.edited(CONFIGS / "default.yaml", tmp_path, edit)
    assert any(group.taints for group in rendered.plan.cluster.groups)
    empty_cluster.install(rendered)
    empty_cluster.settle()
    assert all(wanted == run for _, wanted, _, run in empty_cluster.table())
