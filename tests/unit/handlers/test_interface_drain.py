"""The function that waits for network interfaces, against an EC2 of lists."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from kascade.aws import drain
from kascade.handlers.interface_drain.index import GROUP_TAGS, Drain, LeftoverError, maker_of

VPC, SUBNET = "vpc-1", "subnet-1"


def interface(name: str, description: str, *, status: str = "in-use", subnet: str = SUBNET) -> Any:
    return {
        "NetworkInterfaceId": name,
        "Description": description,
        "Status": status,
        "SubnetId": subnet,
        "InterfaceType": "interface",
    }


class Ec2:
    """Interfaces that go after some looks, or never."""

    def __init__(self, *interfaces: Any, looks: int = 1000) -> None:
        self.interfaces = list(interfaces)
        self.looks = looks
        self.deleted: list[str] = []
        self.endpoints: list[Any] = []
        self.groups: list[Any] = []
        self.refuses: str | None = None
        self.asked: list[Any] = []
        self.referred: dict[str, str] = {}

    def get_paginator(self, operation: str) -> "Ec2":
        assert operation == "describe_network_interfaces"
        return self

    def paginate(self, *, Filters: list[Any]) -> Iterator[Any]:  # noqa: N803 - boto3's name
        assert Filters[0] == {"Name": "subnet-id", "Values": [SUBNET]}
        self.asked = Filters[1:]
        self.looks -= 1
        if self.looks < 0:
            self.interfaces = [i for i in self.interfaces if maker_of(i) is None]
        half = len(self.interfaces) // 2
        yield {"NetworkInterfaces": self.interfaces[:half]}
        yield {"NetworkInterfaces": self.interfaces[half:]}

    def delete_network_interface(self, *, NetworkInterfaceId: str) -> None:  # noqa: N803
        if self.refuses:
            raise ClientError({"Error": {"Code": self.refuses}}, "DeleteNetworkInterface")
        self.deleted.append(NetworkInterfaceId)
        self.interfaces = [
            i for i in self.interfaces if i["NetworkInterfaceId"] != NetworkInterfaceId
        ]

    def describe_vpc_endpoints(self, *, Filters: list[Any]) -> Any:  # noqa: N803
        assert {"Name": "vpc-id", "Values": [VPC]} in Filters
        return {"VpcEndpoints": self.endpoints}

    def describe_security_groups(self, *, Filters: list[Any]) -> Any:  # noqa: N803
        assert {"Name": "vpc-id", "Values": [VPC]} in Filters
        tags = [f for f in Filters if f["Name"].startswith("tag:")]
        assert len(tags) == 1
        key, (value,) = tags[0]["Name"].removeprefix("tag:"), tags[0]["Values"]
        tag = {"Key": key, "Value": value}
        return {"SecurityGroups": [g for g in self.groups if tag in g.get("Tags", [])]}

    def delete_security_group(self, *, GroupId: str) -> None:  # noqa: N803
        there = {group["GroupId"] for group in self.groups}
        if self.referred.get(GroupId) in there:
            raise ClientError({"Error": {"Code": "DependencyViolation"}}, "DeleteSecurityGroup")
        self.deleted.append(GroupId)
        self.groups = [group for group in self.groups if group["GroupId"] != GroupId]


class Clock:
    """Lambda's time, which passes only while the function sleeps."""

    def __init__(self, seconds: float = 840) -> None:
        self.left = seconds

    def sleep(self, seconds: float) -> None:
        self.left -= seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left * 1000)


def run(ec2: Ec2, clock: Clock, kind: str = "Delete", **told: Any) -> Any:
    event = {
        "RequestType": kind,
        "ResourceProperties": {"VpcId": VPC, "SubnetIds": [SUBNET], **told},
        "PhysicalResourceId": "drain-vpc-1",
    }
    return Drain(ec2, sleep=clock.sleep).run(event, clock)


EKS = interface("eni-1", "Amazon EKS kascade")
HYPERPOD = interface("eni-2", "[DO NOT DELETE] ENI managed by SageMaker for your cluster")
LAMBDA = interface("eni-3", "AWS Lambda VPC ENI-kascade-cluster-Kubectl")
CNI = interface("eni-4", "aws-K8S-i-0123456789", status="available")
NAT = interface("eni-5", "Interface for NAT Gateway nat-0123")
ENDPOINT = interface("eni-6", "VPC Endpoint Interface vpce-0123")


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_nothing_is_asked_before_a_deletion(kind: str) -> None:
    clock = Clock()
    assert run(Ec2(EKS), clock, kind) == {"PhysicalResourceId": "drain-vpc-1"}
    assert clock.left == 840


def test_what_the_stack_deletes_itself_is_not_waited_for() -> None:
    clock = Clock()
    ec2 = Ec2(NAT, ENDPOINT)
    run(ec2, clock)
    assert (clock.left, ec2.deleted) == (840, [])


@pytest.mark.parametrize("one", [EKS, HYPERPOD, LAMBDA])
def test_interfaces_in_use_are_waited_for_and_never_deleted(one: Any) -> None:
    clock, ec2 = Clock(), Ec2(one, NAT, looks=4)
    run(ec2, clock)
    assert 840 - clock.left == 4 * 15
    assert ec2.deleted == []


