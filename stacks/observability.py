"""What shows how the cache is doing: Managed Prometheus and Managed Grafana."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from kascade.aws.grafana import GrafanaDashboards, ManagedGrafana
from kascade.aws.network import ServingNetwork
from kascade.aws.prometheus import AlertingRules, ClusterScraper, ManagedPrometheus
from kascade.plan import HOME_ZONES, ServingPlan
from stacks._base import KascadeStack


class ObservabilityStack(KascadeStack):
    """Metrics of one cluster, and the dashboards over them.

    Dashboards and the scrape configuration come as finished texts; what is measured and shown is
    decided elsewhere.
    """

    def __init__(  # noqa: PLR0913 - the cluster to watch, and what to show of it
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ServingPlan,
        network: ServingNetwork,
        cluster_arn: str,
        cluster_security_group: ec2.ISecurityGroup,
        dashboards: Mapping[str, str],
        scrape_configuration: str,
        rules: str | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            plan=plan,
            description=f"Kascade {plan.name}: metrics and dashboards",
        )
        if plan.observability is None:
            message = f"{construct_id} needs a plan with observability turned on."
            raise ValueError(message)
        self.prometheus = ManagedPrometheus(self, "Prometheus", plan=plan.observability)
        self.scraper = ClusterScraper(
            self,
            "Scraper",
            plan=plan.observability,
            prometheus=self.prometheus,
            configuration=scrape_configuration,
            cluster_arn=cluster_arn,
            # Home zones: another list of subnets makes another scraper.
            subnets=network.collector_subnets[:HOME_ZONES],
            security_group=cluster_security_group,
        )
        if rules is not None:
            AlertingRules(self, "Rules", prometheus=self.prometheus, rules=rules)
        self.grafana = ManagedGrafana(
            self,
            "Grafana",
            plan=plan.observability,
            prometheus=self.prometheus,
            network=plan.network,
            vpc=network.vpc,
            subnets=network.private_subnets,
        )
        self.dashboards = GrafanaDashboards(
            self,
            "Dashboards",
            plan=plan.observability,
            workspace=self.grafana,
            prometheus=self.prometheus,
            vpc=network.vpc,
            subnets=network.private_subnets,
            dashboards=dashboards,
        )
        for name, value, description in (
            ("GrafanaUrl", self.grafana.url, "Dashboards"),
            ("GrafanaWorkspaceId", self.grafana.workspace.attr_id, "Managed Grafana workspace"),
            ("PrometheusEndpoint", self.prometheus.endpoint, "Address for PromQL queries"),
            (
                "PrometheusWorkspaceId",
                self.prometheus.workspace.attr_workspace_id,
                "Managed Prometheus workspace",
            ),
        ):
            cdk.CfnOutput(self, name, value=value, description=description)
