"""Accounts that somebody may have, each with what preflight has to say of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kascade.catalog.quotas import (
    ALL_CLUSTERS,
    ALL_SPOT,
    PER_CLUSTER,
    VOLUME,
    cluster_quota,
)
from kascade.plan import ServingPlan
from kascade.sizing.account import all_addons
from tests.unit.preflight.ordinary import (
    ACCOUNT,
    NOW,
    YEAR,
    build,
    concurrency,
    hyperpod_cluster,
    key,
    offers,
    quota,
    role,
    simulated,
    stack,
    supported,
    training_plan,
    zones,
)
from tests.unit.preflight.played import (
    DENIED,
    THROTTLED,
    Answer,
    Parameters,
    Refused,
    Unreachable,
)

Answers = dict[str, Answer]
G6E = "ml.g6e.4xlarge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One account.

    Attributes:
        change: Changes the answers of an account in which nothing is in the way.
        code: Exit code.
        rows: State of every row that is not ok.
        says: What the table has to contain.
        config: Of `config/`, and `edit` changes it.
    """

    change: Callable[[Answers, ServingPlan], None]
    code: int
    rows: Mapping[str, str]
    says: tuple[str, ...] = ()
    config: str = "default"
    edit: Callable[[dict[str, Any]], None] = field(default=lambda _: None)


def _set(**answers: Answer) -> Callable[[Answers, ServingPlan], None]:
    """Change answers, given by name with two underscores for the point."""

    def change(account: Answers, _: ServingPlan) -> None:
        account |= {name.replace("__", ".").replace("_", "-"): a for name, a in answers.items()}

    return change


def _quotas(**limits: float) -> Answer:
    return {
        "Quotas": [
            quota(name, value, f"L-{n:08d}") for n, (name, value) in enumerate(limits.items())
        ]
    }


def _hyperpod(gpu: float, spot: float = 0) -> Answer:
    return _quotas(
        **{
            cluster_quota(G6E, spot=False): gpu,
            cluster_quota(G6E, spot=True): spot,
            cluster_quota("ml.g6e.8xlarge", spot=True): 0,
            PER_CLUSTER: 20,
            ALL_CLUSTERS: 20,
            VOLUME: 1024,
            ALL_SPOT: spot,
        }
    )


def _everything(answer: Answer) -> Callable[[Answers, ServingPlan], None]:
    def change(account: Answers, _: ServingPlan) -> None:
        for name in account:
            if name != "sts.GetCallerIdentity":
                account[name] = answer

    return change


# --- zones ---------------------------------------------------------------------------------------


def _in_virginia(config: dict[str, Any]) -> None:
    config["region"], config["zones"] = "us-east-1", ["us-east-1c", "us-east-1d"]


def _zone(account: Answers, plan: ServingPlan, name: str, **fields: str) -> None:
    found = zones(plan.region)
    for zone in found:
        if zone["ZoneName"] == name:
            zone.update(fields)
    account["ec2.DescribeAvailabilityZones"] = {"AvailabilityZones": found}


def _impaired(account: Answers, plan: ServingPlan) -> None:
    _zone(account, plan, "us-west-2b", State="impaired")


def _zone_missing(account: Answers, plan: ServingPlan) -> None:
    left = [zone for zone in zones(plan.region) if zone["ZoneName"] != "us-west-2b"]
    account["ec2.DescribeAvailabilityZones"] = {"AvailabilityZones": left}
    # Nothing else may be said of a zone that is not there.
    account["ec2.DescribeInstanceTypeOfferings"] = offers(
        ["m7i.xlarge", "g6e.4xlarge"], ["us-west-2a", "us-west-2c", "us-west-2d"]
    )


def _not_opted_in(account: Answers, plan: ServingPlan) -> None:
    _zone(account, plan, "us-west-2b", OptInStatus="not-opted-in")


def _one_zone_offers(account: Answers, plan: ServingPlan) -> None:
    del plan
    both = ["us-west-2a", "us-west-2b"]
    account["ec2.DescribeInstanceTypeOfferings"] = {
        "InstanceTypeOfferings": [
            *offers(["m7i.xlarge"], both)["InstanceTypeOfferings"],
            *offers(["g6e.4xlarge"], both[:1])["InstanceTypeOfferings"],
        ]
    }


