"""Managed Prometheus and Managed Grafana as CloudFormation."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from kascade import plan_file
from kascade.aws.network import ServingNetwork
from kascade.aws.prometheus import ClusterScraper, ManagedPrometheus
from kascade.observability.boards import boards
from kascade.observability.scrape import scrape_configuration
from kascade.plan import ObservabilityPlan, ServingPlan
from stacks._base import KascadeStack as NetworkHost
from stacks.observability import ObservabilityStack

CONFIG = Path(__file__).parents[3] / "config" / "default.yaml"
RANGES = Path(__file__).parents[2] / "data" / "configs" / "existing-ranges.yaml"
CLUSTER = "arn:aws:eks:us-west-2:111122223333:cluster/demo"
STRICT = {"@aws-cdk/core:strictCfnValidateErrors": True}


@pytest.fixture(scope="module")
def serving() -> ServingPlan:
    return plan_file(CONFIG)


def _with(plan: ServingPlan, *, public: bool, nat_gateways: int = 1) -> ServingPlan:
    assert plan.observability is not None
    return replace(
        plan,
        observability=replace(plan.observability, grafana_public=public),
        network=replace(
            plan.network,
            nat_gateways=nat_gateways,
            public_cidrs=plan.network.public_cidrs if nat_gateways else (),
        ),
    )


def _stack(plan: ServingPlan, app: cdk.App, **changes: Any) -> ObservabilityStack:
    assert plan.observability is not None
    network = NetworkHost(app, "Network", plan=plan, description="test")
    built = ServingNetwork(network, "Network", plan=plan.network)
    given: dict[str, Any] = {
        "plan": plan,
        "network": built,
        "cluster_arn": CLUSTER,
        "cluster_security_group": built.node_security_group,
        "dashboards": boards(plan.observability),
        "scrape_configuration": scrape_configuration(
            plan.observability,
            cluster_name=plan.cluster.eks_name,
            namespaces=plan.namespaces,
        ),
    }
    return ObservabilityStack(app, "Observability", **{**given, **changes})


def _template(plan: ServingPlan, **changes: Any) -> assertions.Template:
    return assertions.Template.from_stack(_stack(plan, cdk.App(), **changes))


@pytest.fixture(scope="module")
def private(serving: ServingPlan) -> assertions.Template:
    return _template(_with(serving, public=False))


@pytest.fixture(scope="module")
def public(serving: ServingPlan) -> assertions.Template:
    return _template(_with(serving, public=True))


def _only(template: assertions.Template, kind: str) -> dict[str, Any]:
    (found,) = template.find_resources(kind).values()
    properties: dict[str, Any] = found["Properties"]
    return properties


def _actions(template: assertions.Template, prefix: str) -> dict[str, Any]:
    """Statements whose first action has a prefix: resource by action."""
    found = {}
    for kind in ("AWS::IAM::Policy", "AWS::IAM::Role"):
        for resource in template.find_resources(kind).values():
            properties = resource["Properties"]
            documents = [p["PolicyDocument"] for p in properties.get("Policies", [])]
            documents += [properties["PolicyDocument"]] if kind == "AWS::IAM::Policy" else []
            for statement in (s for d in documents for s in d["Statement"]):
                actions = statement["Action"]
                for action in [actions] if isinstance(actions, str) else actions:
                    if action.startswith(prefix):
                        found[action] = statement["Resource"]
    return found


def test_prometheus_keeps_and_logs_what_the_plan_says(
    private: assertions.Template, serving: ServingPlan
) -> None:
    plan = serving.observability
    assert plan is not None
    workspace = _only(private, "AWS::APS::Workspace")
    assert workspace["Alias"] == plan.workspace_alias
    assert workspace["WorkspaceConfiguration"]["RetentionPeriodInDays"] == plan.retention_days
    assert "KmsKeyArn" not in workspace
    groups = [g["Properties"] for g in private.find_resources("AWS::Logs::LogGroup").values()]
    assert {group["RetentionInDays"] for group in groups} == {plan.log_retention_days}
    named = sorted(group["LogGroupName"] for group in groups if "LogGroupName" in group)
    assert [name.startswith("/aws/vendedlogs/") for name in named] == [True, True]


def test_a_key_of_yours_is_used() -> None:
    stack = cdk.Stack(cdk.App(), "Stack")
    plan = plan_file(CONFIG).observability
    assert plan is not None
    key = kms.Key(stack, "Key")
    ManagedPrometheus(stack, "Prometheus", plan=plan, encryption_key=key)
    template = assertions.Template.from_stack(stack)
    assert "KmsKeyArn" in _only(template, "AWS::APS::Workspace")


def test_the_scraper_gets_the_configuration_and_two_zones(
    private: assertions.Template, serving: ServingPlan
) -> None:
    scraper = _only(private, "AWS::APS::Scraper")
    assert serving.observability is not None
    assert base64.b64decode(
        scraper["ScrapeConfiguration"]["ConfigurationBlob"]
    ).decode() == scrape_configuration(
        serving.observability,
        cluster_name=serving.cluster.eks_name,
        namespaces=serving.namespaces,
    )
    source = scraper["Source"]["EksConfiguration"]
    assert source["ClusterArn"] == CLUSTER
    assert len(source["SubnetIds"]) == 2
    assert len(source["SecurityGroupIds"]) == 1


def test_a_scrape_configuration_that_is_too_long_is_refused(serving: ServingPlan) -> None:
    with pytest.raises(Exception, match=r"262145 bytes; the managed collector takes 262144"):
        _template(serving, scrape_configuration="x" * 262145)


def test_grafana_may_query_one_workspace_and_is_trusted_for_this_account(
    private: assertions.Template,
) -> None:
    actions = _actions(private, "aps:")
    assert set(actions) == {
        "aps:GetLabels",
        "aps:GetMetricMetadata",
        "aps:GetSeries",
        "aps:QueryMetrics",
    }
    (workspace,) = private.find_resources("AWS::APS::Workspace")
    assert all(r == {"Fn::GetAtt": [workspace, "Arn"]} for r in actions.values())
    trust = [
        s
        for role in private.find_resources("AWS::IAM::Role").values()
        for s in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        if s["Principal"] == {"Service": "grafana.amazonaws.com"}
    ]
    assert [s["Condition"] for s in trust] == [
        {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    ]


def test_a_private_workspace_answers_only_its_endpoint(private: assertions.Template) -> None:
    (endpoint,) = private.find_resources("AWS::EC2::VPCEndpoint")
    workspace = _only(private, "AWS::Grafana::Workspace")
    assert workspace["NetworkAccessControl"] == {
        "PrefixListIds": [],
        "VpceIds": [{"Ref": endpoint}],
    }
    service = json.dumps(_only(private, "AWS::EC2::VPCEndpoint")["ServiceName"])
    assert "grafana-workspace" in service
    assert len(private.find_resources("AWS::Lambda::Function", {"Properties": {"VpcConfig": {}}}))


def test_the_endpoint_hears_every_range_of_a_vpc() -> None:
    template = _template(plan_file(RANGES))
    (group,) = (
        found["Properties"]
        for found in template.find_resources("AWS::EC2::SecurityGroup").values()
        if "to Managed Grafana" in found["Properties"]["GroupDescription"]
    )
    admitted = [(rule["CidrIp"], rule["FromPort"]) for rule in group["SecurityGroupIngress"]]
    assert admitted == [
        ("10.192.0.0/16", 443),
        ("10.1.0.0/16", 443),
        ("10.2.0.0/16", 443),
        ("100.64.0.0/16", 443),
    ]


def test_a_closed_network_gets_the_way_to_grafanas_api_too(serving: ServingPlan) -> None:
    template = _template(_with(serving, public=False, nat_gateways=0))
    services = sorted(
        json.dumps(endpoint["Properties"]["ServiceName"]).rpartition(".")[2].rstrip('"]}')
        for endpoint in template.find_resources("AWS::EC2::VPCEndpoint").values()
    )
    assert services == ["grafana", "grafana-workspace"]


def test_a_public_workspace_needs_no_vpc(public: assertions.Template) -> None:
    public.resource_count_is("AWS::EC2::VPCEndpoint", 0)
    public.resource_count_is("AWS::EC2::SecurityGroup", 0)
    assert "NetworkAccessControl" not in _only(public, "AWS::Grafana::Workspace")
    assert _actions(public, "ec2:") == {}


def test_the_function_may_make_exactly_its_calls(private: assertions.Template) -> None:
    grafana = _actions(private, "grafana:")
    assert set(grafana) == {
        "grafana:CreateWorkspaceServiceAccount",
        "grafana:CreateWorkspaceServiceAccountToken",
        "grafana:DeleteWorkspaceServiceAccount",
        "grafana:DeleteWorkspaceServiceAccountToken",
        "grafana:ListWorkspaceServiceAccounts",
    }
    assert all("*" not in json.dumps(resource) for resource in grafana.values())
    (read,) = _actions(private, "s3:").items()
    assert read[0] == "s3:GetObject"
    assert "*" not in json.dumps(read[1])


def _resource(template: assertions.Template) -> dict[str, Any]:
    return _only(template, "Custom::GrafanaDashboards")


def test_other_dashboards_are_another_object_and_equal_ones_the_same(
    serving: ServingPlan,
) -> None:
    keys = [
        _resource(_template(serving, dashboards={"a": json.dumps(board)}))["Key"]
        for board in ({"uid": "a", "x": 1}, {"x": 1, "uid": "a"}, {"uid": "a", "x": 2})
    ]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0].endswith(".json")


def test_the_staged_object_holds_the_boards(serving: ServingPlan, tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    _stack(serving, app)
    app.synth()
    assert serving.observability is not None
    (staged,) = tmp_path.glob("asset.*.json")
    assert json.loads(staged.read_text()) == {
        uid: json.loads(text) for uid, text in boards(serving.observability).items()
    }


def test_the_function_carries_one_file(serving: ServingPlan, tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    _stack(serving, app)
    app.synth()
    assert [found.name for found in tmp_path.glob("asset.*/index.py")] == ["index.py"]
    (home,) = (found.parent for found in tmp_path.glob("asset.*/index.py"))
    assert [found.name for found in home.iterdir()] == ["index.py"]


def test_the_custom_resource_is_bounded_and_waits_for_the_way_to_grafana(
    private: assertions.Template,
) -> None:
    (found,) = private.find_resources("Custom::GrafanaDashboards").values()
    assert int(found["Properties"]["ServiceTimeout"]) > 300
    (endpoint,) = private.find_resources("AWS::EC2::VPCEndpoint")
    assert endpoint in found["DependsOn"]


def test_outputs(private: assertions.Template) -> None:
    assert set(private.find_outputs("*")) == {
        "GrafanaUrl",
        "GrafanaWorkspaceId",
        "PrometheusEndpoint",
        "PrometheusWorkspaceId",
    }


def test_a_plan_without_observability_is_refused(serving: ServingPlan) -> None:
    with pytest.raises(Exception, match="needs a plan with observability turned on"):
        ObservabilityStack(
            cdk.App(),
            "Observability",
            plan=replace(serving, observability=None),
            network=None,  # type: ignore[arg-type]
            cluster_arn=CLUSTER,
            cluster_security_group=None,  # type: ignore[arg-type]
            dashboards={},
            scrape_configuration="",
        )


Variant = Callable[[ServingPlan], ServingPlan]


@pytest.mark.parametrize(
    "variant",
    [
        lambda plan: _with(plan, public=False),
        lambda plan: _with(plan, public=False, nat_gateways=0),
        lambda plan: _with(plan, public=True),
    ],
    ids=["private", "closed", "public"],
)
def test_cdk_nag_has_no_findings(serving: ServingPlan, variant: Variant, tmp_path: Path) -> None:
    """Nor has CDK's own validator in strict mode, unless CDK_VALIDATION=false turns it off."""
    app = cdk.App(outdir=str(tmp_path), context=STRICT, builtin_cloud_formation_validation=True)
    stack = _stack(variant(serving), app)
    cdk.Validations.of(stack).add_plugins(cdk_nag.AwsSolutionsChecks(stack))
    app.synth()  # raises with any finding


def test_the_scraper_alone_can_be_used(plan: ObservabilityPlan) -> None:
    stack = cdk.Stack(cdk.App(), "Stack")
    vpc = ec2.Vpc(stack, "Vpc")
    ClusterScraper(
        stack,
        "Scraper",
        plan=plan,
        prometheus=ManagedPrometheus(stack, "Prometheus", plan=plan),
        configuration="scrape_configs: []",
        cluster_arn=CLUSTER,
        subnets=vpc.private_subnets,
        security_group=ec2.SecurityGroup(stack, "Nodes", vpc=vpc),
    )
    assertions.Template.from_stack(stack).resource_count_is("AWS::APS::Scraper", 1)
