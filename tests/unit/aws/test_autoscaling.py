"""Karpenter in the cluster's template, and what it is told in the chart."""

from pathlib import Path
from typing import Any

import cdk8s
import pytest

from k8s.autoscaling import AutoscalingChart
from kascade.catalog.karpenter import MIN_HEALTH_AGENT, agent_number
from kascade.catalog.regions import HEALTH_AGENT_TAG
from kascade.kube._labels import INSTANCE_GROUP_LABEL
from kascade.kube._pods import in_group
from kascade.plan import AutoscalingPlan, NodePoolPlan
from tests.unit.aws.builders import (
    Synthesis,
    make_cluster_plan,
    make_group,
    make_plan,
    synthesize,
)
from tests.unit.aws.test_stacks import needs

KEY = "arn:aws:kms:us-west-2:111122223333:key/0123-abcd"
POOL = NodePoolPlan(
    group="gpu",
    instance_types=("ml.g6e.12xlarge",),
    zone="us-west-2a",
    labels={"team": "x", INSTANCE_GROUP_LABEL: "gpu"},
    taints=(("team", "", "NoSchedule"), ("kind", "gpu", "NoExecute")),
    gpus=8,
    empty_seconds=600,
    away_at_once=1,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    groups = (make_group(), make_group("more", zone="us-west-2b", volume_kms_key_arn=KEY))
    cluster = make_cluster_plan(groups=groups, autoscaling=AutoscalingPlan(pools=(POOL,)))
    return synthesize(tmp_path_factory.mktemp("autoscaling"), make_plan(cluster=cluster))


def rendered(pool: NodePoolPlan = POOL) -> list[dict[str, Any]]:
    app = cdk8s.App()
    chart = AutoscalingChart(app, "autoscaling", autoscaling=AutoscalingPlan(pools=(pool,)))
    return list(chart.to_json())


def test_groups_begin_empty_and_the_cluster_scales_them(made: Synthesis) -> None:
    cluster = made.only("cluster", "AWS::SageMaker::Cluster")["Properties"]
    assert [group["InstanceCount"] for group in cluster["InstanceGroups"]] == [0, 0]
    assert cluster["AutoScaling"] == {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    assert cluster["NodeProvisioningMode"] == "Continuous"
    role = cluster["ClusterRole"]["Fn::GetAtt"][0]
    (name,) = made.resources("cluster", "AWS::SageMaker::Cluster")
    assert role in needs(made, "cluster", name)


def test_without_autoscaling_nothing_of_it_is_there(synthesis: Synthesis) -> None:
    cluster = synthesis.only("cluster", "AWS::SageMaker::Cluster")["Properties"]
    assert [group["InstanceCount"] for group in cluster["InstanceGroups"]] == [2, 2]
    assert {"AutoScaling", "ClusterRole"} & set(cluster) == set()


def test_the_role_may_add_and_remove_nodes_and_no_more(made: Synthesis) -> None:
    (role,) = (
        resource["Properties"]
        for name, resource in made.resources("cluster", "AWS::IAM::Role").items()
        if name.startswith("Autoscaling")
    )
    nodes, volumes = role["Policies"]
    for statement in volumes["PolicyDocument"]["Statement"]:
        assert statement["Resource"] == KEY
    (statement,) = nodes["PolicyDocument"]["Statement"]
    assert statement["Action"] == [
        "sagemaker:BatchAddClusterNodes",
        "sagemaker:BatchDeleteClusterNodes",
    ]
    assert str(statement["Resource"]).count("cluster/*") == 1
    # HyperPod lets nobody change the role while autoscaling is on, and a name would.
    assert "RoleName" not in role


def test_a_pool_is_exactly_this() -> None:
    node_class, pool = rendered()
    assert node_class["spec"] == {"instanceGroups": ["gpu"]}
    assert node_class["apiVersion"] == "karpenter.sagemaker.amazonaws.com/v1"
    assert pool["apiVersion"] == "karpenter.sh/v1"
    assert pool["spec"] == {
        "template": {
            "metadata": {"labels": {"team": "x", INSTANCE_GROUP_LABEL: "gpu"}},
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.sagemaker.amazonaws.com",
                    "kind": "HyperpodNodeClass",
                    "name": "gpu",
                },
                "expireAfter": "Never",
                "requirements": [
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["ml.g6e.12xlarge"],
                    },
                    {
                        "key": "topology.kubernetes.io/zone",
                        "operator": "In",
                        "values": ["us-west-2a"],
                    },
                ],
                "taints": [
                    {"key": "team", "effect": "NoSchedule"},
                    {"key": "kind", "effect": "NoExecute", "value": "gpu"},
                ],
            },
        },
        "limits": {"nvidia.com/gpu": "8"},
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "600s",
            "budgets": [{"nodes": "1"}],
        },
    }


def test_a_pool_promises_every_label_that_an_engine_asks_for() -> None:
    """Karpenter adds nothing for a pod whose affinity no pool can meet."""
    _, pool = rendered()
    template = pool["spec"]["template"]
    promised = {key: [value] for key, value in template["metadata"]["labels"].items()}
    promised |= {item["key"]: item["values"] for item in template["spec"]["requirements"]}
    affinity: Any = in_group("gpu", ("ml.g6e.12xlarge",))
    rules = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = rules["nodeSelectorTerms"]
    asked = {item["key"]: item for item in term["matchExpressions"]}
    for key, item in asked.items():
        if item["operator"] == "In":
            assert set(promised[key]) <= set(item["values"]), key
        else:
            assert item["operator"] == "NotIn"
            assert key not in promised


def test_the_health_agent_is_new_enough() -> None:
    assert agent_number(HEALTH_AGENT_TAG) >= agent_number(MIN_HEALTH_AGENT)


def test_the_order_of_charts_begins_with_the_pools(tmp_path: Path) -> None:
    from k8s.charts import build_charts, manifest_app
    from kascade import plan_file
    from tests.checkout import ROOT

    plan = plan_file(ROOT / "config" / "karpenter.yaml")
    charts = build_charts(manifest_app(str(tmp_path)), plan)
    assert [chart.node.id for chart in charts.serving][:2] == ["autoscaling", "cache"]
