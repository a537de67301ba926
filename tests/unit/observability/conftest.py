"""A plan by hand, so that these tests stand without sizing."""

from dataclasses import replace

import pytest

from kascade.plan import Namespaces, ObservabilityPlan

PLAN = ObservabilityPlan(
    workspace_alias="demo",
    retention_days=90,
    scrape_interval_seconds=30,
    grafana_name="demo",
    grafana_version=None,
    grafana_auth="AWS_SSO",
    grafana_public=False,
    folder_uid="kascade-demo",
    folder_title="Kascade demo",
    datasource_uid="kascade-demo-amp",
    log_retention_days=30,
)


@pytest.fixture
def plan() -> ObservabilityPlan:
    return replace(PLAN)


@pytest.fixture
def namespaces() -> Namespaces:
    return Namespaces(serving="serving", cache="cache", hyperpod="aws-hyperpod")