def test_what_nobody_uses_is_deleted() -> None:
    ec2 = Ec2(CNI, NAT, {**NAT, "Status": "available"})
    run(ec2, Clock())
    assert ec2.deleted == ["eni-4"]


def test_interfaces_of_other_subnets_are_left_alone() -> None:
    clock, ec2 = Clock(), Ec2({**CNI, "SubnetId": "subnet-of-others"})
    run(ec2, clock)
    assert (ec2.deleted, clock.left) == ([], 840)


def test_at_the_end_of_its_time_it_names_what_is_left() -> None:
    clock, ec2 = Clock(), Ec2(EKS, HYPERPOD, NAT)
    with pytest.raises(LeftoverError) as caught:
        run(ec2, clock)
    said = str(caught.value)
    assert "2 things are left in vpc-1" in said
    assert "eni-1 (EKS, interface, in-use, 'Amazon EKS kascade')" in said
    assert "eni-2 (SageMaker, " in said
    assert "eni-5" not in said
    assert "docs/deletion.md" in said
    assert 45 < clock.left < 75  # kept for the report


def test_a_refused_deletion_is_tried_again_and_then_reported() -> None:
    ec2 = Ec2(CNI)
    ec2.refuses = "UnauthorizedOperation"
    with pytest.raises(LeftoverError, match="eni-4"):
        run(ec2, Clock())


def test_one_that_went_meanwhile_is_no_fault() -> None:
    ec2 = Ec2(CNI, looks=1)
    ec2.refuses = "InvalidNetworkInterfaceID.NotFound"
    run(ec2, Clock())


def test_guardduty_is_named() -> None:
    tags = [{"Key": "GuardDutyManaged", "Value": "true"}]
    ec2 = Ec2()
    ec2.endpoints = [{"VpcEndpointId": "vpce-9", "Tags": tags}, {"VpcEndpointId": "vpce-own"}]
    ec2.groups = [{"GroupId": "sg-9", "Tags": tags}]
    with pytest.raises(LeftoverError) as caught:
        run(ec2, Clock())
    assert "vpce-9 (endpoint of GuardDuty); sg-9 (security group of GuardDuty)" in str(caught.value)
    assert "vpce-own" not in str(caught.value)


def test_a_long_list_is_cut() -> None:
    many = [interface(f"eni-{n}", "Amazon EKS kascade") for n in range(500)]
    with pytest.raises(LeftoverError) as caught:
        run(Ec2(*many), Clock())
    assert len(str(caught.value)) < 4000
    assert "500 things" in str(caught.value)


def group(name: str, tag: str, cluster: str = "demo") -> Any:
    return {"GroupId": name, "GroupName": f"of-{name}", "Tags": [{"Key": tag, "Value": cluster}]}


OF_EKS = group("sg-1", "aws:eks:cluster-name")
OF_BALANCER = group("sg-2", "elbv2.k8s.aws/cluster")
OF_ANOTHER = group("sg-3", "aws:eks:cluster-name", "another")


def test_groups_that_eks_and_its_controller_left_go_after_interfaces() -> None:
    """The balancer's group is named by a rule of EKS's, so it goes at a later look."""
    ec2, clock = Ec2(EKS, looks=2), Clock()
    ec2.groups = [OF_BALANCER, OF_EKS, OF_ANOTHER]
    ec2.referred = {"sg-2": "sg-1"}
    run(ec2, clock, ClusterName="demo")
    assert ec2.deleted == ["sg-1", "sg-2"]
    assert ec2.groups == [OF_ANOTHER]


def test_a_group_that_cannot_go_is_named() -> None:
    ec2 = Ec2()
    ec2.groups = [OF_EKS, OF_BALANCER]
    ec2.referred = {"sg-1": "sg-2", "sg-2": "sg-1"}
    with pytest.raises(LeftoverError) as failure:
        run(ec2, Clock(), ClusterName="demo")
    assert "sg-1 (security group 'of-sg-1' of EKS, for the cluster demo)" in str(failure.value)
    assert "sg-2 (security group 'of-sg-2' of the load balancer controller" in str(failure.value)


def test_in_a_vpc_that_stays_only_its_own_group_is_waited_for_and_nothing_deleted() -> None:
    ec2, clock = Ec2(CNI, looks=4), Clock()
    ec2.groups = [OF_EKS]
    run(ec2, clock, SecurityGroupIds=["sg-9"])
    assert ec2.asked == [{"Name": "group-id", "Values": ["sg-9"]}]
    assert (ec2.deleted, 840 - clock.left) == ([], 4 * 15)
    with pytest.raises(LeftoverError, match="so the security group sg-9 cannot go: eni-4"):
        run(Ec2(CNI), Clock(), SecurityGroupIds=["sg-9"])


def test_the_rights_are_on_the_tags_that_the_function_looks_for() -> None:
    assert set(drain.GROUP_TAGS) == set(GROUP_TAGS)
