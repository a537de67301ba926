"""The function that waits for load balancers and their groups, against an AWS of lists."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from kascade.handlers.balancer_drain.index import Drain, LeftoverError

VPC, CLUSTER = "vpc-1", "kascade"
ARN = "arn:aws:elasticloadbalancing:us-west-2:111122223333:loadbalancer/app/{}/0123456789abcdef"


class Elbv2:
    """Load balancers, each with its tag's value, that go after some looks, or never."""

    def __init__(self, *, looks: int = 1000, page: int = 2) -> None:
        self.there: dict[str, tuple[str, str | None]] = {}
        self.looks = looks
        self.page = page
        self.asked: list[int] = []
        self.gone: set[str] = set()
        self.refuses: str | None = None

    def add(self, name: str, *, vpc: str = VPC, cluster: str | None = CLUSTER) -> str:
        self.there[name] = (vpc, cluster)
        return ARN.format(name)

    def get_paginator(self, operation: str) -> "Elbv2":
        assert operation == "describe_load_balancers"
        return self

    def paginate(self) -> Iterator[Any]:
        self.looks -= 1
        if self.looks < 0:
            self.there = {name: kept for name, kept in self.there.items() if kept[1] != CLUSTER}
        listed = [
            {"LoadBalancerArn": ARN.format(name), "LoadBalancerName": name, "VpcId": vpc}
            for name, (vpc, _) in self.there.items()
        ]
        for start in range(0, len(listed) + 1, self.page):
            yield {"LoadBalancers": listed[start : start + self.page]}

    def describe_tags(self, *, ResourceArns: list[str]) -> Any:  # noqa: N803 - boto3's name
        if self.refuses:
            raise ClientError({"Error": {"Code": self.refuses}}, "DescribeTags")
        assert 1 <= len(ResourceArns) <= 20  # as the service has it
        self.asked.append(len(ResourceArns))
        names = [arn.split("/")[2] for arn in ResourceArns]
        if self.gone & set(names):
            raise ClientError({"Error": {"Code": "LoadBalancerNotFound"}}, "DescribeTags")
        return {
            "TagDescriptions": [
                {"ResourceArn": arn, "Tags": _tags(self.there[name][1])}
                for arn, name in zip(ResourceArns, names, strict=True)
            ]
        }


class Ec2:
    """Security groups, each of a VPC and with its tag's value, that go after some looks, or never.

    It filters as EC2 does: each filter must hold, by one of its values.
    """

    def __init__(self, *, looks: int = 1000) -> None:
        self.there: dict[str, dict[str, str]] = {}
        self.looks = looks
        self.refuses: str | None = None

    def add(self, name: str, *, vpc: str = VPC, cluster: str | None = CLUSTER) -> str:
        group = f"sg-{len(self.there):08}"
        self.there[group] = {"name": name, "vpc-id": vpc}
        if cluster is not None:
            self.there[group]["tag:elbv2.k8s.aws/cluster"] = cluster
        return group

    def get_paginator(self, operation: str) -> "Ec2":
        assert operation == "describe_security_groups"
        return self

    def paginate(self, *, Filters: list[dict[str, Any]]) -> Iterator[Any]:  # noqa: N803 - boto3's
        if self.refuses:
            raise ClientError({"Error": {"Code": self.refuses}}, "DescribeSecurityGroups")
        self.looks -= 1
        if self.looks < 0:
            self.there = {}
        yield {"SecurityGroups": []}
        yield {
            "SecurityGroups": [
                {"GroupId": group, "GroupName": known["name"]}
                for group, known in self.there.items()
                if all(known.get(f["Name"]) in f["Values"] for f in Filters)
            ]
        }


def _tags(cluster: str | None) -> list[dict[str, str]]:
    own = {"Key": "ingress.k8s.aws/stack", "Value": "default/chat"}
    return [own] if cluster is None else [own, {"Key": "elbv2.k8s.aws/cluster", "Value": cluster}]


