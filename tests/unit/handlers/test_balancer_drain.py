"""The function that waits for load balancers, against an Elastic Load Balancing of lists."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

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


def run(elbv2: Elbv2, clock: Clock, kind: str = "Delete", **changes: Any) -> Any:
    event = {
        "RequestType": kind,
        "ResourceProperties": {"VpcId": VPC, "ClusterName": CLUSTER},
        "PhysicalResourceId": "balancers-kascade",
    }
    return Drain(elbv2, sleep=clock.sleep).run(event | changes, clock)


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
        "Load balancers that the controller of the EKS cluster kascade made and has not deleted, "
        f"2 in vpc-1: chat ({chat}); code ({code}). Delete the InferenceEndpointConfig, Ingress or "
        "Service that each stands for, and the controller deletes it; where there is none any "
        "more, run aws elbv2 delete-load-balancer --load-balancer-arn ARN. Then delete this stack "
        "again; docs/deletion.md says how."
    )
    assert 45 < clock.left < 75  # kept for the report


def test_a_refused_look_is_no_empty_list() -> None:
    elbv2 = Elbv2()
    elbv2.add("chat")
    elbv2.refuses = "AccessDenied"
    with pytest.raises(ClientError, match="AccessDenied"):
        run(elbv2, Clock())


def test_a_long_list_is_cut() -> None:
    elbv2 = Elbv2()
    for number in range(100):
        elbv2.add(f"chat-{number}")
    with pytest.raises(LeftoverError) as caught:
        run(elbv2, Clock())
    assert len(str(caught.value)) < 4000
    assert "100 in vpc-1" in str(caught.value)
    assert str(caught.value).endswith("docs/deletion.md says how.")
