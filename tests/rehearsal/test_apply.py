"""Every chart of every configuration, applied to a real API server.

The cluster is installed before the first of these: each apply was without warning, every pod got
a node and ran, every claim its volume, or the fixture would have failed with the sentences.
"""

from __future__ import annotations

import pytest

from tests.rehearsal.checks import wanted_pods
from tests.rehearsal.cloud import EBS, claims_of_people
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import KubectlError, Object
from tests.rehearsal.nodes import GROUP_LABEL, TYPE_LABEL, planned_groups
from tests.rehearsal.rendered import Rendered, identity
from tests.rehearsal.snapshot import Snapshot, matches

ENGINES = {"app.kubernetes.io/component": "engine"}
"""A model's janitor and proof carry its name as well."""


def test_every_object_is_there(cluster: Cluster, rendered: Rendered) -> None:
    wanted = {identity(item) for item in rendered.objects()}
    assert wanted - set(cluster.versions(rendered)) == set()


def test_as_many_pods_run_as_the_plan_wants(cluster: Cluster, rendered: Rendered) -> None:
    """Counted from the plan, not from what the controllers think they should make."""
    running = {
        identity(item): item.get("status", {})
        for item in cluster.kubectl.everywhere(["deployments"])
    }
    for engine in rendered.plan.engines:
        status = running[f"{engine.namespace}/Deployment/{engine.name}"]
        assert status["availableReplicas"] == engine.replicas
    written = {item["kind"] for item in rendered.objects()}
    for kind, wanted, scheduled, run in cluster.table():
        assert wanted == scheduled == run
        assert run > 0 or kind not in written


def test_gpus_are_taken_exactly(cluster: Cluster, rendered: Rendered) -> None:
    taken = 0
    for pod in cluster.kubectl.everywhere(["pods"]):
        for container in pod["spec"]["containers"]:
            taken += int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
    assert taken == sum(engine.replicas * engine.gpus for engine in rendered.plan.engines)


def test_daemons_stand_on_their_groups_and_nowhere_else(
    cluster: Cluster, rendered: Rendered
) -> None:
    plan = rendered.plan
    hyperpod = {group.name for group in plan.cluster.groups}
    expected: dict[str, set[str]] = {
        "health-monitoring-agent": {g.name for g in plan.cluster.groups if g.gpus},
        "nvidia-device-plugin": {g.name for g in plan.cluster.groups if g.gpus},
    }
    if not plan.platform.agents:
        expected = {}
    elif plan.cluster.efa_instance_types:
        expected["aws-efa-k8s-device-plugin"] = {g.name for g in plan.cluster.groups if g.efa_types}
    if plan.curvine is not None:
        expected["curvine-csi-node"] = hyperpod
        for worker in plan.curvine.workers:
            expected[f"curvine-worker-{worker.group}"] = {worker.group}
    ours = {item["metadata"]["name"] for item in rendered.objects() if item["kind"] == "DaemonSet"}
    assert ours == set(expected)

    found = cluster.kubectl.get("nodes")
    group_of = {node["metadata"]["name"]: _labels(node).get(GROUP_LABEL) for node in found}
    with_efa = {
        node["metadata"]["name"]
        for node in found
        if _labels(node).get(TYPE_LABEL) in plan.cluster.efa_instance_types
    }
    pods = cluster.kubectl.everywhere(["pods"])
    for name, groups in expected.items():
        wanted = {node for node, group in group_of.items() if group in groups}
        if name == "aws-efa-k8s-device-plugin":
            # A group may be of several types, of which not every one has EFA.
            wanted &= with_efa
        nodes = [
            pod["spec"]["nodeName"]
            for pod in pods
            if {"kind": "DaemonSet", "name": name}.items() <= _owner(pod).items()
        ]
        assert sorted(nodes) == sorted(wanted), name


def _owner(pod: Object) -> Object:
    owners: list[Object] = pod["metadata"].get("ownerReferences", [{}])
    return owners[0]


def test_engines_stand_on_their_group_and_the_rest_on_system_nodes(
    cluster: Cluster, rendered: Rendered
) -> None:
    group_of = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(GROUP_LABEL)
        for node in cluster.kubectl.get("nodes")
    }
    pods = Snapshot.take(cluster.kubectl).of("Pod")
    for engine in rendered.plan.engines:
        labels = {"app.kubernetes.io/instance": engine.name} | ENGINES
        own = {"matchLabels": labels}
        groups = [group_of[p["spec"]["nodeName"]] for p in pods if matches(own, _labels(p))]
        assert groups == [engine.group] * engine.replicas
    components = ("router",) if rendered.plan.curvine is None else ("router", "master")
    for component in components:
        own = {"matchLabels": {"app.kubernetes.io/component": component}}
        groups = [group_of[p["spec"]["nodeName"]] for p in pods if matches(own, _labels(p))]
        assert set(groups) == {None}, component