class Clock:
    """Lambda's time, which passes only while the function sleeps."""

    def __init__(self, seconds: float = 840) -> None:
        self.left = seconds

    def sleep(self, seconds: float) -> None:
        self.left -= seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left * 1000)


def run(
    elbv2: Elbv2, clock: Clock, kind: str = "Delete", *, ec2: Ec2 | None = None, **changes: Any
) -> Any:
    event = {
        "RequestType": kind,
        "ResourceProperties": {"VpcId": VPC, "ClusterName": CLUSTER},
        "PhysicalResourceId": "balancers-kascade",
    }
    return Drain(elbv2, ec2 or Ec2(), sleep=clock.sleep).run(event | changes, clock)


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_nothing_is_asked_before_a_deletion(kind: str) -> None:
    clock, elbv2 = Clock(), Elbv2()
    elbv2.add("chat")
    given = run(elbv2, clock, kind, PhysicalResourceId=None)
    assert given == {"PhysicalResourceId": "balancers-kascade"}
    assert (clock.left, elbv2.looks, elbv2.asked) == (840, 1000, [])


def test_without_load_balancers_it_returns_at_once() -> None:
    clock, elbv2 = Clock(), Elbv2()
    assert run(elbv2, clock) == {"PhysicalResourceId": "balancers-kascade"}
    assert (clock.left, elbv2.looks) == (840, 999)


def test_those_of_the_cluster_are_waited_for() -> None:
    clock, elbv2 = Clock(), Elbv2(looks=4)
    elbv2.add("chat")
    elbv2.add("by-hand", cluster=None)
    run(elbv2, clock)
    assert 840 - clock.left == 4 * 15


@pytest.mark.parametrize(
    "changes", [{"cluster": "another"}, {"cluster": None}, {"vpc": "vpc-of-others"}]
)
def test_those_of_others_are_not_waited_for(changes: dict[str, Any]) -> None:
    clock, elbv2 = Clock(), Elbv2()
    elbv2.add("chat", **changes)
    run(elbv2, clock)
    assert clock.left == 840


def test_one_on_the_last_page_counts() -> None:
    clock, elbv2 = Clock(), Elbv2(looks=1)
    for number in range(44):
        elbv2.add(f"other-{number}", cluster="another")
    elbv2.add("chat")
    run(elbv2, clock)
    assert 840 - clock.left == 15
    assert elbv2.asked == [20, 20, 5, 20, 20, 4]


def test_one_that_went_since_it_was_listed_hides_no_other() -> None:
    elbv2 = Elbv2()
    elbv2.add("gone")
    left = elbv2.add("left")
    elbv2.gone = {"gone"}
    with pytest.raises(LeftoverError) as caught:
        run(elbv2, Clock())
    assert left in str(caught.value)
    assert ARN.format("gone") not in str(caught.value)


def test_where_all_went_since_they_were_listed_it_is_done() -> None:
    clock, elbv2 = Clock(), Elbv2()
    elbv2.add("gone")
    elbv2.gone = {"gone"}
    run(elbv2, clock)
    assert clock.left == 840


def test_at_the_end_of_its_time_it_names_what_is_left() -> None:
    clock, elbv2 = Clock(), Elbv2()
    chat, code = elbv2.add("chat"), elbv2.add("code")
    elbv2.add("by-hand", cluster=None)
    with pytest.raises(LeftoverError) as caught:
        run(elbv2, clock)
    assert str(caught.value) == (
        "The controller of the EKS cluster kascade made these in vpc-1 and has not deleted them. "
        f"Load balancers, 2: chat ({chat}); code ({code}). Delete the InferenceEndpointConfig, "
        "Ingress or Service that each load balancer stands for, and the controller deletes it, its "
        "security groups too; where there is none any more, run aws elbv2 delete-load-balancer "
        "--load-balancer-arn ARN. Then delete this stack again; docs/deletion.md says how."
    )
    assert 45 < clock.left < 75  # kept for the report