def _other_zones_offer(account: Answers, plan: ServingPlan) -> None:
    del plan
    account["ec2.DescribeInstanceTypeOfferings"] = {
        "InstanceTypeOfferings": [
            *offers(["m7i.xlarge"], ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"])[
                "InstanceTypeOfferings"
            ],
            *offers(["g6e.4xlarge"], ["us-west-2c", "us-west-2d"])["InstanceTypeOfferings"],
        ]
    }


def _no_endpoint(account: Answers, plan: ServingPlan) -> None:
    def answer(params: Parameters) -> dict[str, Any]:
        names = [name for name in params["Filters"][0]["Values"] if "eks-auth" not in name]
        return {
            "ServiceDetails": [
                {
                    "ServiceName": name,
                    "AvailabilityZones": ["us-west-2a", "us-west-2c"]
                    if name.endswith("grafana-workspace")
                    else list(plan.network.zones),
                }
                for name in names
            ]
        }

    account["ec2.DescribeVpcEndpointServices"] = answer


# --- quotas --------------------------------------------------------------------------------------


def _new(account: Answers, plan: ServingPlan) -> None:
    """All that a fresh account lacks."""
    del plan
    account |= {
        "service-quotas.ListServiceQuotas": {"Quotas": []},
        "service-quotas.ListAWSDefaultServiceQuotas": _hyperpod(0),
        "service-quotas.GetServiceQuota": lambda params: {
            "Quota": quota("q", 5, params["QuotaCode"])
        },
        "lambda.GetAccountSettings": concurrency(10, 10),
        "ssm.GetParameter": Refused("ParameterNotFound"),
        "sso-admin.ListInstances": {"Instances": []},
        "iam.GetRole": lambda params: _role_or_none(params, "cfn-exec-role"),
    }


def _role_or_none(params: Parameters, missing: str) -> dict[str, Any]:
    if missing in params["RoleName"]:
        raise Refused("NoSuchEntity", status=404)
    return role(params["RoleName"])


def _used_elsewhere(account: Answers, plan: ServingPlan) -> None:
    other = "research"

    def clusters(params: Parameters) -> dict[str, Any]:
        if params["ClusterName"] != other:
            raise Refused("ResourceNotFound")
        found = hyperpod_cluster(plan, other, gpu=9)
        found["InstanceGroups"][0]["TargetCount"] = 9
        return found

    arn = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:cluster/abcdefghijkl"
    account["sagemaker.ListClusters"] = {
        "ClusterSummaries": [
            {
                "ClusterName": other,
                "ClusterArn": arn,
                "CreationTime": NOW,
                "ClusterStatus": "InService",
            }
        ]
    }
    account["sagemaker.DescribeCluster"] = clusters


