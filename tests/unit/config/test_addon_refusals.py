"""Mistakes about HyperPod's add-ons and Karpenter, with the sentence a person gets to read."""

from pathlib import Path
from typing import Any

import pytest

from kascade import plan_file
from tests.unit.config.test_invariants import (
    Edit,
    assert_one_sentence,
    base,
    both,
    group,
    model,
    write,
)

WORKSPACE = "arn:aws:aps:{region}:111122223333:workspace/ws-0a1b2c3d"


def addons(**settings: object) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        config.setdefault("kubernetes", {}).setdefault("addons", {}).update(settings)

    return apply


def system(**settings: object) -> Edit:
    def apply(config: dict[str, Any]) -> None:
        config.setdefault("kubernetes", {}).setdefault("system_group", {}).update(settings)

    return apply


def crowded(config: dict[str, Any]) -> None:
    """A model of the operator's beside one with so many doors that pod slots run out first."""
    config["instance_groups"][0]["count"] = 4
    config["cache"] = {"l2": {"kind": "none"}}
    config["models"] = [
        {
            "name": f"m{index}",
            "model": "Qwen/Qwen2-7B-Instruct",
            "replicas": 1,
            "tenancy": {"kind": "salted", "tenants": [f"t{number}" for number in range(tenants)]},
        }
        for index, tenants in enumerate((20, 17))
    ]
    config["models"].append(
        {"name": "theirs", "model": "Qwen/Qwen2.5-7B-Instruct", "replicas": 1, "mode": "operator"}
    )
    config["router"] = {"strategy": "session"}
    system(instance_type="m5.2xlarge", count=2)(config)


def karpenter(config: dict[str, Any]) -> None:
    """Groups that Karpenter fills, with nothing wrong about them."""
    config["hyperpod"] = {"autoscaling": "karpenter"}
    config["cache"] = {"l2": {"kind": "none"}}
    config["instance_groups"][0]["zone"] = "us-west-2a"


def hyperpod(**settings: object) -> Edit:
    return lambda c: c["hyperpod"].update(settings)


MISTAKES: dict[str, tuple[Edit, str, str]] = {
    "autoscaler that is not HyperPod's": (
        both(karpenter, hyperpod(autoscaling="cluster-autoscaler")),
        "hyperpod.autoscaling",
        r"got 'cluster-autoscaler'; allowed: 'karpenter'",
    ),
    "Karpenter without node recovery": (
        both(karpenter, hyperpod(node_recovery="None")),
        "hyperpod.node_recovery",
        r"got None; with autoscaling HyperPod has to replace instances itself\. Use Automatic",
    ),
    "Karpenter and Curvine": (
        both(karpenter, lambda c: c.pop("cache")),
        "cache.l2.kind",
        r"got curvine, .* instances that Karpenter takes away; use directory, managed or none, or",
    ),
    "Karpenter and a group in several zones": (
        both(karpenter, lambda c: c["instance_groups"][0].pop("zone")),
        "instance_groups[0].zone",
        r"'gpu' names none, and Karpenter wants all instances of a group in one; give it one of",
    ),
    "Karpenter and deep health checks": (
        both(karpenter, group(deep_health_checks=["InstanceStress"])),
        "instance_groups[0].deep_health_checks",
        r"got InstanceStress; they take an hour or more, .* Leave them out",
    ),
    "Karpenter and a label of its own": (
        both(karpenter, group(labels={"karpenter.sh/capacity-type": "spot"})),
        "instance_groups[0].labels.karpenter.sh/capacity-type",
        r"labels of karpenter\.sh are Karpenter's own; use another domain",
    ),
    "Karpenter and a group that may have nothing": (
        both(
            karpenter,
            model(instance_group="gpu"),
            lambda c: c["instance_groups"].append(
                {
                    "name": "spare",
                    "instance_type": "ml.g6e.4xlarge",
                    "count": 0,
                    "zone": "us-west-2b",
                }
            ),
        ),
        "instance_groups[1].count",
        r"got 0, which with autoscaling is the most that Karpenter may add; .* or take the group",
    ),
    "workspace that is a name": (
        addons(observability_workspace_arn="ws-0a1b2c3d"),
        "kubernetes.addons.observability_workspace_arn",
        r"'ws-0a1b2c3d' is not the ARN of a Managed Prometheus workspace \(arn:aws:aps:\.\.\.\)",
    ),
    "workspace of another region": (
        addons(observability_workspace_arn=WORKSPACE.format(region="us-east-1")),
        "kubernetes.addons.observability_workspace_arn",
        r"is in us-east-1 and the deployment in us-west-2; .* so name one there",
    ),
    "workspace of another account": (
        both(
            lambda c: c.update(account="444455556666"),
            addons(observability_workspace_arn=WORKSPACE.format(region="us-west-2")),
        ),
        "kubernetes.addons.observability_workspace_arn",
        r"of account 111122223333 and the deployment of 444455556666; .* name one there",
    ),
    "add-on that is none of HyperPod's": (
        addons(keda=True),
        "kubernetes.addons.keda",
        r"there is no such field here\. Allowed: .*task_governance",
    ),
    "feature switched by a word": (
        addons(training_operator="yes"),
        "kubernetes.addons.training_operator",
        r"must be true or false, got 'yes'",
    ),
    "inference operator on arm64 system nodes": (
        both(
            model(mode="operator", replicas=1),
            system(instance_type="m7g.xlarge"),
        ),
        "kubernetes.system_group.instance_type",
        r"got 'm7g\.xlarge'; allowed: 'm7i\.xlarge', 'm5\.xlarge' or 'm5\.2xlarge'",
    ),
    "no pod slots for the inference add-on": (
        crowded,
        "kubernetes.system_group.count",
        r"they have 103 pod slots and 93 are taken, but .* needs 13 free\. Use 3 nodes",
    ),
    "inference operator in a region without it": (
        both(
            model(mode="operator", replicas=1),
            lambda c: c.update(
                region="ap-northeast-2", zones=["ap-northeast-2a", "ap-northeast-2b"]
            ),
            lambda c: c.update(images={"health_agent": "example.com/agent:1"}),
        ),
        "models[0].mode",
        r"HyperPod's inference operator has no image in ap-northeast-2; it has one in .*us-west-2",
    ),
}


@pytest.mark.parametrize(("edit", "path", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_one_mistake_is_one_sentence(edit: Edit, path: str, words: str, tmp_path: Path) -> None:
    config = base()
    edit(config)
    assert_one_sentence(write(tmp_path, config), path, words)


def test_karpenter_by_itself_is_no_mistake(tmp_path: Path) -> None:
    config = base()
    karpenter(config)
    plan = plan_file(write(tmp_path, config)).cluster
    assert plan.autoscaling is not None
    assert [pool.gpus for pool in plan.autoscaling.pools] == [2]
    assert [group.count for group in plan.groups] == [2]
    assert [group.count for group in plan.at_start.groups] == [0]


def test_the_rows_are_wrong_in_one_thing_only(tmp_path: Path) -> None:
    """With the mistake taken out, the same configurations are planned."""
    right: dict[str, Edit] = {
        "workspace": addons(observability_workspace_arn=WORKSPACE.format(region="us-west-2")),
        "features": addons(task_governance=True, training_operator=True),
        "operator": both(group(count=2), model(mode="operator", replicas=1)),
        "slots": both(crowded, system(count=3)),
    }
    for edit in right.values():
        config = base()
        edit(config)
        assert plan_file(write(tmp_path, config)).cluster.features is not None
