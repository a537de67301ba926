"""Dashboards as ConfigMaps."""

import cdk8s

from k8s.dashboards import DashboardsChart
from kascade.observability.boards import boards
from kascade.plan import ObservabilityPlan


def test_each_board_is_one_config_map_with_the_text_that_grafana_gets(
    plan: ObservabilityPlan,
) -> None:
    chart = DashboardsChart(
        cdk8s.Testing.app(), "dashboards", observability=plan, namespace="serving"
    )
    objects = cdk8s.Testing.synth(chart)
    assert {o["metadata"]["name"]: o["data"] for o in objects} == {
        uid: {f"{uid}.json": text} for uid, text in boards(plan).items()
    }
    for made in objects:
        assert made["kind"] == "ConfigMap"
        assert made["metadata"]["namespace"] == "serving"
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
