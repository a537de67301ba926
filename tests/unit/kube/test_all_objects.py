"""What holds for every object of every chart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import cdk8s
import kubernetes_validate
import pytest

from k8s.charts import build_charts, manifest_app
from kascade.plan import ServingPlan
from tests.unit.kube.rendered import (
    WORKLOADS,
    Object,
    containers,
    documents,
    find,
    matches,
    of_kind,
    pod,
    pod_labels,
    ports,
    texts,
)

KUBERNETES = "1.35"
METRICS_PORTS = {
    "m-vllm",
    "m-lmcache",
    "m-cv-master",
    "m-cv-worker",
    "m-cv-fuse",
    "m-router",
    "m-janitor",
}


@pytest.fixture
def plan(any_plan: ServingPlan) -> ServingPlan:
    """Every kind of L2 instead of Curvine alone."""
    return any_plan


def test_every_object_fits_the_schema(objects: list[Object]) -> None:
    for item in objects:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)


def test_no_two_objects_have_one_name(objects: list[Object]) -> None:
    seen = Counter(
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in objects
    )
    assert [name for name, count in seen.items() if count > 1] == []


def test_no_secret_and_no_token_is_written_down(objects: list[Object]) -> None:
    assert of_kind(objects, "Secret") == []
    assert [text for text in texts(objects) if "${Token[" in text] == []


def test_label_values_fit(objects: list[Object]) -> None:
    for item in objects:
        template = item.get("spec", {}).get("template", {})
        every = {
            **item["metadata"]["labels"],
            **template.get("metadata", {}).get("labels", {}),
        }
        assert every["app.kubernetes.io/managed-by"] == "kascade"
        assert max(map(len, every.values())) <= 63


def test_names_fit_a_label_since_kubernetes_copies_them_into_one(objects: list[Object]) -> None:
    for item in of_kind(objects, "Job", "Service", "StatefulSet", "DaemonSet"):
        assert len(item["metadata"]["name"]) <= 63


def test_every_container_port_of_metrics_has_one_of_the_agreed_names(
    objects: list[Object], charts: dict[str, list[Object]]
) -> None:
    named = {
        port["name"]
        for workload in of_kind(objects, *WORKLOADS)
        for item in containers(pod(workload))
        for port in item.get("ports", [])
    }
    curvine = of_kind(charts["cache"], "CSIDriver")
    absent = set() if curvine else {"m-cv-master", "m-cv-worker", "m-cv-fuse"}
    deployments = [item["metadata"]["name"] for item in of_kind(objects, "Deployment")]
    if not any(name.endswith("-janitor") for name in deployments):
        absent.add("m-janitor")
    assert {name for name in named if name.startswith("m-")} == METRICS_PORTS - absent
    assert max(map(len, named)) <= 15


def test_selectors_select_their_own_pods(objects: list[Object]) -> None:
    for workload in of_kind(objects, "Deployment", "StatefulSet", "DaemonSet"):
        assert workload["spec"]["selector"]["matchLabels"]
        assert matches(workload["spec"]["selector"], pod_labels(workload))


def test_no_workload_selects_the_pods_of_another(objects: list[Object]) -> None:
    workloads = of_kind(objects, *WORKLOADS)
    for workload in of_kind(objects, "Deployment", "StatefulSet", "DaemonSet"):
        selected = [
            other["metadata"]["name"]
            for other in workloads
            if matches(workload["spec"]["selector"], pod_labels(other))
        ]
        assert selected == [workload["metadata"]["name"]]


def test_services_and_budgets_select_pods_of_one_workload(objects: list[Object]) -> None:
    workloads = of_kind(objects, *WORKLOADS)
    for item in of_kind(objects, "Service", "PodDisruptionBudget"):
        spec = item["spec"]
        wanted = spec["selector"]
        selector = {"matchLabels": wanted} if item["kind"] == "Service" else wanted
        (workload,) = [other for other in workloads if matches(selector, pod_labels(other))]
        names = {
            port["name"] for part in containers(pod(workload)) for port in part.get("ports", [])
        }
        for port in spec.get("ports", []):
            target = port.get("targetPort", port["port"])
            assert target in names | ports(workload)


def test_probes_ask_ports_that_the_container_has(objects: list[Object]) -> None:
    for workload in of_kind(objects, *WORKLOADS):
        for item in containers(pod(workload)):
            declared = {
                value
                for port in item.get("ports", [])
                for value in (port["name"], port["containerPort"])
            }
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                probe = item.get(kind, {})
                action = probe.get("httpGet") or probe.get("tcpSocket")
                assert action is None or action["port"] in declared


def test_every_volume_is_mounted_and_every_mount_has_its_volume(objects: list[Object]) -> None:
    for workload in of_kind(objects, *WORKLOADS):
        spec = pod(workload)
        claims = workload["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        mounted = {
            mount["name"] for item in containers(spec) for mount in item.get("volumeMounts", [])
        }
        assert mounted == volumes


def test_network_policies_open_only_ports_that_somebody_listens_on(
    objects: list[Object],
) -> None:
    workloads = of_kind(objects, *WORKLOADS)
    for policy in of_kind(objects, "NetworkPolicy"):
        spec = policy["spec"]
        selected = [
            workload
            for workload in workloads
            if workload["metadata"]["namespace"] == policy["metadata"]["namespace"]
            and matches(spec["podSelector"], pod_labels(workload))
        ]
        if not spec["podSelector"]:
            continue
        assert selected, policy["metadata"]["name"]
        opened = {port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]}
        for workload in selected:
            assert opened <= ports(workload)
        for rule in spec.get("egress", []):
            for peer in rule["to"]:
                if "podSelector" in peer:
                    targets = [
                        item for item in workloads if matches(peer["podSelector"], pod_labels(item))
                    ]
                    assert targets
                    for target in targets:
                        assert {port["port"] for port in rule["ports"]} <= ports(target)


def test_every_port_of_a_closed_namespace_is_reached_through_a_policy(
    plan: ServingPlan, objects: list[Object]
) -> None:
    closed = {plan.namespaces.serving, plan.namespaces.cache}
    policies = of_kind(objects, "NetworkPolicy")
    for workload in of_kind(objects, *WORKLOADS):
        if workload["metadata"]["namespace"] not in closed:
            continue
        opened = {
            port["port"]
            for policy in policies
            if policy["metadata"]["namespace"] == workload["metadata"]["namespace"]
            and policy["spec"]["podSelector"]
            and matches(policy["spec"]["podSelector"], pod_labels(workload))
            for rule in policy["spec"].get("ingress", [])
            for port in rule["ports"]
        }
        assert opened == ports(workload)


def test_only_pods_that_ask_the_api_server_have_a_token(
    plan: ServingPlan, objects: list[Object]
) -> None:
    closed = {plan.namespaces.serving, plan.namespaces.cache}
    with_token = {
        workload["metadata"]["labels"]["app.kubernetes.io/component"]
        for workload in of_kind(objects, *WORKLOADS)
        if workload["metadata"]["namespace"] in closed
        and pod(workload)["automountServiceAccountToken"]
    }
    assert with_token <= {"router", "janitor", "csi-node", "csi-controller", "cache-keys"}
    for workload in of_kind(objects, *WORKLOADS):
        account = pod(workload).get("serviceAccountName")
        if account is not None:
            find(objects, "ServiceAccount", account)


def test_only_named_pods_are_privileged(objects: list[Object]) -> None:
    privileged = {
        workload["metadata"]["name"]
        for workload in of_kind(objects, *WORKLOADS)
        for item in containers(pod(workload))
        if item.get("securityContext", {}).get("privileged")
    }
    assert privileged <= {"curvine-csi-node", "aws-efa-k8s-device-plugin"}


def test_serving_pods_pass_pod_security_baseline(plan: ServingPlan, objects: list[Object]) -> None:
    for workload in of_kind(objects, *WORKLOADS):
        if workload["metadata"]["namespace"] != plan.namespaces.serving:
            continue
        spec = pod(workload)
        host = {
            volume["name"]: volume["hostPath"]["path"]
            for volume in spec.get("volumes", [])
            if "hostPath" in volume
        }
        # The exception of L2 "managed"; everything else is what baseline asks for.
        assert set(host.values()) <= {plan.platform.host_directory}
        assert not spec.get("hostNetwork")
        for item in containers(spec):
            mounts = [m for m in item.get("volumeMounts", []) if m["name"] in host]
            assert all(mount["readOnly"] for mount in mounts)
            context = item["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}


MAY_BE_ROOT = {
    # The engine image has no other user, and the cache's key is a file of root's.
    "vllm",
    "lmcache",
    "check-cache-mount",
    # They have to see what the two of them will see.
    "check-gpu",
    "check-cache-gpu",
    # So what engines write belongs to root, and who makes or deletes it has to be that as well.
    "check-claim",
    "make-directories",
    "janitor",
    # Curvine's images have none either; its workers' directories are root's, as is the kubelet's
    # socket, and its CSI plugin mounts FUSE.
    "master",
    "worker",
    "check-nvme",
    "bootstrap",
    "csi-plugin",
    "heal-mounts",
    "csi-provisioner",
    "node-driver-registrar",
    # Device plugins register at the kubelet's socket; HyperPod's agent is as AWS's chart has it.
    "nvidia-device-plugin-ctr",
    "aws-efa-k8s-device-plugin",
    "health-monitoring-agent",
}


def test_only_named_containers_may_run_as_root(objects: list[Object]) -> None:
    root = set()
    for workload in of_kind(objects, *WORKLOADS):
        spec = pod(workload)
        for item in containers(spec):
            context = {**spec.get("securityContext", {}), **item.get("securityContext", {})}
            if not context.get("runAsNonRoot"):
                root.add(item["name"])
    assert root <= MAY_BE_ROOT


def test_files_are_named_after_the_charts(tmp_path: Path, default_plan: ServingPlan) -> None:
    app = manifest_app(str(tmp_path))
    charts = build_charts(app, default_plan)
    app.synth()
    names = [f"{chart.node.id}.yaml" for chart in charts.in_order]
    assert names == [
        "platform.yaml",
        "cache.yaml",
        "engine-qwen2-7b.yaml",
        "router.yaml",
        "dashboards.yaml",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for chart in charts.in_order:
        written = documents((tmp_path / f"{chart.node.id}.yaml").read_text())
        assert written == chart.to_json()


def test_what_the_serving_stack_applies(default_plan: ServingPlan) -> None:
    charts = build_charts(cdk8s.Testing.app(), default_plan)
    names = [chart.node.id for chart in charts.serving]
    assert names == ["cache", "engine-qwen2-7b", "router"]


def test_without_observability_there_are_no_dashboards(default_plan: ServingPlan) -> None:
    charts = build_charts(cdk8s.Testing.app(), replace(default_plan, observability=None))
    assert charts.dashboards is None


def _search_path(root: Path) -> str:
    return os.pathsep.join(map(str, (root, root / "constructs")))


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_renders_the_same_bytes(
    seed: str, default_charts: dict[str, list[Object]]
) -> None:
    program = (
        "import json\n"
        "from kascade import plan_file\n"
        "from tests.unit.kube.rendered import render\n"
        "print(json.dumps(render(plan_file('config/default.yaml'))))\n"
    )
    root = Path(__file__).parents[3]
    answer = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        cwd=root,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": _search_path(root),
        },
    )
    assert answer.stdout.strip() == json.dumps(default_charts)


def test_the_kubernetes_side_does_not_load_the_cdk() -> None:
    program = "import sys, k8s.charts; sys.exit('aws_cdk' in sys.modules)"
    root = Path(__file__).parents[3]
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": _search_path(root)},
    )
