"""Errors about HyperPod's add-ons and Karpenter."""

from typing import Any

from tests.unit.config.builders import Edit, Row, both, group, model

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
    """A model of the operator's beside one with so many gateways that pod slots run out first."""
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


MISTAKES: dict[str, Row] = {
    "autoscaler that is not HyperPod's": (
        both(karpenter, hyperpod(autoscaling="cluster-autoscaler")),
        "hyperpod.autoscaling",
        "not-allowed",
    ),
    "Karpenter without node recovery": (
        both(karpenter, hyperpod(node_recovery="None")),
        "hyperpod.node_recovery",
        "karpenter-node-recovery",
    ),
    "Karpenter and Curvine": (
        both(karpenter, lambda c: c.pop("cache")),
        "cache.l2.kind",
        "karpenter-and-curvine",
    ),
    "Karpenter and a group in several zones": (
        both(karpenter, lambda c: c["instance_groups"][0].pop("zone")),
        "instance_groups[0].zone",
        "karpenter-zone",
    ),
    "Karpenter and deep health checks": (
        both(karpenter, group(deep_health_checks=["InstanceStress"])),
        "instance_groups[0].deep_health_checks",
        "karpenter-deep-checks",
    ),
    "Karpenter and a label of its own": (
        both(karpenter, group(labels={"karpenter.sh/capacity-type": "spot"})),
        "instance_groups[0].labels.karpenter.sh/capacity-type",
        "karpenter-own-key",
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
        "karpenter-no-instances",
    ),
    "workspace that is a name": (
        addons(observability_workspace_arn="ws-0a1b2c3d"),
        "kubernetes.addons.observability_workspace_arn",
        "wrong-format",
    ),
    "workspace of another region": (
        addons(observability_workspace_arn=WORKSPACE.format(region="us-east-1")),
        "kubernetes.addons.observability_workspace_arn",
        "workspace-region",
    ),
    "workspace of another account": (
        both(
            lambda c: c.update(account="444455556666"),
            addons(observability_workspace_arn=WORKSPACE.format(region="us-west-2")),
        ),
        "kubernetes.addons.observability_workspace_arn",
        "workspace-account",
    ),
    "add-on that is none of HyperPod's": (
        addons(keda=True),
        "kubernetes.addons.keda",
        "unknown-field",
    ),
    "feature switched by a word": (
        addons(training_operator="yes"),
        "kubernetes.addons.training_operator",
        "wrong-type",
    ),
    "inference operator on arm64 system nodes": (
        both(model(mode="operator", replicas=1), system(instance_type="m7g.xlarge")),
        "kubernetes.system_group.instance_type",
        "not-allowed",
    ),
    "no pod slots for the inference add-on": (
        crowded,
        "kubernetes.system_group.count",
        "",
        "103",
        "93",
        "13",
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
        "operator-region",
    ),
}
