"""Managed Grafana: a workspace that reads one Prometheus workspace, and its dashboards."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_grafana as grafana
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from kascade.aws._logs import log_group
from kascade.aws._nag import accept_wildcards
from kascade.aws._provider import provider_of
from kascade.aws.prometheus import ManagedPrometheus
from kascade.plan import NetworkPlan, ObservabilityPlan

_HANDLER = Path(__file__).parent.parent / "handlers" / "grafana_dashboards"
_HANDLER_TIMEOUT = cdk.Duration.minutes(5)
_RESOURCE_TIMEOUT = cdk.Duration.minutes(10)
_HTTPS = ec2.Port.tcp(443)


class ManagedGrafana(Construct):
    """A workspace whose role may query one Prometheus workspace and nothing else.

    A private workspace answers only through an endpoint in the VPC. People then need a way into
    the VPC (VPN, Direct Connect), and sign in as usual.

    Who may sign in, and as what, is left to a person: Identity Center assignments and the SAML
    connection are no CloudFormation resources.

    Attributes:
        workspace: The workspace.
        url: Its address for people.
        private: True when only the VPC reaches it.
    """

    def __init__(  # noqa: PLR0913 - plan, data and network
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ObservabilityPlan,
        prometheus: ManagedPrometheus,
        network: NetworkPlan,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
    ) -> None:
        super().__init__(scope, construct_id)
        self.private = not plan.grafana_public
        access = None
        if self.private:
            endpoint = self._add_endpoints(network, vpc, ec2.SubnetSelection(subnets=list(subnets)))
            access = grafana.CfnWorkspace.NetworkAccessControlProperty(
                prefix_list_ids=[], vpce_ids=[endpoint.vpc_endpoint_id]
            )
        self.workspace = grafana.CfnWorkspace(
            self,
            "Workspace",
            name=plan.grafana_name,
            description="KV cache tiers, engines and routers of Kascade",
            grafana_version=plan.grafana_version,
            account_access_type="CURRENT_ACCOUNT",
            authentication_providers=[plan.grafana_auth],
            permission_type="CUSTOMER_MANAGED",
            role_arn=self._make_role(prometheus).role_arn,
            data_sources=["PROMETHEUS"],
            network_access_control=access,
        )
        self.url = f"https://{self.workspace.attr_endpoint}"

    def _make_role(self, prometheus: ManagedPrometheus) -> iam.Role:
        return iam.Role(
            self,
            "Role",
            description="Managed Grafana queries one Managed Prometheus workspace",
            assumed_by=iam.ServicePrincipal(
                "grafana.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}},
            ),
            inline_policies={
                "query": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=[
                                "aps:GetLabels",
                                "aps:GetMetricMetadata",
                                "aps:GetSeries",
                                "aps:QueryMetrics",
                            ],
                            resources=[prometheus.workspace.attr_arn],
                        )
                    ]
                )
            },
        )

    def _add_endpoints(
        self, network: NetworkPlan, vpc: ec2.IVpc, inside: ec2.SubnetSelection
    ) -> ec2.InterfaceVpcEndpoint:
        group = ec2.SecurityGroup(
            self,
            "EndpointSecurityGroup",
            vpc=vpc,
            description="HTTPS from inside the VPC to Managed Grafana",
            allow_all_outbound=False,
        )
        for cidr in network.vpc_cidrs:
            group.add_ingress_rule(ec2.Peer.ipv4(cidr), _HTTPS, "HTTPS from inside the VPC")
        if network.nat_gateways == 0 and "grafana" not in network.interface_endpoints:
            self._add_endpoint(
                "Api", "grafana", vpc, inside, group
            )  # or nothing inside reaches the API
        return self._add_endpoint("WorkspaceEndpoint", "grafana-workspace", vpc, inside, group)

    def _add_endpoint(
        self,
        construct_id: str,
        service: str,
        vpc: ec2.IVpc,
        inside: ec2.SubnetSelection,
        group: ec2.SecurityGroup,
    ) -> ec2.InterfaceVpcEndpoint:
        return ec2.InterfaceVpcEndpoint(
            self,
            construct_id,
            vpc=vpc,
            service=ec2.InterfaceVpcEndpointAwsService(service),
            subnets=inside,
            security_groups=[group],
            open=False,
        )


class GrafanaDashboards(Construct):
    """A folder of dashboards and its data source, kept as the given texts say.

    CloudFormation has no resource for either, so a function writes them through Grafana's own
    API with a token that it makes and deletes in the same minute. The texts travel through the
    asset bucket: CloudFormation's events are too small for them. Another text is another object,
    and so another deployment; a dashboard left out is deleted.
    """

    def __init__(  # noqa: PLR0913 - what to write, where, and how to get there
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: ObservabilityPlan,
        workspace: ManagedGrafana,
        prometheus: ManagedPrometheus,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        dashboards: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        content = self._stage(dashboards)
        handler = self._make_handler(plan, workspace, vpc, subnets, content)
        resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::GrafanaDashboards",
            service_token=provider_of(
                self,
                handler,
                description="Calls the dashboard function for CloudFormation",
                log_retention_days=plan.log_retention_days,
            ).service_token,
            service_timeout=_RESOURCE_TIMEOUT,
            properties={
                "WorkspaceId": workspace.workspace.attr_id,
                "WorkspaceEndpoint": workspace.workspace.attr_endpoint,
                "GrafanaVersion": workspace.workspace.attr_grafana_version,
                "PrometheusEndpoint": prometheus.endpoint,
                "Region": cdk.Aws.REGION,
                "FolderUid": plan.folder_uid,
                "FolderTitle": plan.folder_title,
                "DatasourceUid": plan.datasource_uid,
                "ScrapeIntervalSeconds": str(plan.scrape_interval_seconds),
                "Bucket": content.s3_bucket_name,
                "Key": content.s3_object_key,
            },
        )
        resource.node.add_dependency(workspace)  # its endpoints too, which are the way to it

    def _stage(self, dashboards: Mapping[str, str]) -> s3_assets.Asset:
        """Put all dashboards into one file, whose hash names it in the asset bucket."""
        whole = {uid: json.loads(text) for uid, text in dashboards.items()}
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "dashboards.json"
            file.write_text(json.dumps(whole, sort_keys=True), encoding="utf-8")
            return s3_assets.Asset(self, "Content", path=str(file))

    def _make_handler(
        self,
        plan: ObservabilityPlan,
        workspace: ManagedGrafana,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        content: s3_assets.Asset,
    ) -> lambda_.Function:
        logs = log_group(self, "HandlerLog", retention_days=plan.log_retention_days)
        role = iam.Role(
            self,
            "HandlerRole",
            description="Writes dashboards into one Managed Grafana workspace",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        logs.grant_write(role)
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "grafana:CreateWorkspaceServiceAccount",
                    "grafana:CreateWorkspaceServiceAccountToken",
                    "grafana:DeleteWorkspaceServiceAccount",
                    "grafana:DeleteWorkspaceServiceAccountToken",
                    "grafana:ListWorkspaceServiceAccounts",
                ],
                resources=[
                    cdk.Stack.of(self).format_arn(
                        service="grafana",
                        resource="/workspaces",
                        resource_name=workspace.workspace.attr_id,
                    )
                ],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:GetObject"],
                resources=[content.bucket.arn_for_objects(content.s3_object_key)],
            )
        )
        group = self._join_vpc(role, vpc) if workspace.private else None
        return lambda_.Function(
            self,
            "Handler",
            description="Carries dashboards into Managed Grafana",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset(
                str(_HANDLER), exclude=["__pycache__", "__init__.py", "*.pyc"]
            ),
            handler="index.on_event",
            role=role,
            timeout=_HANDLER_TIMEOUT,
            memory_size=256,
            log_group=logs,
            vpc=vpc if workspace.private else None,
            vpc_subnets=ec2.SubnetSelection(subnets=list(subnets)) if workspace.private else None,
            security_groups=None if group is None else [group],
        )

    def _join_vpc(self, role: iam.Role, vpc: ec2.IVpc) -> ec2.SecurityGroup:
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "ec2:AssignPrivateIpAddresses",
                    "ec2:CreateNetworkInterface",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSubnets",
                    "ec2:UnassignPrivateIpAddresses",
                ],
                resources=["*"],
            )
        )
        accept_wildcards(
            role,
            ["*"],
            "Lambda manages its network interfaces with the function's role, and EC2 cannot limit "
            "these calls to interfaces that are not made yet.",
        )
        group = ec2.SecurityGroup(
            self,
            "HandlerSecurityGroup",
            vpc=vpc,
            description="HTTPS from the dashboard function",
            allow_all_outbound=False,
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "HTTPS to AWS and to the workspace")
        return group
