"""A chart like AWS's own, installed by the Helm of CDK's function before any node is there."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import yaml

from kascade import plan_file
from kascade.kube.dependencies_chart import dependencies_values
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.nodes import planned_groups
from tests.unit.rules.rows.charts import lay_out
from tools.process import local_environment
from tools.rehearsal_env import rehearsal_environment

DAEMONS = ("health-monitoring-agent", "dependencies-nvidia-device-plugin")


def helm(cluster: Cluster, *arguments: str) -> str:
    argv = [str(rehearsal_environment().programs / "helm"), *arguments]
    argv += ["--namespace=kube-system", f"--kubeconfig={cluster.kubeconfig}"]
    ran = subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=120, env=local_environment()
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_its_daemons_come_with_the_nodes_and_go_with_the_release(
    empty_cluster: Cluster, tmp_path: Path
) -> None:
    def tainted(config: Object, _: Path) -> None:
        (group,) = config["instance_groups"]
        group["taints"] = [{"key": "team", "value": "a", "effect": "NoSchedule"}]

    plan = plan_file(lay_out(tmp_path, tainted))
    chart = plan.platform.dependencies_chart
    assert chart is not None
    values = tmp_path / "values.json"
    values.write_text(json.dumps(dependencies_values(chart, plan.platform, region=plan.region)))
    install = ("upgrade", "dependencies", str(tmp_path / "chart"), "--install")
    kubectl = empty_cluster.kubectl

    # It returns although there is no node, as HyperPod wants it.
    helm(empty_cluster, *install, f"--values={values}")
    assert kubectl("get", "namespace", "aws-hyperpod", "-o", "name") == "namespace/aws-hyperpod\n"
    assert kubectl.everywhere(["pods"]) == []

    groups = planned_groups(plan)
    empty_cluster.join(groups.values())
    empty_cluster.settle()
    gpus = sum(group.count for group in plan.cluster.groups)
    ours = [pod for pod in kubectl.everywhere(["pods"]) if _daemon(pod) in DAEMONS]
    assert Counter(map(_daemon, ours)) == dict.fromkeys(DAEMONS, gpus)

    # What CDK's function does on an update of the same release.
    helm(empty_cluster, *install, f"--values={values}")
    (release,) = yaml.safe_load(helm(empty_cluster, "list", "--output=yaml"))
    assert (release["name"], release["revision"]) == ("dependencies", "2")

    helm(empty_cluster, "uninstall", "dependencies", "--wait")
    assert kubectl("get", "namespace", "aws-hyperpod", "--ignore-not-found") == ""
    assert not set(DAEMONS) & set(map(_daemon, kubectl.everywhere(["daemonsets"])))


def _daemon(item: Object) -> str:
    """Name of a DaemonSet, or of the one that made a pod."""
    meta = item["metadata"]
    return str(meta.get("ownerReferences", [meta])[0]["name"])