def _busy_vcpus(account: Answers, plan: ServingPlan) -> None:
    del plan
    machine = {"InstanceType": "c7i.4xlarge", "CpuOptions": {"CoreCount": 8, "ThreadsPerCore": 2}}
    small = {"InstanceType": "t3.xlarge", "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2}}
    gpu = {"InstanceType": "p5.48xlarge", "CpuOptions": {"CoreCount": 96, "ThreadsPerCore": 2}}
    account["ec2.DescribeInstances"] = {
        "Reservations": [{"Instances": [machine] * 5 + [small, gpu]}]
    }


def _plan_arn(config: dict[str, Any]) -> None:
    arn = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-plan/reserved"
    config["instance_groups"][0] = {
        "name": "gpu",
        "instance_type": "ml.p5.48xlarge",
        "count": 2,
        "zone": "us-west-2a",
        "capacity": {"kind": "training_plan", "arn": arn},
    }
    config["models"][0]["tensor_parallel"] = 1


def _training_plan(**fields: Any) -> Callable[[Answers, ServingPlan], None]:
    return _set(sagemaker__DescribeTrainingPlan=lambda params: training_plan(params) | fields)


# --- versions ------------------------------------------------------------------------------------


def _support(status: str, *, ends: dt.datetime) -> Callable[[Answers, ServingPlan], None]:
    return _set(
        eks__DescribeClusterVersions={
            "clusterVersions": [
                supported("1.34", status, ends=ends),
                supported("1.35", ends=NOW + YEAR),
                supported("1.99", ends=NOW + YEAR),
            ]
        }
    )


def _at_1_34(config: dict[str, Any]) -> None:
    config["kubernetes"] = {**config.get("kubernetes", {}), "version": "1.34"}


def _other_versions(account: Answers, plan: ServingPlan) -> None:
    del plan
    version = supported("1.36", ends=NOW + YEAR)
    account["eks.DescribeClusterVersions"] = {"clusterVersions": [version]}


def _addons(offered: Mapping[str, list[str]]) -> Callable[[Answers, ServingPlan], None]:
    def change(account: Answers, plan: ServingPlan) -> None:
        version = plan.cluster.kubernetes_version
        pins = {addon.name: [addon.version or "v1.0.0-eksbuild.1"] for addon in all_addons(plan)}
        pins |= offered

        def answer(params: Parameters) -> dict[str, Any]:
            name = params["addonName"]
            builds = [build(one, version, default=not n) for n, one in enumerate(pins[name])]
            return {"addons": [{"addonName": name, "addonVersions": builds}] if builds else []}

        account["eks.DescribeAddonVersions"] = answer

    return change


def _bootstrap(version: str) -> Callable[[Answers, ServingPlan], None]:
    return _set(ssm__GetParameter={"Parameter": {"Name": "version", "Value": version}})


# --- rights --------------------------------------------------------------------------------------


def _denying(*actions: str, decision: str = "implicitDeny", **more: Any) -> Answer:
    return lambda params: simulated(params, dict.fromkeys(actions, decision), **more)


def _of_nobody(account: Answers, plan: ServingPlan) -> None:
    del plan
    account["sts.GetCallerIdentity"] = {
        "Account": ACCOUNT,
        "Arn": f"arn:aws:iam::{ACCOUNT}:root",
        "UserId": ACCOUNT,
    }


# --- names ---------------------------------------------------------------------------------------


def _after(account: Answers, plan: ServingPlan) -> None:
    """The deployment itself is there."""
    parts = ("network", "cluster", "serving", "observability")
    account |= {
        "cloudformation.DescribeStacks": {"Stacks": [stack(plan.name, part) for part in parts]},
        "sagemaker.ListClusters": {
            "ClusterSummaries": [
                {
                    "ClusterName": plan.cluster.hyperpod_name,
                    "ClusterArn": f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:cluster/0a1b2c3d4e5f",
                    "CreationTime": NOW,
                    "ClusterStatus": "InService",
                }
            ]
        },
        "sagemaker.DescribeCluster": hyperpod_cluster(plan, plan.cluster.hyperpod_name),
        "eks.DescribeCluster": {"cluster": {"name": plan.name}},
        # A quota that its own instances use up.
        "service-quotas.ListServiceQuotas": _hyperpod(2),
        "ec2.DescribeVpcs": {
            "Vpcs": [
                {
                    "VpcId": "vpc-0ours",
                    "CidrBlock": plan.network.vpc_cidr,
                    "Tags": [
                        {"Key": "aws:cloudformation:stack-name", "Value": f"{plan.name}-network"}
                    ],
                }
            ]
        },
        "ec2.DescribeInstances": {
            "Reservations": [
                {
                    "Instances": [
                        {
                            "InstanceType": "m7i.xlarge",
                            "CpuOptions": {"CoreCount": 40, "ThreadsPerCore": 2},
                            "Tags": [{"Key": "eks:cluster-name", "Value": plan.name}],
                        }
                    ]
                }
            ]
        },
    }


def _taken(account: Answers, plan: ServingPlan) -> None:
    account["eks.DescribeCluster"] = {"cluster": {"name": plan.name}}
    account["sagemaker.DescribeCluster"] = hyperpod_cluster(plan, plan.name)


def _kept(account: Answers, plan: ServingPlan) -> None:
    """What a deployment left that is gone."""
    account |= {
        "s3.HeadBucket": {"BucketRegion": plan.region},
        "logs.DescribeLogGroups": lambda params: {
            "logGroups": [{"logGroupName": params["logGroupNamePrefix"]}]
        },
        "amp.ListWorkspaces": {
            "workspaces": [
                {
                    "workspaceId": "ws-1",
                    "alias": plan.name,
                    "arn": f"arn:aws:aps:us-west-2:{ACCOUNT}:workspace/ws-1",
                    "status": {"statusCode": "ACTIVE"},
                    "createdAt": NOW,
                }
            ]
        },
    }


def _stacks(**statuses: str) -> Callable[[Answers, ServingPlan], None]:
    def change(account: Answers, plan: ServingPlan) -> None:
        found = [stack(plan.name, part, status) for part, status in statuses.items()]
        account["cloudformation.DescribeStacks"] = {"Stacks": found}

    return change


def _strange_stack(account: Answers, plan: ServingPlan) -> None:
    found = stack(plan.name, "network") | {"Description": "Somebody's network"}
    account["cloudformation.DescribeStacks"] = {"Stacks": [found]}


def _nameless_stack(account: Answers, plan: ServingPlan) -> None:
    found = stack(plan.name, "network")
    del found["Description"]
    account["cloudformation.DescribeStacks"] = {"Stacks": [found]}


# --- networks and clusters of others -------------------------------------------------------------


def _overlap(account: Answers, plan: ServingPlan) -> None:
    del plan
    account["ec2.DescribeVpcs"] = {"Vpcs": [{"VpcId": "vpc-0office", "CidrBlock": "10.0.0.0/8"}]}
    account["ec2.DescribeVpcPeeringConnections"] = {
        "VpcPeeringConnections": [
            {
                "VpcPeeringConnectionId": "pcx-1",
                "Status": {"Code": "active"},
                "AccepterVpcInfo": {"VpcId": "vpc-0office"},
                "RequesterVpcInfo": {"VpcId": "vpc-0other"},
            }
        ]
    }


def _more_ranges(account: Answers, plan: ServingPlan) -> None:
    existing = plan.network.existing
    assert existing is not None
    cidrs = [plan.network.vpc_cidr, "10.2.0.0/16"]
    account["ec2.DescribeVpcs"] = {
        "Vpcs": [
            {
                "VpcId": existing.vpc_id,
                "CidrBlock": cidrs[0],
                "CidrBlockAssociationSet": [
                    {"CidrBlock": cidr, "CidrBlockState": {"State": "associated"}} for cidr in cidrs
                ],
            }
        ]
    }


def _strange_network(account: Answers, plan: ServingPlan) -> None:
    existing = plan.network.existing
    assert existing is not None
    account["ec2.DescribeVpcs"] = {
        "Vpcs": [{"VpcId": existing.vpc_id, "CidrBlock": "172.16.0.0/16"}]
    }
    account["ec2.DescribeSubnets"] = {
        "Subnets": [
            {
                "SubnetId": existing.private_subnet_ids[0],
                "VpcId": existing.vpc_id,
                "AvailabilityZone": "us-west-2b",
                "CidrBlock": "172.16.0.0/18",
                "AvailableIpAddressCount": 10,
            }
        ]
    }
    account["ec2.DescribeVpcAttribute"] = lambda params: {
        params["Attribute"][0].upper() + params["Attribute"][1:]: {"Value": False}
    }


def _strange_clusters(account: Answers, plan: ServingPlan) -> None:
    account["eks.DescribeCluster"] = {
        "cluster": {
            "name": "platform",
            "version": "1.33",
            "status": "ACTIVE",
            "resourcesVpcConfig": {"clusterSecurityGroupId": "sg-other", "vpcId": "vpc-other"},
            "accessConfig": {"authenticationMode": "CONFIG_MAP"},
        }
    }
    found = hyperpod_cluster(plan, "mine")
    found["InstanceGroups"][0]["InstanceGroupName"] = "another"
    account["sagemaker.DescribeCluster"] = found


def _fewer_nodes(account: Answers, plan: ServingPlan) -> None:
    groups = {group.name: 1 for group in plan.cluster.groups}
    account["sagemaker.DescribeCluster"] = hyperpod_cluster(plan, "mine", **groups)


# --- what is named -------------------------------------------------------------------------------


def _admins(*arns: str) -> Callable[[dict[str, Any]], None]:
    def edit(config: dict[str, Any]) -> None:
        config["kubernetes"] = {"admin_role_arns": list(arns)}

    return edit


def _alarms(config: dict[str, Any]) -> None:
    config["hyperpod"]["software_updates"] = {
        "schedule": "cron(0 3 ? * SUN *)",
        "rollback_alarms": ["loud", "quiet"],
    }


def _own_engine(config: dict[str, Any]) -> None:
    config["images"] = {
        "engine": f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/mirror/engine:v0.5.6",
    }


def _weights(**answers: Answer) -> Callable[[Answers, ServingPlan], None]:
    return _set(**answers)


_ASKING = (
    "bootstrap",
    "rights",
    "zones",
    "instance types",
    "endpoints",
    "hyperpod quotas",
    "ec2 quotas",
    "lambda concurrency",
    "kubernetes version",
    "add-on versions",
    "identity center",
    "stacks",
    "names",
    "ranges",
    "images",
)
"""Rows that ask AWS something of the default configuration."""


ACCOUNTS: Mapping[str, Prepared] = {
    "nothing in the way": Prepared(change=_set(), code=0, rows={}),
    "after the first deployment": Prepared(
        change=_after,
        code=0,
        rows={},
        says=("kascade-cluster is there and will be updated", "made already"),
    ),
    "new account": Prepared(
        change=_new,
        code=1,
        rows={
            "bootstrap": "fail",
            "rights": "warn",
            "hyperpod quotas": "fail",
            "ec2 quotas": "fail",
            "lambda concurrency": "warn",
            "identity center": "fail",
        },
        says=(
            "ml.g6e.4xlarge for cluster usage: 0; group gpu needs 2",
            "ask for 2 in Service Quotas: ml.g6e.4xlarge for cluster usage (code L-00000000)",
            f"run cdk bootstrap aws://{ACCOUNT}/us-west-2",
            "set observability.grafana.auth: saml",
            "ask for 20 in Service Quotas: Running On-Demand Standard",
        ),
    ),
    "quota used by another cluster": Prepared(
        change=_used_elsewhere,
        code=1,
        rows={"hyperpod quotas": "fail"},
        says=("10 of which 9 are used; group gpu needs 2", "ask for 11 in Service Quotas"),
    ),
    "no quota for spot": Prepared(
        change=_set(service_quotas__ListServiceQuotas=_hyperpod(2)),
        config="spot",
        code=1,
        rows={"hyperpod quotas": "fail"},
        says=(
            "ml.g6e.4xlarge for cluster spot instance usage: 0",
            f"ask for 2 in Service Quotas: {ALL_SPOT}",
        ),
    ),
    "quota for the second type alone": Prepared(
        change=_set(service_quotas__ListServiceQuotas=_hyperpod(2, spot=2)),
        config="spot",
        code=0,
        rows={"hyperpod quotas": "warn"},
        says=("without ml.g6e.8xlarge",),
    ),
    "quota for some of Karpenter's instances": Prepared(
        change=lambda account, _: account.update(
            {
                "service-quotas.ListServiceQuotas": _quotas(
                    **{
                        cluster_quota(G6E, spot=False): 1,
                        cluster_quota("ml.g6e.12xlarge", spot=False): 1,
                        PER_CLUSTER: 20,
                        ALL_CLUSTERS: 20,
                        VOLUME: 1024,
                    }
                )
            }
        ),
        config="karpenter",
        code=0,
        rows={"hyperpod quotas": "warn"},
        says=("needs 3 at most, of which 1 can come", "ask for 3 in Service Quotas"),
    ),
    "training plan that begins tomorrow": Prepared(
        change=_training_plan(Status="Scheduled"),
        edit=_plan_arn,
        code=0,
        rows={"training plans": "warn"},
        says=("expect no instance before it begins",),
    ),
    "training plan of one instance": Prepared(
        change=_training_plan(TotalInstanceCount=1),
        edit=_plan_arn,
        code=1,
        rows={"training plans": "fail"},
        says=("reserved is Active with 1 instances; the plan needs 2",),
    ),
    "busy account": Prepared(
        change=_busy_vcpus,
        code=0,
        rows={"ec2 quotas": "warn"},
        says=("100 vCPUs on demand, 84 used",),
    ),
    "five VPCs of five": Prepared(
        change=_set(
            service_quotas__GetServiceQuota=lambda params: {
                "Quota": quota("q", 5 if params["QuotaCode"] == "L-F678F1CE" else 100)
            },
            ec2__DescribeVpcs={
                "Vpcs": [
                    {"VpcId": f"vpc-{n}", "CidrBlock": f"172.{n + 16}.0.0/16"} for n in range(5)
                ]
            },
        ),
        code=1,
        rows={"ec2 quotas": "fail"},
        says=("VPCs per Region: 5, 5 used; the plan needs 1", "ask for 6", "L-F678F1CE"),
    ),
    "concurrency reserved by others": Prepared(
        change=_set(lambda__GetAccountSettings=concurrency(100, 9)),
        code=1,
        rows={"lambda concurrency": "fail"},
        says=("9 of 100 executions at once are free", "L-B99A9384"),
    ),
    "a zone without EKS": Prepared(
        change=_set(),
        edit=_in_virginia,
        code=1,
        rows={"zones": "fail"},
        says=(
            "us-east-1c is use1-az3 here, where EKS puts no control plane",
            "set zones to [us-east-1a, us-east-1d]",
        ),
    ),
    "a zone that is not there": Prepared(
        change=_zone_missing,
        code=1,
        rows={"zones": "fail", "instance types": "warn"},
        says=("the account has no zone us-west-2b", "set zones to [us-west-2a, us-west-2c]"),
    ),
    "a zone not enabled": Prepared(
        change=_not_opted_in, code=1, rows={"zones": "fail"}, says=("us-west-2b is not enabled",)
    ),
    "a zone in trouble": Prepared(
        change=_impaired, code=0, rows={"zones": "warn"}, says=("us-west-2b is impaired",)
    ),
    "a type in one zone": Prepared(
        change=_one_zone_offers,
        code=0,
        rows={"instance types": "warn"},
        says=("ml.g6e.4xlarge in us-west-2a",),
    ),
    "a type in other zones": Prepared(
        change=_other_zones_offer,
        code=1,
        rows={"instance types": "fail"},
        says=(
            "us-west-2a, us-west-2b offer no ml.g6e.4xlarge, which group gpu needs",
            "set zones to [us-west-2c, us-west-2d]",
        ),
    ),
    "endpoints missing": Prepared(
        change=_no_endpoint,
        code=1,
        rows={"endpoints": "fail"},
        says=(
            "the region has no endpoint service eks-auth",
            "grafana-workspace is not in us-west-2b",
        ),
    ),
    "extended support": Prepared(
        change=_support("EXTENDED_SUPPORT", ends=NOW - YEAR),
        edit=_at_1_34,
        code=0,
        rows={"kubernetes version": "warn"},
        says=("0.60 USD/h instead of 0.10", 'set kubernetes.version: "1.35"'),
    ),
    "support that ends soon": Prepared(
        change=_support("STANDARD_SUPPORT", ends=NOW + dt.timedelta(days=2)),
        edit=_at_1_34,
        code=0,
        rows={"kubernetes version": "warn"},
        says=('set kubernetes.version: "1.35"',),
    ),
    "a version that is gone": Prepared(
        change=_other_versions,
        code=1,
        rows={"kubernetes version": "fail"},
        says=("1.35 is on offer no more",),
    ),
    "a pin that is gone": Prepared(
        change=_addons({"coredns": ["v1.14.3-eksbuild.4", "v1.14.3-eksbuild.2"]}),
        code=1,
        rows={"add-on versions": "fail"},
        says=(
            "does not offer coredns v1.14.3-eksbuild.3 for Kubernetes 1.35",
            "pin v1.14.3-eksbuild.4",
        ),
    ),
    "an add-on that is not offered": Prepared(
        change=_addons({"aws-mountpoint-s3-csi-driver": []}),
        config="weights",
        code=1,
        rows={"add-on versions": "fail"},
        says=("EKS offers no aws-mountpoint-s3-csi-driver",),
    ),
    "a pin that is old": Prepared(
        change=_addons({"aws-ebs-csi-driver": ["v1.90.0-eksbuild.1", "v1.61.1-eksbuild.1"]}),
        code=0,
        rows={"add-on versions": "warn"},
        says=("EKS's default is newer: v1.90.0-eksbuild.1",),
    ),
    "bootstrap of years ago": Prepared(
        change=_bootstrap("5"), code=1, rows={"bootstrap": "fail"}, says=("version 5",)
    ),
    "bootstrap without a lookup role": Prepared(
        change=_bootstrap("7"), code=0, rows={"bootstrap": "warn"}, says=("make diff for 8",)
    ),
    "may take on no role": Prepared(
        change=_set(
            iam__SimulatePrincipalPolicy=_denying(
                "sts:AssumeRole", "cloudformation:CreateChangeSet"
            )
        ),
        code=1,
        rows={"rights": "fail"},
        says=(
            "Deployer may not take on",
            "nor cloudformation:CreateChangeSet",
            f"allow arn:aws:iam::{ACCOUNT}:role/Deployer sts:AssumeRole",
        ),
    ),
    "goes on with rights of its own": Prepared(
        change=_set(iam__SimulatePrincipalPolicy=_denying("sts:AssumeRole")),
        code=0,
        rows={"rights": "warn"},
        says=("the caller's own rights",),
    ),
    "forbidden by the organization": Prepared(
        change=_set(
            iam__SimulatePrincipalPolicy=_denying(
                "sagemaker:CreateCluster",
                OrganizationsDecisionDetail={"AllowedByOrganizations": False},
            )
        ),
        code=1,
        rows={"rights": "fail"},
        says=("may not sagemaker:CreateCluster: the organization forbids it",),
    ),
    "the root user": Prepared(
        change=_of_nobody, code=0, rows={"rights": "warn"}, says=("cannot be simulated",)
    ),
    "another account": Prepared(
        change=_set(),
        edit=lambda config: config.update(account="444455556666"),
        code=1,
        rows={"identity": "fail"},
        says=("the configuration is for 444455556666",),
    ),
    "Identity Center in the making": Prepared(
        change=_set(
            sso_admin__ListInstances={
                "Instances": [
                    {
                        "InstanceArn": "arn:aws:sso:::instance/ssoins-1234567890abcdef",
                        "Status": "CREATE_IN_PROGRESS",
                    }
                ]
            }
        ),
        code=0,
        rows={"identity center": "warn"},
    ),
    "an admin role that is not there": Prepared(
        change=_set(iam__GetRole=lambda params: _role_or_none(params, "Admin")),
        edit=_admins(f"arn:aws:iam::{ACCOUNT}:role/Admin"),
        code=1,
        rows={"admin roles": "fail"},
        says=("there is no role Admin",),
    ),
    "an admin role of another account": Prepared(
        change=_set(),
        edit=_admins("arn:aws:iam::444455556666:role/Admin"),
        code=0,
        rows={"admin roles": "warn"},
    ),
    "names taken": Prepared(
        change=_taken,
        code=1,
        rows={"names": "fail"},
        says=("there is an EKS cluster kascade", "there is a HyperPod cluster kascade"),
    ),
    "a deployment left things": Prepared(
        change=_kept,
        code=0,
        rows={"names": "warn"},
        says=("log group /aws/eks/kascade/cluster is there already", "two of that name"),
    ),
    "a stack that rolled back": Prepared(
        change=_stacks(network="CREATE_COMPLETE", cluster="ROLLBACK_COMPLETE"),
        code=1,
        rows={"stacks": "fail"},
        says=("delete-stack --stack-name kascade-cluster",),
    ),
    "a stack that is stuck": Prepared(
        change=_stacks(network="UPDATE_ROLLBACK_FAILED"),
        code=1,
        rows={"stacks": "fail"},
        says=("continue-update-rollback",),
    ),
    "a deployment under way": Prepared(
        change=_stacks(network="UPDATE_IN_PROGRESS"), code=0, rows={"stacks": "warn"}
    ),
    "somebody's stack": Prepared(
        change=_strange_stack, code=1, rows={"stacks": "fail"}, says=("of something else",)
    ),
    "a stack of no description": Prepared(
        change=_nameless_stack, code=1, rows={"stacks": "fail"}, says=("of something else",)
    ),
    "overlapping ranges": Prepared(
        change=_overlap,
        code=0,
        rows={"ranges": "warn"},
        says=("vpc-0office (10.0.0.0/8) overlaps 10.0.0.0/16", "connected to other networks"),
    ),
    "an existing VPC with another range": Prepared(
        change=_more_ranges,
        config="existing",
        code=0,
        rows={"existing network": "warn"},
        says=("further_cidrs: [10.2.0.0/16]",),
    ),
    "an existing VPC that is another": Prepared(
        change=_strange_network,
        config="existing",
        code=1,
        rows={"existing network": "fail"},
        says=(
            "set network.vpc_cidr: 172.16.0.0/16",
            "in us-west-2b, not us-west-2a",
            "turn them on",
        ),
    ),
    "an existing VPC with Grafana's endpoint": Prepared(
        change=_set(
            ec2__DescribeVpcEndpoints={
                "VpcEndpoints": [
                    {
                        "VpcEndpointId": "vpce-1",
                        "ServiceName": "com.amazonaws.us-west-2.grafana-workspace",
                        "PrivateDnsEnabled": True,
                    }
                ]
            }
        ),
        config="existing",
        code=1,
        rows={"existing network": "fail"},
        says=("has vpce-1 for com.amazonaws.us-west-2.grafana-workspace already",),
    ),
    "an existing cluster that lacks an add-on": Prepared(
        change=_set(eks__ListAddons={"addons": ["vpc-cni", "kube-proxy", "coredns"]}),
        config="existing",
        code=0,
        rows={"existing clusters": "warn"},
        says=("platform has no add-on aws-ebs-csi-driver, eks-pod-identity-agent",),
    ),
    "existing clusters that are others": Prepared(
        change=_strange_clusters,
        config="existing",
        code=1,
        rows={"existing clusters": "fail"},
        says=("version 1.33, not 1.34", "no group worker-group-1, only another", "CONFIG_MAP"),
    ),
    "an existing cluster with fewer nodes": Prepared(
        change=_fewer_nodes,
        config="existing",
        code=0,
        rows={"existing clusters": "warn"},
        says=("has 1 instances, and the plan counts on 2", "set count: 1"),
    ),
    "a key that is disabled": Prepared(
        change=_set(kms__DescribeKey=lambda params: key(params["KeyId"], "PendingDeletion")),
        config="weights",
        code=1,
        rows={"keys": "fail"},
        says=("is PendingDeletion",),
    ),
    "weights in another region": Prepared(
        change=_set(s3__HeadBucket=lambda params: _bucket(params, "eu-west-1")),
        config="weights",
        code=1,
        rows={"weights": "fail"},
        says=("is in eu-west-1, not in us-west-2",),
    ),
    "weights one folder too deep": Prepared(
        change=_set(
            s3__ListObjectsV2=lambda params: {
                "Contents": [{"Key": f"{params['Prefix']}snapshot/config.json"}]
            }
        ),
        config="weights",
        code=0,
        rows={"weights": "warn"},
        says=("has no config.json",),
    ),
    "weights not uploaded": Prepared(
        change=_set(s3__ListObjectsV2={"KeyCount": 0}),
        config="weights",
        code=1,
        rows={"weights": "fail"},
        says=("nothing lies in",),
    ),
    "an alarm that is not there": Prepared(
        change=_set(
            cloudwatch__DescribeAlarms={
                "MetricAlarms": [{"AlarmName": "quiet", "StateValue": "OK"}]
            }
        ),
        edit=_alarms,
        code=1,
        rows={"alarms": "fail"},
        says=("there is no alarm loud",),
    ),
    "an alarm going off": Prepared(
        change=_set(
            cloudwatch__DescribeAlarms=lambda params: {
                "MetricAlarms": [
                    {"AlarmName": name, "StateValue": "ALARM" if name == "loud" else "OK"}
                    for name in params["AlarmNames"]
                ]
            }
        ),
        edit=_alarms,
        code=0,
        rows={"alarms": "warn"},
        says=("loud is going off",),
    ),
    "an image not pushed": Prepared(
        change=lambda account, _: account.update({"ecr.BatchGetImage": _only_of_others}),
        edit=_own_engine,
        code=1,
        rows={"images": "fail"},
        says=("mirror/engine:v0.5.6",),
    ),
    "no rights at all": Prepared(
        change=_everything(DENIED),
        code=0,
        rows=dict.fromkeys(
            (
                "bootstrap",
                "rights",
                "zones",
                "instance types",
                "endpoints",
                "hyperpod quotas",
                "ec2 quotas",
                "lambda concurrency",
                "kubernetes version",
                "add-on versions",
                "identity center",
                "stacks",
                "names",
                "ranges",
                "images",
            ),
            "warn",
        ),
        says=(
            "the right servicequotas:ListServiceQuotas is missing",
            "the right sso:ListInstances",
            "the right servicequotas:GetServiceQuota is missing",
        ),
    ),
}


def _bucket(params: Parameters, region: str) -> dict[str, Any]:
    if params["Bucket"].startswith(("sagemaker-", "hyperpod-")):
        raise Refused("404", status=404)
    return {"BucketRegion": region}


def _only_of_others(params: Parameters) -> dict[str, Any]:
    images = [{"imageId": one} for one in params["imageIds"]]
    if params["registryId"] != ACCOUNT:
        return {"images": images, "failures": []}
    failure = {
        "imageId": params["imageIds"][0],
        "failureCode": "ImageNotFound",
        "failureReason": "Requested image not found",
    }
    return {"images": [], "failures": [failure]}


TROUBLE: Mapping[str, tuple[Answer, str]] = {
    "a missing right": (DENIED, "is missing"),
    "too many requests": (THROTTLED, "too many requests"),
    "no network": (Unreachable(), "did not answer"),
    "not implemented": (Refused("InvalidAction", "not here", status=501), "rejected"),
}
"""What any call may come to, and what the row has to say."""