def _labels(item: Object) -> dict[str, str]:
    labels: dict[str, str] = item["metadata"].get("labels", {})
    return labels


def test_nodes_have_what_the_plan_counts_with(cluster: Cluster, rendered: Rendered) -> None:
    """The simulation itself: a node with more room than the plan assumes would prove nothing."""
    nodes = cluster.kubectl.get("nodes")
    groups = planned_groups(rendered.plan)
    assert len(nodes) == sum(group.count for group in groups.values())
    for group in rendered.plan.cluster.groups:
        own = [node for node in nodes if _labels(node).get(GROUP_LABEL) == group.name]
        assert len(own) == group.count
        for node in own:
            assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(group.gpus)
            assert node["status"]["allocatable"]["pods"] == str(group.max_pods)
            assert node["status"]["allocatable"]["memory"] == f"{group.allocatable_ram.value:.0f}Mi"


def test_claims_have_the_volumes_meant_for_them(cluster: Cluster, rendered: Rendered) -> None:
    """Curvine's and buckets' the ones of our charts, people's their own, all others one of EBS."""
    given = [*rendered.objects(), *claims_of_people(rendered.plan)]
    static = {
        item["spec"]["claimRef"]["name"]: item["metadata"]["name"]
        for item in given
        if item["kind"] == "PersistentVolume"
    }
    claims = cluster.kubectl.everywhere(["persistentvolumeclaims"])
    volumes = {
        item["metadata"]["name"]: item["spec"] for item in cluster.kubectl.get("persistentvolumes")
    }
    masters = 0 if rendered.plan.curvine is None else rendered.plan.curvine.masters
    downloads = sum(e.replicas for e in rendered.plan.engines if e.mounted_weights is None)
    assert len(claims) == len(static) + 2 * masters + downloads
    for claim in claims:
        name, spec = claim["metadata"]["name"], claim["spec"]
        assert claim["status"]["phase"] == "Bound"
        assert spec["volumeName"] == static.get(name, f"pvc-{claim['metadata']['uid']}")
        volume = volumes[spec["volumeName"]]
        assert volume.get("storageClassName", "") == spec["storageClassName"]
        if name in static:
            (source,) = (
                item["spec"]
                for item in given
                if item["kind"] == "PersistentVolume" and item["metadata"]["name"] == static[name]
            )
            assert volume.get("csi", {}).get("driver") == source.get("csi", {}).get("driver") != EBS
        else:
            assert volume["csi"]["driver"] == EBS


def test_a_second_apply_changes_nothing(cluster: Cluster, rendered: Rendered) -> None:
    before = cluster.versions(rendered)
    cluster.apply(rendered)
    assert cluster.versions(rendered) == before


def test_pod_security_refuses_a_privileged_pod(cluster: Cluster, rendered: Rendered) -> None:
    container = {"name": "x", "image": "x", "securityContext": {"privileged": True}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder", "namespace": rendered.plan.namespaces.serving},
        "spec": {"containers": [container]},
    }
    managed = rendered.plan.platform.host_directory is not None
    words = "privileged containers are not allowed" if managed else "violates PodSecurity"
    with pytest.raises(KubectlError, match=words):
        cluster.kubectl.apply([pod])


def test_admission_policies_are_obeyed(cluster: Cluster) -> None:
    """The server runs ValidatingAdmissionPolicy, so what a chart brings of it takes effect."""
    policy: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "rehearsal"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'rejected'"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "rehearsal"},
        "spec": {"policyName": "rehearsal", "validationActions": ["Deny"]},
    }

    def refused() -> bool:
        done = cluster.kubectl.run("create", "configmap", "rejected", "--dry-run=server")
        return "ValidatingAdmissionPolicy" in done.stderr

    try:
        cluster.kubectl.apply([policy, binding])
        assert cluster.within(refused, 20)
        cluster.kubectl("create", "configmap", "accepted", "--dry-run=server")
    finally:
        cluster.kubectl.delete([binding, policy])


@pytest.mark.needs_kubernetes("1.36")
def test_mutating_admission_policies_are_served(cluster: Cluster) -> None:
    served = cluster.kubectl("api-resources", "--api-group=admissionregistration.k8s.io", "-o=name")
    assert "mutatingadmissionpolicies.admissionregistration.k8s.io" in served


def test_as_many_pods_are_wanted_as_the_manifests_say(cluster: Cluster, rendered: Rendered) -> None:
    """The table printed at the end counts what the API server has; this is what it should have."""
    kinds = ("deployments", "statefulsets", "jobs")
    live = {identity(item): wanted_pods(item) for item in cluster.kubectl.everywhere(kinds)}
    written = {
        identity(item): item["spec"].get("replicas", 1)
        for item in rendered.objects()
        if item["kind"] in {"Deployment", "StatefulSet", "Job"}
    }
    assert written
    assert {name: live[name] for name in written} == written
