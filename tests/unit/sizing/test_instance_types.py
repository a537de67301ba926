"""A group of several types is planned for whatever node comes."""

from pathlib import Path
from typing import Any

import cdk8s
import pytest

from k8s.charts import build_charts
from kascade import ServingPlan
from kascade.catalog.instances import INSTANCES
from kascade.config.blocks import ServingConfig
from kascade.planning.planner import plan_serving
from kascade.sizing.instances import in_common

LIST = ("ml.g6e.8xlarge", "ml.g6e.4xlarge")


def plan_of(*types: str, zones: str = "ab", **changes: Any) -> ServingPlan:
    given = {"instance_types": list(types)} if len(types) > 1 else {"instance_type": types[0]}
    return plan_serving(
        ServingConfig.model_validate(
            {
                "name": "demo",
                "region": "us-west-2",
                "zones": [f"us-west-2{letter}" for letter in zones],
                "instance_groups": [{"name": "gpu", "count": 2, **given, **changes}],
                "models": [{"name": "qwen", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 2}],
            }
        )
    )


def warnings(plan: ServingPlan, path: str) -> list[str]:
    return [str(problem) for problem in plan.warnings if path in str(problem)]


def test_one_type_is_itself() -> None:
    assert in_common([INSTANCES["ml.g6e.4xlarge"]]) is INSTANCES["ml.g6e.4xlarge"]


def test_several_have_the_least_of_each() -> None:
    types = [INSTANCES[name] for name in LIST]
    least = in_common(types)
    for field in ("vcpus", "ram_gib", "nvme_gb", "network_gbps", "efa_interfaces", "max_pods"):
        assert getattr(least, field) == min(getattr(kind, field) for kind in types), field
    assert least.allocatable_ram_mib == INSTANCES["ml.g6e.4xlarge"].allocatable_ram_mib
    assert least.usd_per_hour == INSTANCES["ml.g6e.8xlarge"].usd_per_hour


def test_what_one_of_them_lacks_is_unknown() -> None:
    unpriced = INSTANCES["ml.p5e.48xlarge"]
    assert unpriced.usd_per_hour is None
    assert in_common([INSTANCES["ml.p5en.48xlarge"], unpriced]).usd_per_hour is None


def test_engines_are_no_larger_than_on_the_smallest() -> None:
    (alone,) = plan_of("ml.g6e.4xlarge").engines
    (either,) = plan_of(*LIST).engines
    # A node of the larger type has EFA, whose plugin takes a little.
    assert 0 <= alone.lmcache.l1_gib - either.lmcache.l1_gib <= 1
    assert either.lmcache.l2 is not None
    assert alone.lmcache.l2 is not None
    assert either.lmcache.l2.capacity_gib == alone.lmcache.l2.capacity_gib
    assert either.size.cpu_millicores <= alone.size.cpu_millicores


@pytest.mark.parametrize("order", [LIST, tuple(reversed(LIST))])
def test_the_order_is_a_preference_and_changes_no_size(order: tuple[str, ...]) -> None:
    plan = plan_of(*order)
    (group,) = plan.cluster.groups
    assert group.instance_types == order
    assert plan.engines[0].lmcache.l1_gib == plan_of(*LIST).engines[0].lmcache.l1_gib


def test_plugins_stand_on_every_type_and_efas_on_those_that_have_it() -> None:
    plan = plan_of(*LIST)
    assert set(plan.platform.gpu_instance_types) == set(LIST)
    assert plan.platform.efa_instance_types == ("ml.g6e.8xlarge",)
    (group,) = plan.cluster.groups
    assert group.efa_interfaces == 0
    assert "efa-device-plugin" in group.daemonset_pods


def test_the_price_is_the_dearest_and_says_so() -> None:
    (group,) = plan_of(*LIST).cluster.groups
    assert group.usd_per_hour.value == 4.5286
    assert group.usd_per_hour.reason.startswith(
        "the dearest of ml.g6e.8xlarge or ml.g6e.4xlarge: EC2 on demand"
    )


def test_spot_is_warned_of() -> None:
    plan = plan_of(*LIST, capacity={"kind": "spot"}, min_count=1)
    (sentence,) = warnings(plan, "capacity")
    assert "two minutes' notice" in sentence
    assert "its part of L2" in sentence
    assert "min_count holds at the start only" in sentence
    assert warnings(plan_of(*LIST), "capacity") == []


def test_each_type_that_is_not_listed_for_the_region_is_warned_of() -> None:
    plan = plan_of("ml.p5e.48xlarge", "ml.p5en.48xlarge")
    (sentence,) = [s for s in warnings(plan, "instance_types") if "is not listed for" in s]
    assert "ml.p5e.48xlarge is not listed for us-west-2" in sentence


def test_one_thread_per_core_leaves_half_the_cpus() -> None:
    (both,) = plan_of("ml.g6e.2xlarge").engines
    (one,) = plan_of("ml.g6e.2xlarge", threads_per_core=1).engines
    assert one.size.cpu_millicores < both.size.cpu_millicores
    (group,) = plan_of("ml.g6e.2xlarge", threads_per_core=1).cluster.groups
    assert group.threads_per_core == 1


def test_home_are_the_first_two_zones() -> None:
    assert plan_of("ml.g6e.4xlarge", zones="abcd").network.home_zones == (
        "us-west-2a",
        "us-west-2b",
    )


def test_pods_go_to_nodes_of_every_type(tmp_path: Path) -> None:
    app = cdk8s.App(outdir=str(tmp_path))
    charts = build_charts(app, plan_of(*LIST))
    objects = [each for chart in charts.serving for each in chart.to_json()]
    found = 0
    for each in objects:
        if each["kind"] not in {"Deployment", "DaemonSet"}:
            continue
        pod = each["spec"]["template"]["spec"]
        assert "node.kubernetes.io/instance-type" not in pod.get("nodeSelector", {})
        terms = (
            pod.get("affinity", {})
            .get("nodeAffinity", {})
            .get("requiredDuringSchedulingIgnoredDuringExecution", {})
            .get("nodeSelectorTerms", [])
        )
        for wish in (wish for term in terms for wish in term["matchExpressions"]):
            if wish["key"] == "node.kubernetes.io/instance-type":
                assert set(wish["values"]) == set(LIST), each["metadata"]["name"]
                found += 1
    # The engine, its janitor, Curvine's worker and CSI driver's node plugin, where it selects.
    assert found >= 3
