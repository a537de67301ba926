"""Parts rendered by examples/, each applied as its page says to a cluster that has nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kascade import plan_file
from tests.checkout import ROOT
from tests.rehearsal.cloud import aws_workloads
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.nodes import hyperpod_group, system_group
from tests.rehearsal.rendered import CONFIGS, read

ZONES = ("us-west-2a", "us-west-2b")


@pytest.mark.parametrize(
    ("name", "nodes", "running"),
    [
        (
            "own_pool",
            4,
            {"worker": 4, "csi-node": 4, "csi-controller": 1, "master": 1, "bootstrap": 1},
        ),
        ("own_engine", 2, {"engine": 2, "router": 1}),
    ],
)
def test_a_part_runs_on_what_it_brings(
    empty_cluster: Cluster, tmp_path: Path, name: str, nodes: int, running: dict[str, int]
) -> None:
    subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (file,) = tmp_path.rglob("*.yaml")
    empty_cluster.join(
        [
            system_group(instance_type="m7i.xlarge", count=1, zones=ZONES, volume_gib=100),
            hyperpod_group(
                "gpu",
                instance_types=["ml.g6e.4xlarge"],
                count=nodes,
                zones=ZONES,
                volume_gib=200,
                cluster="theirs",
                labels={},
                taints=(),
            ),
        ]
    )
    empty_cluster.kubectl.apply(aws_workloads(plan_file(CONFIGS / "existing.yaml")))
    empty_cluster.kubectl("create", "namespace", "apps")
    empty_cluster.kubectl.apply(read(file))
    empty_cluster.settle()
    components = Counter(
        pod["metadata"]["labels"]["app.kubernetes.io/component"]
        for pod in empty_cluster.kubectl.everywhere(["pods"])
        if pod["metadata"]["namespace"] in ("pool", "llm")
    )
    assert components == running
