"""HyperPod's dependencies against AWS's Helm chart, written down by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kascade.errors import KascadeError
from kascade.kube.agents import hyperpod_agents
from kascade.plan import ServingPlan
from tests.unit.kube.rendered import Object, find, of_kind, pod

Rules = set[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]

SERVICE_USER = {
    "apiGroup": "rbac.authorization.k8s.io",
    "kind": "User",
    "name": "hyperpod-service-linked-role",
}
CORE = ("",)
EVENTS = ("", "events.k8s.io")


@pytest.fixture
def platform(charts: dict[str, list[Object]]) -> list[Object]:
    return charts["platform"]


def rules(platform: list[Object], name: str) -> Rules:
    return {
        (tuple(rule["apiGroups"]), tuple(rule["resources"]), tuple(sorted(rule["verbs"])))
        for rule in find(platform, "ClusterRole", name)["rules"]
    }


def types_of(workload: Object) -> list[str]:
    term: Any = pod(workload)["affinity"]["nodeAffinity"]
    (term,) = term["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted = term["matchExpressions"][0]
    assert wanted["key"] == "node.kubernetes.io/instance-type"
    assert wanted["operator"] == "In"
    types: list[str] = wanted["values"]
    return types


def test_health_agent(plan: ServingPlan, platform: list[Object]) -> None:
    assert rules(platform, "health-monitoring-agent") == {
        (CORE, ("nodes",), ("get",)),
        (CORE, ("nodes", "nodes/status"), ("patch",)),
        (EVENTS, ("events",), ("create", "patch", "update")),
    }
    (subject,) = find(platform, "ClusterRoleBinding", "health-monitoring-agent")["subjects"]
    assert subject == {
        "kind": "ServiceAccount",
        "name": "health-monitoring-agent",
        "namespace": "aws-hyperpod",
    }
    agent = find(platform, "DaemonSet", "health-monitoring-agent")
    assert agent["metadata"]["namespace"] == "aws-hyperpod"
    assert agent["spec"]["selector"] == {"matchLabels": {"app": "health-monitoring-agent"}}
    assert types_of(agent) == list(plan.platform.gpu_instance_types)
    spec = pod(agent)
    assert spec["tolerations"] == [
        {"operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute"},
    ]
    (only,) = spec["containers"]
    size = {"cpu": "500m", "memory": "512Mi"}
    assert only["resources"] == {"requests": size, "limits": size}
    assert only["securityContext"] == {"runAsUser": 1000, "runAsGroup": 2000}
    assert {entry["name"] for entry in only["env"]} == {"NODE_NAME", "NODE_IP"}
    assert [(mount["mountPath"], mount["readOnly"]) for mount in only["volumeMounts"]] == [
        ("/var/log/", False),
        ("/dev/kmsg", True),
        ("/etc/localtime", True),
    ]
    assert not {"hostNetwork", "hostPID"} & spec.keys()
    # AWS's chart has none; ours keeps a waiting engine from evicting the agent.
    assert spec["priorityClassName"] == "system-node-critical"


def test_deep_health_check(platform: list[Object]) -> None:
    name = "deep-health-check-service-account"
    account = find(platform, "ServiceAccount", name)
    # The service makes pods with this account; they need its token.
    assert "automountServiceAccountToken" not in account
    assert rules(platform, f"{name}-role") == {
        (CORE, ("nodes",), ("get", "list")),
        (CORE, ("pods",), ("get", "list", "patch")),
    }
    binding = find(platform, "ClusterRoleBinding", f"{name}-role-binding")
    assert binding["roleRef"]["name"] == f"{name}-role"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": name, "namespace": "aws-hyperpod"}
    ]


def test_job_auto_restart(platform: list[Object]) -> None:
    find(platform, "ServiceAccount", "job-auto-restart")
    assert rules(platform, "job-auto-restart") == {
        (
            CORE,
            ("nodes", "nodes/status", "pods", "pods/status"),
            ("get", "list", "watch"),
        ),
        (CORE, ("pods",), ("delete", "deletecollection")),
        (CORE, ("nodes", "nodes/status"), ("patch",)),
        (EVENTS, ("events",), ("create",)),
        (
            ("kubeflow.org",),
            ("pytorchjobs", "pytorchjobs/status"),
            ("delete", "get", "list", "patch", "update", "watch"),
        ),
        (("coordination.k8s.io",), ("leases",), ("create", "delete", "get", "update")),
    }
    assert find(platform, "ClusterRoleBinding", "job-auto-restart")["subjects"] == [SERVICE_USER]


def test_patching(platform: list[Object]) -> None:
    assert rules(platform, "hyperpod-patching") == {
        (CORE, ("pods",), ("list",)),
        (CORE, ("pods/eviction",), ("create",)),
        (CORE, ("nodes",), ("get", "list", "patch")),
    }
    assert find(platform, "ClusterRoleBinding", "hyperpod-patching")["subjects"] == [SERVICE_USER]


def test_device_plugin_and_health_agent_stand_on_the_same_nodes(platform: list[Object]) -> None:
    plugin = find(platform, "DaemonSet", "nvidia-device-plugin")
    agent = find(platform, "DaemonSet", "health-monitoring-agent")
    assert plugin["metadata"]["namespace"] == "kube-system"
    assert types_of(plugin) == types_of(agent)


def test_device_plugin_tolerates_gpu_health_and_own_taints(
    default_plan: ServingPlan,
    rendered: Callable[[ServingPlan], dict[str, list[Object]]],
) -> None:
    platform = replace(default_plan.platform, taint_keys=("team/ours",))
    objects = rendered(replace(default_plan, platform=platform))["platform"]
    tolerated = pod(find(objects, "DaemonSet", "nvidia-device-plugin"))["tolerations"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in tolerated
    assert {"key": "team/ours", "operator": "Exists"} in tolerated
    assert {
        "key": "sagemaker.amazonaws.com/node-health-status",
        "operator": "Equal",
        "value": "Unschedulable",
        "effect": "NoSchedule",
    } in tolerated


@pytest.mark.parametrize("types", [(), ("ml.p5.48xlarge",)])
def test_efa_plugin_only_where_there_is_efa(
    types: tuple[str, ...],
    default_plan: ServingPlan,
    rendered: Callable[[ServingPlan], dict[str, list[Object]]],
) -> None:
    platform = replace(default_plan.platform, efa_instance_types=types)
    objects = rendered(replace(default_plan, platform=platform))["platform"]
    found = [
        item
        for item in of_kind(objects, "DaemonSet")
        if item["metadata"]["name"] == "aws-efa-k8s-device-plugin"
    ]
    assert [types_of(item) for item in found] == ([list(types)] if types else [])


def test_no_gpu_no_agent(
    default_plan: ServingPlan,
    rendered: Callable[[ServingPlan], dict[str, list[Object]]],
) -> None:
    platform = replace(default_plan.platform, gpu_instance_types=(), efa_instance_types=())
    objects = rendered(replace(default_plan, platform=platform))["platform"]
    assert of_kind(objects, "DaemonSet") == []


def test_namespaces(plan: ServingPlan, platform: list[Object]) -> None:
    def enforced(name: str) -> str | None:
        labels = find(platform, "Namespace", name)["metadata"]["labels"]
        level: str | None = labels.get("pod-security.kubernetes.io/enforce")
        return level

    assert enforced(plan.namespaces.serving) == "baseline"
    assert enforced(plan.namespaces.cache) == "privileged"
    assert enforced("aws-hyperpod") is None
    labels = find(platform, "Namespace", "aws-hyperpod")["metadata"]["labels"]
    assert labels["name"] == "aws-hyperpod"


def test_namespaces_are_closed_in_both_directions(
    plan: ServingPlan, platform: list[Object]
) -> None:
    denied = {
        item["metadata"]["namespace"]: item["spec"]
        for item in of_kind(platform, "NetworkPolicy")
        if item["metadata"]["name"] == "default-deny"
    }
    assert denied.keys() == {plan.namespaces.serving, plan.namespaces.cache}
    for spec in denied.values():
        assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_cache_outranks_engines_and_engines_outrank_the_rest(platform: list[Object]) -> None:
    cache, engine = (
        find(platform, "PriorityClass", name)["value"]
        for name in ("kascade-cache", "kascade-engine")
    )
    assert 0 < engine < cache < 1_000_000_000


def test_storage_class(platform: list[Object]) -> None:
    found = find(platform, "StorageClass", "kascade-gp3")
    assert found["parameters"] == {"type": "gp3", "encrypted": "true"}
    assert found["reclaimPolicy"] == "Delete"
    assert found["volumeBindingMode"] == "WaitForFirstConsumer"


def test_a_strangers_cluster_gets_the_same_agents(
    plan: ServingPlan, platform: list[Object]
) -> None:
    types = types_of(find(platform, "DaemonSet", "nvidia-device-plugin"))
    theirs = hyperpod_agents(
        region=plan.region, instance_types=types, taint_keys=plan.platform.taint_keys
    )
    assert all(item in platform for item in theirs)
    assert {item["kind"] for item in theirs} >= {"Namespace", "DaemonSet", "ClusterRole"}
    # What is left out is this project's own: its namespaces with their policies, its classes, and
    # its engines' programs.
    own = {(i["kind"], i["metadata"]["name"]) for i in platform if i not in theirs}
    assert {kind for kind, _ in own} <= {
        "ConfigMap",
        "Namespace",
        "NetworkPolicy",
        "PriorityClass",
        "StorageClass",
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"instance_types": ["ml.m7i.large"]}, "'ml.m7i.large' is not in the catalog"),
        ({"instance_types": []}, "instance_types is empty; name the types of all groups"),
        ({"region": "us-west-9"}, "for region 'us-west-9'"),
    ],
)
def test_an_agent_that_nobody_could_place_is_refused(given: dict[str, Any], sentence: str) -> None:
    arguments = {"region": "us-west-2", "instance_types": ["ml.g6e.4xlarge"]} | given
    with pytest.raises(KascadeError, match=sentence):
        hyperpod_agents(**arguments)


def test_the_gpu_plugin_works_whatever_the_nodes_runtime_accepts(platform: list[Object]) -> None:
    """A node may ignore NVIDIA_VISIBLE_DEVICES of containers without SYS_ADMIN, its own as well."""
    (plugin,) = pod(find(platform, "DaemonSet", "nvidia-device-plugin"))["containers"]
    env = {entry["name"]: entry["value"] for entry in plugin["env"]}
    assert plugin["securityContext"] == {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}
    assert env["NVIDIA_VISIBLE_DEVICES"] == "all"
    # By name to containerd, and by a variable where CDI is off.
    assert env["DEVICE_LIST_STRATEGY"] == "envvar,cdi-cri"
    spec = pod(find(platform, "DaemonSet", "nvidia-device-plugin"))
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    mounts = {paths[mount["name"]]: mount for mount in plugin["volumeMounts"]}
    assert env["NVIDIA_DRIVER_ROOT"] == "/"
    assert mounts["/"]["mountPath"] == "/driver-root"
    assert mounts["/"]["readOnly"] is True
    assert mounts["/var/run/cdi"]["mountPath"] == "/var/run/cdi"
