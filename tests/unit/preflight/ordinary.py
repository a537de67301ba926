"""An account in which nothing is in the way of a plan; others are made from it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from kascade.catalog.quotas import (
    ALL_CLUSTERS,
    ALL_SPOT,
    PER_CLUSTER,
    VOLUME,
    cluster_quota,
)
from kascade.catalog.regions import REGIONS
from kascade.plan import ServingPlan
from kascade.sizing.account import all_addons
from tests.unit.preflight.played import Answer, Parameters, Refused

ACCOUNT = "111122223333"
CALLER = f"arn:aws:sts::{ACCOUNT}:assumed-role/Deployer/somebody"
YEAR = dt.timedelta(days=365)
NOW = dt.datetime.now(dt.UTC)


def zone_id(name: str) -> str:
    """Letters are numbers here; no account's need be so."""
    short = {"us-west-2": "usw2", "us-east-1": "use1"}.get(name[:-1], "eun1")
    return f"{short}-az{'abcdef'.index(name[-1]) + 1}"


def zones(region: str) -> list[dict[str, Any]]:
    return [
        {
            "ZoneName": name,
            "ZoneId": zone_id(name),
            "State": "available",
            "OptInStatus": "opt-in-not-required",
            "ZoneType": "availability-zone",
        }
        for name in REGIONS[region].zones
    ]


def offers(types: list[str], places: list[str]) -> dict[str, Any]:
    return {
        "InstanceTypeOfferings": [
            {"InstanceType": kind, "LocationType": "availability-zone", "Location": place}
            for kind in types
            for place in places
        ]
    }


def quota(name: str, value: float, code: str = "L-00000001", service: str = "") -> dict[str, Any]:
    return {
        "QuotaName": name,
        "QuotaCode": code,
        "Value": value,
        **({"ServiceCode": service} if service else {}),
    }


def role(name: str, path: str = "/") -> dict[str, Any]:
    return {
        "Role": {
            "RoleName": name,
            "RoleId": "AROA1234567890123456",
            "Path": path,
            "Arn": f"arn:aws:iam::{ACCOUNT}:role{path}{name}",
            "CreateDate": NOW,
        }
    }


def allowed(params: Parameters) -> dict[str, Any]:
    return simulated(params, {})


