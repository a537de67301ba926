"""The three stacks, read as the templates that CloudFormation gets."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kascade.errors import KascadeError
from kascade.plan import AddonPlan, BucketAccess
from tests.unit.aws.builders import (
    Synthesis,
    make_cluster_plan,
    make_group,
    make_network_plan,
    make_plan,
    synthesize,
)

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
HYPERPOD = "AWS::SageMaker::Cluster"


def references(value: Any) -> set[str]:
    """Logical ids that a value refers to."""
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    if set(value) == {"Ref"}:
        return {value["Ref"]}
    if set(value) == {"Fn::GetAtt"}:
        return {value["Fn::GetAtt"][0]}
    return set().union(*map(references, value.values()))


def needs(synthesis: Synthesis, stack: str, name: str) -> set[str]:
    """All resources that must exist before one, directly or not."""
    resources = synthesis.templates[stack]["Resources"]
    found: set[str] = set()
    waiting = [name]
    while waiting:
        resource = resources[waiting.pop()]
        near = references(resource.get("Properties")) | set(resource.get("DependsOn", []))
        new = (near & resources.keys()) - found
        found |= new
        waiting += new
    return found


def types(synthesis: Synthesis, stack: str, names: set[str]) -> set[str]:
    return {synthesis.templates[stack]["Resources"][name]["Type"] for name in names}


def the_name(synthesis: Synthesis, stack: str, kind: str) -> str:
    (name,) = synthesis.resources(stack, kind)
    return name


# --- All stacks --------------------------------------------------------------------------------


def test_synthesis_asks_aws_for_nothing(synthesis: Synthesis) -> None:
    manifest = json.loads((synthesis.directory / "manifest.json").read_text(encoding="utf-8"))
    assert not manifest.get("missing")
    environments = {
        artifact["environment"]
        for artifact in manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert environments == {"aws://unknown-account/us-west-2"}


def test_an_account_in_the_plan_changes_nothing_about_that(tmp_path: Path) -> None:
    synthesis = synthesize(tmp_path, make_plan(account="111122223333"))
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert not manifest.get("missing")
    bucket = synthesis.only("cluster", "AWS::S3::Bucket")
    assert bucket["Properties"]["BucketName"] == "sagemaker-demo-lifecycle-111122223333-us-west-2"


def test_two_syntheses_are_equal(synthesis: Synthesis, tmp_path: Path) -> None:
    synthesize(tmp_path, make_plan())
    for path in sorted(synthesis.directory.glob("*.json")):
        if path.name not in {"manifest.json", "tree.json"}:
            assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_stack_tags_come_from_the_plan(synthesis: Synthesis) -> None:
    manifest = json.loads((synthesis.directory / "manifest.json").read_text(encoding="utf-8"))
    stack = manifest["artifacts"]["demo-cluster"]["properties"]
    assert stack["tags"] == {"team": "serving"}
    assert stack["terminationProtection"] is False


@pytest.mark.parametrize("stack", ["network", "cluster"])
def test_every_function_and_log_group_has_an_end_to_its_logs(
    synthesis: Synthesis, stack: str
) -> None:
    for group in synthesis.resources(stack, "AWS::Logs::LogGroup").values():
        assert group["Properties"]["RetentionInDays"] == 30
        assert group["DeletionPolicy"] == "Delete"
    functions = synthesis.resources(stack, "AWS::Lambda::Function")
    assert functions
    for name, function in functions.items():
        assert "LogGroup" in function["Properties"]["LoggingConfig"], name


# --- Network -----------------------------------------------------------------------------------


def test_subnets_get_the_addresses_and_zones_of_the_plan(synthesis: Synthesis) -> None:
    plan = make_network_plan()
    subnets = [s["Properties"] for s in synthesis.resources("network", "AWS::EC2::Subnet").values()]
    assert [(s["AvailabilityZone"], s["CidrBlock"]) for s in subnets] == [
        pair
        for cidrs in (plan.public_cidrs, plan.private_cidrs, plan.collector_cidrs)
        for pair in zip(plan.zones, cidrs, strict=True)
    ]
    assert not any(subnet["MapPublicIpOnLaunch"] for subnet in subnets)
    balancer = {"Key": "kubernetes.io/role/internal-elb", "Value": "1"}
    tagged = [subnet["CidrBlock"] for subnet in subnets if balancer in subnet["Tags"]]
    assert tagged == list(plan.private_cidrs)
    assert len(synthesis.resources("network", "AWS::EC2::NatGateway")) == 1


def test_a_further_zone_moves_no_subnet(synthesis: Synthesis, tmp_path: Path) -> None:
    whole = make_network_plan()
    fewer = {
        field: getattr(whole, field)[:2]
        for field in ("zones", "private_cidrs", "public_cidrs", "collector_cidrs")
    }
    before = synthesize(tmp_path, make_plan(network=make_network_plan(**fewer)))
    after = synthesis.resources("network", "AWS::EC2::Subnet")
    for name, subnet in before.resources("network", "AWS::EC2::Subnet").items():
        assert after[name]["Properties"]["CidrBlock"] == subnet["Properties"]["CidrBlock"]


def test_nodes_reach_each_other_by_rules_stated_both_ways(synthesis: Synthesis) -> None:
    group = {"Fn::GetAtt": ["NetworkNodeSecurityGroup642EFBE4", "GroupId"]}
    for direction, peer in (("Ingress", "Source"), ("Egress", "Destination")):
        rule = synthesis.only("network", f"AWS::EC2::SecurityGroup{direction}")["Properties"]
        assert rule["IpProtocol"] == "-1"
        assert rule["GroupId"] == rule[f"{peer}SecurityGroupId"] == group


def test_endpoints_admit_https_from_the_vpc_only(synthesis: Synthesis) -> None:
    endpoints = synthesis.resources("network", "AWS::EC2::VPCEndpoint").values()
    kinds = sorted(e["Properties"]["VpcEndpointType"] for e in endpoints)
    assert kinds == ["Gateway", "Interface", "Interface", "Interface"]
    (group,) = (
        g["Properties"]
        for name, g in synthesis.resources("network", "AWS::EC2::SecurityGroup").items()
        if "Endpoint" in name
    )
    (rule,) = group["SecurityGroupIngress"]
    assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == ("10.0.0.0/16", 443, 443)


def test_without_nat_gateways_there_is_no_way_out(synthesis: Synthesis, tmp_path: Path) -> None:
    network = make_network_plan(nat_gateways=0, public_cidrs=())
    closed = synthesize(tmp_path, make_plan(network=network))
    for kind in ("AWS::EC2::NatGateway", "AWS::EC2::InternetGateway", "AWS::EC2::EIP"):
        assert not closed.resources("network", kind)
    kept = closed.resources("network", "AWS::EC2::Subnet")
    before = synthesis.resources("network", "AWS::EC2::Subnet")
    assert len(kept) == 6
    for name, subnet in kept.items():  # opening the network later must not move a subnet
        assert subnet["Properties"]["CidrBlock"] == before[name]["Properties"]["CidrBlock"]


def test_without_observability_there_is_no_collector_subnet(tmp_path: Path) -> None:
    plan = make_plan(network=make_network_plan(collector_cidrs=()))
    subnets = synthesize(tmp_path, plan).resources("network", "AWS::EC2::Subnet")
    assert len(subnets) == 6


# --- EKS ---------------------------------------------------------------------------------------


def test_the_api_server_is_private_unless_networks_are_listed(
    synthesis: Synthesis, tmp_path: Path
) -> None:
    config = synthesis.only("cluster", "AWS::EKS::Cluster")["Properties"]["ResourcesVpcConfig"]
    assert config["EndpointPrivateAccess"] is True
    assert config["EndpointPublicAccess"] is False
    plan = make_plan(cluster=make_cluster_plan(public_access_cidrs=("192.0.2.0/24",)))
    opened = synthesize(tmp_path, plan).only("cluster", "AWS::EKS::Cluster")
    config = opened["Properties"]["ResourcesVpcConfig"]
    assert config["EndpointPrivateAccess"] is True
    assert config["PublicAccessCidrs"] == ["192.0.2.0/24"]


def test_eks_runs_no_auto_mode_and_keeps_all_five_logs(synthesis: Synthesis) -> None:
    cluster = synthesis.only("cluster", "AWS::EKS::Cluster")["Properties"]
    assert cluster["AccessConfig"]["AuthenticationMode"] == "API"
    assert cluster["AccessConfig"]["BootstrapClusterCreatorAdminPermissions"] is False
    assert cluster["BootstrapSelfManagedAddons"] is False
    assert cluster["ComputeConfig"]["Enabled"] is False
    logs = cluster["Logging"]["ClusterLogging"]["EnabledTypes"]
    assert len(logs) == 5
    assert cluster["EncryptionConfig"][0]["Resources"] == ["secrets"]
    key = synthesis.only("cluster", "AWS::KMS::Key")["Properties"]
    assert key["EnableKeyRotation"] is True
    name = the_name(synthesis, "cluster", "AWS::EKS::Cluster")
    assert any("ControlPlaneLog" in need for need in needs(synthesis, "cluster", name))


def test_addons_stand_before_or_after_the_nodes_they_need(synthesis: Synthesis) -> None:
    group = the_name(synthesis, "cluster", "AWS::EKS::Nodegroup")
    before = needs(synthesis, "cluster", group)
    for name, addon in synthesis.resources("cluster", "AWS::EKS::Addon").items():
        late = addon["Properties"]["AddonName"] in {"coredns", "aws-ebs-csi-driver"}
        assert (name in before) is not late
        assert (group in needs(synthesis, "cluster", name)) is late
    cni = next(
        a["Properties"]
        for a in synthesis.resources("cluster", "AWS::EKS::Addon").values()
        if a["Properties"]["AddonName"] == "vpc-cni"
    )
    assert json.loads(cni["ConfigurationValues"]) == {
        "enableNetworkPolicy": "true",
        "env": {"ENABLE_PREFIX_DELEGATION": "true"},
    }


@pytest.mark.parametrize("env", [{}, {"ENABLE_PREFIX_DELEGATION": "false"}])
def test_prefix_delegation_cannot_be_off(env: dict[str, str], tmp_path: Path) -> None:
    plan = make_plan()
    cni, *others = plan.cluster.addons
    addons = (replace(cni, configuration={"env": env}), *others)
    words = r"vpc-cni has ENABLE_PREFIX_DELEGATION (None|'false'); give 'true' in its env: pod"
    with pytest.raises(KascadeError, match=words):
        synthesize(tmp_path, replace(plan, cluster=replace(plan.cluster, addons=addons)))


def test_system_nodes_hide_their_credentials_from_pods(synthesis: Synthesis) -> None:
    data = synthesis.only("cluster", "AWS::EC2::LaunchTemplate")["Properties"]["LaunchTemplateData"]
    assert data["MetadataOptions"] == {"HttpPutResponseHopLimit": 1, "HttpTokens": "required"}
    assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    group = synthesis.only("cluster", "AWS::EKS::Nodegroup")["Properties"]
    assert group["AmiType"] == "AL2023_x86_64_STANDARD"
    assert group["ScalingConfig"] == {"MinSize": 2, "DesiredSize": 2, "MaxSize": 3}


def test_both_kinds_of_node_reach_each_other(synthesis: Synthesis) -> None:
    rules = [
        rule["Properties"]
        for rule in synthesis.resources("cluster", "AWS::EC2::SecurityGroupIngress").values()
    ]
    pairs = {
        (json.dumps(rule["GroupId"]), json.dumps(rule["SourceSecurityGroupId"])) for rule in rules
    }
    assert len(pairs) == 2
    assert {(b, a) for a, b in pairs} == pairs


def test_the_kubectl_function_may_do_no_more_than_it_must(synthesis: Synthesis) -> None:
    roles = synthesis.resources("cluster", "AWS::IAM::Role")
    (role,) = (r["Properties"] for name, r in roles.items() if "KubectlRole" in name)
    assert "ManagedPolicyArns" not in role
    (policy,) = role["Policies"]
    actions = {
        action
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        )
    }
    assert {action.partition(":")[0] for action in actions} == {"ec2", "eks", "logs"}
    assert "Conditions" not in synthesis.templates["cluster"]


def test_admins_are_access_entries(synthesis: Synthesis) -> None:
    entries = [
        entry["Properties"]["PrincipalArn"]
        for entry in synthesis.resources("cluster", "AWS::EKS::AccessEntry").values()
    ]
    assert "arn:aws:iam::111122223333:role/Admin" in entries


# --- HyperPod ----------------------------------------------------------------------------------


def test_hyperpod_finds_its_agents_addons_script_and_rights(synthesis: Synthesis) -> None:
    hyperpod = the_name(synthesis, "cluster", HYPERPOD)
    before = needs(synthesis, "cluster", hyperpod)
    assert synthesis.resources("cluster", MANIFEST).keys() <= before
    assert synthesis.resources("cluster", "AWS::EKS::Addon").keys() <= before
    assert synthesis.resources("cluster", "AWS::EC2::SecurityGroupIngress").keys() <= before
    assert {"Custom::AWS", "AWS::EKS::Nodegroup", "AWS::S3::BucketPolicy"} <= types(
        synthesis, "cluster", before
    )


def test_nothing_inside_the_cluster_waits_for_hyperpod(synthesis: Synthesis) -> None:
    hyperpod = the_name(synthesis, "cluster", HYPERPOD)
    for kind in (MANIFEST, "AWS::EKS::Addon", "AWS::EKS::Nodegroup"):
        for name in synthesis.resources("cluster", kind):
            assert hyperpod not in needs(synthesis, "cluster", name)


@pytest.mark.parametrize("percentage", [None, 20])
def test_tiered_storage_never_travels_alone(percentage: int | None, tmp_path: Path) -> None:
    plan = make_plan(cluster=make_cluster_plan(tiered_storage_percentage=percentage))
    properties = synthesize(tmp_path, plan).only("cluster", HYPERPOD)["Properties"]
    assert properties["InstanceGroups"]
    assert properties["NodeRecovery"] == "Automatic"
    assert properties["NodeProvisioningMode"] == "Continuous"
    expected = {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20}
    # Left out, a tier that was on would stay on.
    assert properties["TieredStorageConfig"] == (expected if percentage else {"Mode": "Disable"})


def test_instance_groups_say_what_the_plan_says(synthesis: Synthesis) -> None:
    pinned, free = synthesis.only("cluster", HYPERPOD)["Properties"]["InstanceGroups"]
    assert pinned["InstanceType"] == "ml.g6e.12xlarge"
    assert pinned["InstanceCount"] == 2
    assert pinned["ThreadsPerCore"] == 2
    assert pinned["InstanceStorageConfigs"] == [{"EbsVolumeConfig": {"VolumeSizeInGB": 200}}]
    assert "OnStartDeepHealthChecks" not in pinned
    assert free["OnStartDeepHealthChecks"] == ["InstanceStress"]
    assert pinned["KubernetesConfig"] == {
        "Labels": {"kascade.io/group": "gpu"},
        "Taints": [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NoSchedule"}],
    }
    assert len(pinned["OverrideVpcConfig"]["Subnets"]) == 1
    assert "privateSubnet1" in json.dumps(pinned["OverrideVpcConfig"])
    assert "OverrideVpcConfig" not in free
    assert "KubernetesConfig" not in free


def test_a_taint_without_value_has_none(tmp_path: Path) -> None:
    taints = (("team", "", "NoSchedule"),)
    plan = make_plan(cluster=make_cluster_plan(groups=(make_group(taints=taints),)))
    (group,) = synthesize(tmp_path, plan).only("cluster", HYPERPOD)["Properties"]["InstanceGroups"]
    # CloudFormation rejects an empty text here.
    assert group["KubernetesConfig"]["Taints"] == [{"Key": "team", "Effect": "NoSchedule"}]


def test_roles_of_one_name_below_different_paths_are_two(tmp_path: Path) -> None:
    arns = tuple(f"arn:aws:iam::111122223333:role/{path}/Admin" for path in ("x", "y"))
    plan = make_plan(cluster=make_cluster_plan(admin_role_arns=arns))
    entries = synthesize(tmp_path, plan).resources("cluster", "AWS::EKS::AccessEntry")
    named = [entry["Properties"]["PrincipalArn"] for entry in entries.values()]
    assert [arn for arn in named if isinstance(arn, str)] == list(arns)


def test_group_without_checks_asks_for_none(tmp_path: Path) -> None:
    plan = make_plan(cluster=make_cluster_plan(groups=(make_group(deep_health_checks=()),)))
    (group,) = synthesize(tmp_path, plan).only("cluster", HYPERPOD)["Properties"]["InstanceGroups"]
    assert "OnStartDeepHealthChecks" not in group


def test_the_execution_role_is_complete_when_it_exists(synthesis: Synthesis) -> None:
    roles = synthesis.resources("cluster", "AWS::IAM::Role")
    (role,) = (r["Properties"] for name, r in roles.items() if "ExecutionRole" in name)
    statements = [s for p in role["Policies"] for s in p["PolicyDocument"]["Statement"]]
    star = [s["Action"] for s in statements if s["Resource"] == "*"]
    for actions in star:
        for action in actions if isinstance(actions, list) else [actions]:
            verb = action.partition(":")[2]
            assert verb.startswith("Describe") or verb == "GetAuthorizationToken", action
    everything = json.dumps(statements)
    for action in (
        "ec2:AttachNetworkInterface",
        "ec2:CreateNetworkInterfacePermission",
        "eks-auth:AssumeRoleForPodIdentity",
        "ecr:BatchGetImage",
        "s3:GetObject",
    ):
        assert action in everything
    assert "AmazonSageMakerClusterInstanceRolePolicy" in json.dumps(role["ManagedPolicyArns"])


def test_the_ebs_driver_may_attach_before_and_after_there_is_a_hyperpod_cluster(
    synthesis: Synthesis,
) -> None:
    policies = synthesis.resources("cluster", "AWS::IAM::Policy")
    (policy,) = (p["Properties"] for name, p in policies.items() if "EbsCsi" in name)
    attach, describe = policy["PolicyDocument"]["Statement"]
    assert attach["Resource"]["Fn::Join"][1][-1] == ":cluster/*"
    assert describe["Action"] == "eks:DescribeCluster"


KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd"
ONE = BucketAccess(bucket="one", prefix="qwen/1", kms_key_arn=KEY)
TWO = BucketAccess(bucket="two", prefix="llama/2", kms_key_arn=None)


def with_weights(directory: Path, *folders: BucketAccess) -> Synthesis:
    driver = AddonPlan(
        name="aws-mountpoint-s3-csi-driver", version=None, needs_nodes=True, configuration={}
    )
    addons = (*make_cluster_plan().addons, driver)
    plan = make_plan(cluster=make_cluster_plan(weights=folders, addons=addons))
    return synthesize(directory, plan)


def rights(synthesis: Synthesis) -> dict[str, dict[str, Any]]:
    policies = synthesis.resources("serving", "AWS::IAM::Policy")
    return {name: item for name, item in policies.items() if name.startswith("Weights")}


def test_the_s3_driver_may_read_the_folders_of_weights_and_nothing_else(tmp_path: Path) -> None:
    synthesis = with_weights(tmp_path, ONE, TWO)
    said = sorted(
        (
            statement["Action"],
            "".join(part for part in _parts(statement["Resource"]) if isinstance(part, str)),
            json.dumps(statement.get("Condition")),
        )
        for policy in rights(synthesis).values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    )
    assert said == [
        ("kms:Decrypt", KEY, "null"),
        ("s3:GetObject", "arn::s3:::one/qwen/1/*", "null"),
        ("s3:GetObject", "arn::s3:::two/llama/2/*", "null"),
        ("s3:ListBucket", "arn::s3:::one", '{"StringLike": {"s3:prefix": "qwen/1/*"}}'),
        ("s3:ListBucket", "arn::s3:::two", '{"StringLike": {"s3:prefix": "llama/2/*"}}'),
    ]
    (addon,) = (
        addon["Properties"]
        for addon in synthesis.resources("cluster", "AWS::EKS::Addon").values()
        if addon["Properties"]["AddonName"] == "aws-mountpoint-s3-csi-driver"
    )
    (association,) = addon["PodIdentityAssociations"]
    assert association["ServiceAccount"] == "s3-csi-driver-sa"
    (role,) = references(association)
    for policy in rights(synthesis).values():
        (named,) = policy["Properties"]["Roles"]
        assert role in named["Fn::ImportValue"]
    made = synthesis.templates["cluster"]["Resources"][role]["Properties"]
    assert "Policies" not in made
    (statement,) = made["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    policies = synthesis.resources("cluster", "AWS::IAM::Policy").values()
    assert not [p for p in policies if role in references(p["Properties"]["Roles"])]


def test_a_swap_of_weights_lets_both_be_read_until_the_engines_have_changed(
    tmp_path: Path,
) -> None:
    """CloudFormation makes what is new before what needs it, and deletes what is gone at the end.

    So the new right must be another resource, the old one untouched by anything but its leaving,
    the cluster's stack, which is deployed first, the same, and engines later than their rights.
    """
    before = with_weights(tmp_path / "before", ONE)
    after = with_weights(tmp_path / "after", TWO)
    assert not rights(before).keys() & rights(after).keys()
    assert before.templates["cluster"] == after.templates["cluster"]
    kept = with_weights(tmp_path / "both", ONE, TWO)
    assert rights(kept) == {**rights(before), **rights(after)}

    resources = after.templates["serving"]["Resources"]

    def waits_for(name: str) -> set[str]:
        direct = set(resources[name].get("DependsOn", []))
        return direct.union(*map(waits_for, direct))

    engines = [n for n in resources if n.startswith("engineaDeployment")]
    assert len(engines) == 1
    assert rights(after).keys() <= waits_for(engines[0])


def _parts(arn: Any) -> list[Any]:
    return [arn] if isinstance(arn, str) else list(arn["Fn::Join"][1])


# --- Serving -----------------------------------------------------------------------------------


def test_serving_is_deployed_after_the_cluster(synthesis: Synthesis) -> None:
    manifest = json.loads((synthesis.directory / "manifest.json").read_text(encoding="utf-8"))
    assert "demo-cluster" in manifest["artifacts"]["demo-serving"]["dependencies"]
    assert types(synthesis, "serving", set(synthesis.templates["serving"]["Resources"])) == {
        MANIFEST,
        "AWS::CloudFormation::WaitConditionHandle",
    }