SHARED = "k8s-traffic-kascade-0123456789"


def test_the_groups_of_the_cluster_are_waited_for() -> None:
    """They go after their load balancer, when only the controller can delete them."""
    clock, ec2 = Clock(), Ec2(looks=4)
    ec2.add(SHARED)
    run(Elbv2(), clock, ec2=ec2)
    assert 840 - clock.left == 4 * 15


def test_groups_that_outlive_their_load_balancer_are_waited_for() -> None:
    clock, elbv2, ec2 = Clock(), Elbv2(looks=2), Ec2(looks=5)
    elbv2.add("chat")
    ec2.add("k8s-default-chat-0123456789")
    ec2.add(SHARED)
    run(elbv2, clock, ec2=ec2)
    assert 840 - clock.left == 5 * 15


@pytest.mark.parametrize(
    "changes", [{"cluster": "another"}, {"cluster": None}, {"vpc": "vpc-of-others"}]
)
def test_groups_of_others_are_not_waited_for(changes: dict[str, Any]) -> None:
    clock, ec2 = Clock(), Ec2()
    ec2.add(SHARED, **changes)
    run(Elbv2(), clock, ec2=ec2)
    assert (clock.left, ec2.looks) == (840, 999)


def test_groups_that_are_left_are_named_by_id() -> None:
    clock, ec2 = Clock(), Ec2()
    chat, shared = ec2.add("k8s-default-chat-0123456789"), ec2.add(SHARED)
    with pytest.raises(LeftoverError) as caught:
        run(Elbv2(), clock, ec2=ec2)
    assert str(caught.value) == (
        "The controller of the EKS cluster kascade made these in vpc-1 and has not deleted them. "
        f"Security groups, 2: k8s-default-chat-0123456789 ({chat}); {SHARED} ({shared}). "
        "A security group whose Ingresses and load balancers are all gone was forgotten by a "
        "controller that started anew: take it out of the rules of others, and run aws ec2 "
        "delete-security-group --group-id ID. Then delete this stack again; docs/deletion.md says "
        "how."
    )
    assert 45 < clock.left < 75


@pytest.mark.parametrize("refused", ["elbv2", "ec2"])
def test_a_refused_look_is_no_empty_list(refused: str) -> None:
    elbv2, ec2 = Elbv2(), Ec2()
    elbv2.add("chat")
    asked: Elbv2 | Ec2 = elbv2 if refused == "elbv2" else ec2
    asked.refuses = "AccessDenied"
    with pytest.raises(ClientError, match="AccessDenied"):
        run(elbv2, Clock(), ec2=ec2)


def test_the_groups_are_asked_for_as_ec2_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    client = boto3.client("ec2", region_name="us-west-2")
    pages = [{"SecurityGroups": [], "NextToken": "more"}, {"SecurityGroups": []}]
    asked = {
        "Filters": [
            {"Name": "vpc-id", "Values": [VPC]},
            {"Name": "tag:elbv2.k8s.aws/cluster", "Values": [CLUSTER]},
        ]
    }
    with Stubber(client) as stubber:
        stubber.add_response("describe_security_groups", pages[0], asked)
        stubber.add_response("describe_security_groups", pages[1], asked | {"NextToken": "more"})
        run(Elbv2(), Clock(), ec2=client)
        stubber.assert_no_pending_responses()


def test_long_lists_are_cut_each_by_itself() -> None:
    elbv2, ec2 = Elbv2(), Ec2()
    for number in range(100):
        elbv2.add(f"chat-{number}")
        ec2.add(f"k8s-default-chat-{number}")
    with pytest.raises(LeftoverError) as caught:
        run(elbv2, Clock(), ec2=ec2)
    reason = str(caught.value)
    assert len(reason) < 4000
    assert "Load balancers, 100: chat-0 (" in reason
    assert "Security groups, 100: k8s-default-chat-0 (sg-00000000); " in reason
    assert reason.endswith("docs/deletion.md says how.")
