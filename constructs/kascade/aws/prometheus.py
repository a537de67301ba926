"""Managed Prometheus: a workspace, and the collector that fills it from the cluster."""

import base64
from collections.abc import Sequence

from aws_cdk import aws_aps as aps
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from kascade.aws._logs import log_group
from kascade.plan import ObservabilityPlan
from kascade.units import KIB

MAX_CONFIGURATION_BYTES = 256 * KIB
_COLLECTOR_PARTS = ("SERVICE_DISCOVERY", "COLLECTOR", "EXPORTER")


class ManagedPrometheus(Construct):
    """A workspace for metrics, with its own log of failed rules and rejected series.

    Without a key of yours, AWS encrypts the metrics with one of its own. That is the default
    because they hold counts and durations, no prompt and no answer, and because a workspace
    cannot change its key or outlive it.

    Attributes:
        workspace: The workspace.
        endpoint: URL under which it is queried; ends with a slash.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ObservabilityPlan,
        encryption_key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        logs = log_group(
            self,
            "Log",
            retention_days=plan.log_retention_days,
            name=f"/aws/vendedlogs/prometheus/{plan.workspace_alias}",  # the service's prefix
        )
        self.workspace = aps.CfnWorkspace(
            self,
            "Workspace",
            alias=plan.workspace_alias,
            kms_key_arn=None if encryption_key is None else encryption_key.key_arn,
            logging_configuration=aps.CfnWorkspace.LoggingConfigurationProperty(
                log_group_arn=logs.log_group_arn
            ),
            workspace_configuration=aps.CfnWorkspace.WorkspaceConfigurationProperty(
                retention_period_in_days=plan.retention_days
            ),
        )
        self.endpoint = self.workspace.attr_prometheus_endpoint


class AlertingRules(Construct):
    """One rule file, evaluated by the workspace.

    What fires is a series ``ALERTS`` of the workspace. Whom it calls is a matter of an alert
    manager, which the workspace takes beside it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, prometheus: ManagedPrometheus, rules: str
    ) -> None:
        super().__init__(scope, construct_id)
        aps.CfnRuleGroupsNamespace(
            self,
            "Rules",
            name="kascade",
            workspace=prometheus.workspace.attr_arn,
            data=rules,
        )


class ClusterScraper(Construct):
    """The managed collector of one EKS cluster; nothing of it runs in the cluster.

    It has two needs, and both are met outside this construct. Its network interfaces must reach
    the pods: one stands in each of ``subnets`` (two zones at least) and joins ``security_group``,
    whose members must be open to one another. And it must
    list pods: AWS adds an access entry for it by itself when the cluster's authentication mode
    is API or API_AND_CONFIG_MAP, the two that HyperPod allows.
    """

    def __init__(  # noqa: PLR0913 - six ends to tie together
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ObservabilityPlan,
        prometheus: ManagedPrometheus,
        configuration: str,
        cluster_arn: str,
        subnets: Sequence[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        content = configuration.encode()
        if len(content) > MAX_CONFIGURATION_BYTES:
            message = (
                f"The scrape configuration has {len(content)} bytes; the managed collector takes "
                f"{MAX_CONFIGURATION_BYTES}. Scrape fewer components."
            )
            raise ValueError(message)
        logs = log_group(
            self,
            "Log",
            retention_days=plan.log_retention_days,
            name=f"/aws/vendedlogs/prometheus/{plan.workspace_alias}/collector",
        )
        self.scraper = aps.CfnScraper(
            self,
            "Scraper",
            alias=plan.workspace_alias,
            source=aps.CfnScraper.SourceProperty(
                eks_configuration=aps.CfnScraper.EksConfigurationProperty(
                    cluster_arn=cluster_arn,
                    subnet_ids=[subnet.subnet_id for subnet in subnets],
                    security_group_ids=[security_group.security_group_id],
                )
            ),
            destination=aps.CfnScraper.DestinationProperty(
                amp_configuration=aps.CfnScraper.AmpConfigurationProperty(
                    workspace_arn=prometheus.workspace.attr_arn
                )
            ),
            scrape_configuration=aps.CfnScraper.ScrapeConfigurationProperty(
                configuration_blob=base64.b64encode(content).decode()
            ),
            scraper_logging_configuration=aps.CfnScraper.ScraperLoggingConfigurationProperty(
                logging_destination=aps.CfnScraper.ScraperLoggingDestinationProperty(
                    cloud_watch_logs=aps.CfnScraper.CloudWatchLogDestinationProperty(
                        log_group_arn=logs.log_group_arn
                    )
                ),
                scraper_components=[
                    aps.CfnScraper.ScraperComponentProperty(type=part) for part in _COLLECTOR_PARTS
                ],
            ),
        )