def simulated(params: Parameters, denied: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Simulate rights.

    Args:
        params: What was asked.
        denied: Decisions by action.
        more: Fields of each result that is denied.
    """
    results = []
    for action in params["ActionNames"]:
        decision = denied.get(action, "allowed")
        places = params.get("ResourceArns") or []
        results.append(
            {
                "EvalActionName": action,
                "EvalResourceName": places[0] if places else "*",
                "EvalDecision": decision,
                "ResourceSpecificResults": [
                    {"EvalResourceName": place, "EvalResourceDecision": decision}
                    for place in places
                ],
                **(more if decision != "allowed" else {}),
            }
        )
    return {"EvaluationResults": results, "IsTruncated": False}


def build(version: str, kubernetes: str, *, default: bool = False) -> dict[str, Any]:
    return {
        "addonVersion": version,
        "compatibilities": [{"clusterVersion": kubernetes, "defaultVersion": default}],
    }


def supported(
    version: str, status: str = "STANDARD_SUPPORT", *, ends: dt.datetime
) -> dict[str, Any]:
    return {"clusterVersion": version, "versionStatus": status, "endOfStandardSupportDate": ends}


def ordinary(plan: ServingPlan) -> dict[str, Answer]:  # noqa: C901 - one answer after another
    """Return every answer."""
    types = {plan.cluster.system_group.instance_type}
    quotas = [quota(PER_CLUSTER, 20), quota(ALL_CLUSTERS, 40), quota(VOLUME, 1024)]
    quotas += [quota(ALL_SPOT, 40)]
    for group in plan.cluster.groups:
        types |= {kind.removeprefix("ml.") for kind in group.instance_types}
        for kind in group.instance_types:
            for spot in (False, True):
                quotas.append(quota(cluster_quota(kind, spot=spot), 10, f"L-{len(quotas):08d}"))
    addons = {addon.name: [addon.version or "v1.0.0-eksbuild.1"] for addon in all_addons(plan)}
    version = plan.cluster.kubernetes_version
    network = plan.network
    existing = network.existing

    def endpoint_services(params: Parameters) -> dict[str, Any]:
        names = params["Filters"][0]["Values"]
        return {
            "ServiceDetails": [
                {"ServiceName": name, "AvailabilityZones": list(REGIONS[plan.region].zones)}
                for name in names
            ]
        }

    def vpcs(params: Parameters) -> dict[str, Any]:
        found: list[dict[str, Any]] = [{"VpcId": "vpc-0default", "CidrBlock": "172.31.0.0/16"}]
        if existing is not None:
            mine: dict[str, Any] = {
                "VpcId": existing.vpc_id,
                "CidrBlock": network.vpc_cidr,
                "CidrBlockAssociationSet": [
                    {"CidrBlock": cidr, "CidrBlockState": {"State": "associated"}}
                    for cidr in network.vpc_cidrs
                ],
            }
            found = [mine] if params.get("VpcIds") else [*found, mine]
        return {"Vpcs": found}

    def subnets(_: Parameters) -> dict[str, Any]:
        if existing is None:
            return {"Subnets": []}
        stated = zip(existing.private_subnet_ids, network.zones, network.private_cidrs, strict=True)
        return {
            "Subnets": [
                {
                    "SubnetId": name,
                    "VpcId": existing.vpc_id,
                    "AvailabilityZone": zone,
                    "CidrBlock": cidr,
                    "AvailableIpAddressCount": 4000,
                }
                for name, zone, cidr in stated
            ]
        }

    def attribute(params: Parameters) -> dict[str, Any]:
        name = params["Attribute"]
        return {name[0].upper() + name[1:]: {"Value": True}, "VpcId": params["VpcId"]}

    def security_groups(params: Parameters) -> dict[str, Any]:
        names = params["Filters"][0]["Values"]
        where = existing.vpc_id if existing else "vpc-none"
        return {"SecurityGroups": [{"GroupId": name, "VpcId": where} for name in names]}

    def eks_cluster(params: Parameters) -> dict[str, Any]:
        theirs = plan.cluster.existing
        if theirs is None or existing is None:
            raise Refused("ResourceNotFoundException", status=404)
        return {
            "cluster": {
                "name": params["name"],
                "version": version,
                "status": "ACTIVE",
                "resourcesVpcConfig": {
                    "clusterSecurityGroupId": theirs.security_group_id,
                    "vpcId": existing.vpc_id,
                },
                "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
            }
        }

    def hyperpod(params: Parameters) -> dict[str, Any]:
        theirs = plan.cluster.existing
        if theirs is None or theirs.hyperpod_arn is None:
            raise Refused("ResourceNotFound")
        return hyperpod_cluster(plan, params["ClusterName"])

    def bucket(params: Parameters) -> dict[str, Any]:
        if params["Bucket"] in {access.bucket for access in plan.cluster.weights}:
            return {"BucketRegion": plan.region}
        raise Refused("404", status=404)

    def addon_versions(params: Parameters) -> dict[str, Any]:
        name = params["addonName"]
        builds = [build(one, version, default=not n) for n, one in enumerate(addons[name])]
        return {"addons": [{"addonName": name, "addonVersions": builds}]}

    def images(params: Parameters) -> dict[str, Any]:
        return {"images": [{"imageId": one} for one in params["imageIds"]], "failures": []}

    def get_role(params: Parameters) -> dict[str, Any]:
        name = params["RoleName"]
        if name.startswith("SageMakerHyperPodInference"):
            raise Refused("NoSuchEntity", status=404)
        return role(name)

    def alarms(params: Parameters) -> dict[str, Any]:
        names = params["AlarmNames"]
        found = [{"AlarmName": name, "StateValue": "OK"} for name in names]
        return {"MetricAlarms": found, "CompositeAlarms": []}

    theirs_addons: list[str] = []
    if plan.cluster.existing is not None:
        theirs_addons = [
            "vpc-cni",
            "kube-proxy",
            "coredns",
            "eks-pod-identity-agent",
            "aws-ebs-csi-driver",
        ]
    return {
        "sts.GetCallerIdentity": {"Account": ACCOUNT, "Arn": CALLER, "UserId": "AROA:somebody"},
        "ssm.GetParameter": {"Parameter": {"Name": "version", "Value": "25"}},
        "iam.GetRole": get_role,
        "iam.SimulatePrincipalPolicy": allowed,
        "ec2.DescribeAvailabilityZones": {"AvailabilityZones": zones(plan.region)},
        "ec2.DescribeInstanceTypeOfferings": offers(
            sorted(types), list(REGIONS[plan.region].zones)
        ),
        "ec2.DescribeVpcEndpointServices": endpoint_services,
        "ec2.DescribeInstances": {"Reservations": []},
        "ec2.DescribeVpcs": vpcs,
        "ec2.DescribeAddresses": {"Addresses": []},
        "ec2.DescribeSubnets": subnets,
        "ec2.DescribeNatGateways": {"NatGateways": []},
        "ec2.DescribeVpcEndpoints": {"VpcEndpoints": []},
        "ec2.DescribeVpcAttribute": attribute,
        "ec2.DescribeSecurityGroups": security_groups,
        "ec2.DescribeVpcPeeringConnections": {"VpcPeeringConnections": []},
        "service-quotas.ListServiceQuotas": {"Quotas": quotas},
        "service-quotas.ListAWSDefaultServiceQuotas": {"Quotas": []},
        "service-quotas.GetServiceQuota": lambda params: {
            "Quota": quota("a quota", 100, params["QuotaCode"])
        },
        "service-quotas.GetAWSDefaultServiceQuota": Refused("NoSuchResourceException"),
        "sagemaker.ListClusters": {"ClusterSummaries": []},
        "sagemaker.DescribeCluster": hyperpod,
        "sagemaker.DescribeTrainingPlan": training_plan,
        "lambda.GetAccountSettings": concurrency(1000, 1000),
        "eks.DescribeClusterVersions": {
            "clusterVersions": [
                supported(name, ends=NOW + YEAR) for name in ("1.33", "1.34", "1.35")
            ]
        },
        "eks.DescribeAddonVersions": addon_versions,
        "eks.DescribeCluster": eks_cluster,
        "eks.ListAddons": {"addons": theirs_addons},
        "sso-admin.ListInstances": {
            "Instances": [
                {
                    "InstanceArn": "arn:aws:sso:::instance/ssoins-1234567890abcdef",
                    "Status": "ACTIVE",
                }
            ]
        },
        "cloudformation.DescribeStacks": Refused("ValidationError", "no such stack"),
        "cloudformation.GetTemplateSummary": {},
        "s3.HeadBucket": bucket,
        "s3.ListObjectsV2": lambda params: {
            "Contents": [{"Key": f"{params['Prefix']}config.json", "Size": 1}]
        },
        "logs.DescribeLogGroups": {"logGroups": []},
        "amp.ListWorkspaces": {"workspaces": []},
        "grafana.ListWorkspaces": {"workspaces": []},
        "kms.DescribeKey": lambda params: key(params["KeyId"], "Enabled"),
        "cloudwatch.DescribeAlarms": alarms,
        "ecr.BatchGetImage": images,
    }


def key(arn: str, state: str) -> dict[str, Any]:
    return {"KeyMetadata": {"KeyId": arn.rpartition("/")[2], "Arn": arn, "KeyState": state}}


def concurrency(total: int, free: int) -> dict[str, Any]:
    return {"AccountLimit": {"ConcurrentExecutions": total, "UnreservedConcurrentExecutions": free}}


def training_plan(params: Parameters) -> dict[str, Any]:
    return {
        "TrainingPlanArn": f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-plan/"
        + params["TrainingPlanName"],
        "TrainingPlanName": params["TrainingPlanName"],
        "Status": "Active",
        "TotalInstanceCount": 2,
        "TargetResources": ["hyperpod-cluster"],
        "StartTime": NOW,
    }


def hyperpod_cluster(plan: ServingPlan, name: str, **counts: int) -> dict[str, Any]:
    """Describe the plan's HyperPod cluster.

    Args:
        plan: The plan.
        name: Its name, or its ARN.
        counts: Instances by group, where they are not the plan's.
    """
    return {
        "ClusterName": name.rpartition("/")[2],
        "ClusterArn": f"arn:aws:sagemaker:{plan.region}:{ACCOUNT}:cluster/0a1b2c3d4e5f",
        "ClusterStatus": "InService",
        "Orchestrator": {
            "Eks": {
                "ClusterArn": f"arn:aws:eks:{plan.region}:{ACCOUNT}:cluster/{plan.cluster.eks_name}"
            }
        },
        "InstanceGroups": [
            {
                "InstanceGroupName": group.name,
                "InstanceType": group.instance_type,
                "CurrentCount": counts.get(group.name, group.count),
                "TargetCount": group.count,
            }
            for group in plan.cluster.groups
        ],
    }


def stack(name: str, part: str, status: str = "CREATE_COMPLETE", **more: Any) -> dict[str, Any]:
    return {
        "StackName": f"{name}-{part}",
        "StackStatus": status,
        "CreationTime": NOW,
        "Description": f"Kascade {name}: {part}",
        **more,
    }
