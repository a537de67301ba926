"""Errors made on purpose in the rendered manifests, each of which this ring has to notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.rehearsal.cluster import CRDS, Cluster
from tests.rehearsal.evictions import engine_pods, evict, silent
from tests.rehearsal.kubectl import KubectlError, Object
from tests.rehearsal.rendered import Rendered, read

pytestmark = pytest.mark.parametrize("rendered", ["default"], indirect=True)

ENGINE = "qwen2-7b"


@dataclass(frozen=True)
class Mistake:
    """A change of one object, and the words in which it has to be reported."""

    kind: str
    make: Callable[[Object], None]
    words: str
    name: str = ENGINE


def _id(mistake: Mistake) -> str:
    return mistake.make.__name__


# --- what the API server rejects ------------------------------------------------------------------


def other_labels(deployment: Object) -> None:
    deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"


def other_selector(deployment: Object) -> None:
    deployment["spec"]["selector"]["matchLabels"] = {"app.kubernetes.io/name": "vllm"}


def other_type(storage: Object) -> None:
    storage["parameters"]["type"] = "io2"


def long_label(item: Object) -> None:
    item["metadata"]["labels"]["app.kubernetes.io/part-of"] = "x" * 64


def other_template(job: Object) -> None:
    job["spec"]["template"]["spec"]["containers"][0]["image"] += "-next"


def null_gpu(deployment: Object) -> None:
    """What a patch of the typed object was once seen to render."""
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {
        "nvidia.com/gpu": None
    }


def privileged(deployment: Object) -> None:
    deployment["spec"]["template"]["spec"]["hostNetwork"] = True
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["hostPort"] = 8000


REFUSED = [
    Mistake("Deployment", other_labels, "`selector` does not match template `labels`"),
    Mistake("Deployment", other_selector, "field is immutable"),
    Mistake("StorageClass", other_type, "forbidden|immutable", name="kascade-gp3"),
    Mistake("Deployment", long_label, "must be no more than 63"),
    Mistake("Job", other_template, "field is immutable", name=""),
    Mistake("Deployment", privileged, "would violate PodSecurity"),
    Mistake("Deployment", null_gpu, "must be equal to nvidia.com/gpu limit of 0"),
]


@pytest.mark.parametrize("mistake", REFUSED, ids=_id)
def test_the_api_server_refuses(cluster: Cluster, rendered: Rendered, mistake: Mistake) -> None:
    broken = rendered.changed(mistake.kind, mistake.make, mistake.name)
    options = ("--force-conflicts", "--dry-run=server")
    with pytest.raises(KubectlError, match=mistake.words):
        cluster.kubectl.apply([broken.find(mistake.kind, mistake.name)], *options)


def test_a_custom_resource_before_its_definition(cluster: Cluster) -> None:
    definition = read(CRDS / "inferenceendpointconfigs.yaml")[0]
    resource = {
        "apiVersion": "inference.sagemaker.aws.amazon.com/v1",
        "kind": "InferenceEndpointConfig",
        "metadata": {"name": "early", "namespace": "default"},
        "spec": {
            "modelName": "early",
            "modelSourceConfig": {"modelSourceType": "huggingface"},
            "worker": {
                "image": "x",
                "modelInvocationPort": {"containerPort": 8000},
                "modelVolumeMount": {"name": "x"},
                "resources": {},
            },
        },
    }
    cluster.kubectl.delete([definition])
    try:
        with pytest.raises(KubectlError, match="ensure CRDs are installed first"):
            cluster.kubectl.apply([resource])
    finally:
        cluster.define_crds()
    cluster.kubectl.apply([resource])
    cluster.kubectl.delete([resource])


# --- what only the running cluster shows ----------------------------------------------------------


def greedy(deployment: Object) -> None:
    for limit in ("requests", "limits"):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["resources"][limit]["nvidia.com/gpu"] = 2


def fat(deployment: Object) -> None:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    for limit in ("requests", "limits"):
        container["resources"][limit]["memory"] = "64Gi"


def surge(deployment: Object) -> None:
    deployment["spec"]["strategy"]["rollingUpdate"] = {"maxSurge": 1, "maxUnavailable": 0}
    deployment["spec"]["template"]["metadata"]["annotations"] = {"change": "1"}


def lost_service(service: Object) -> None:
    service["spec"]["selector"]["app.kubernetes.io/instance"] = "nobody"


def lost_port(service: Object) -> None:
    service["spec"]["ports"][0]["targetPort"] = "m-nothing"


def wrong_port_name(policy: Object) -> None:
    policy["spec"]["ingress"][0]["ports"][0]["port"] = "m-vlm"


def wrong_peer(policy: Object) -> None:
    policy["spec"]["egress"][0]["to"][0]["podSelector"]["matchLabels"] = {"k8s-app": "kubedns"}


def lost_policy(policy: Object) -> None:
    policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] = "engines"


def other_port(policy: Object) -> None:
    policy["spec"]["ingress"][0]["ports"][0]["port"] = 9000


def no_udp(policy: Object) -> None:
    ports = policy["spec"]["egress"][0]["ports"]
    ports[:] = [port for port in ports if port["protocol"] != "UDP"]


def no_egress(policy: Object) -> None:
    policy["spec"]["egress"] = []


def stranger(policy: Object) -> None:
    policy["spec"]["ingress"][0]["from"] = [{"podSelector": {"matchLabels": {"app": "nobody"}}}]


def open_gateway(policy: Object) -> None:
    policy["spec"]["ingress"] = [{}]


def lost_budget(budget: Object) -> None:
    budget["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] = "nobody"


def rigid_budget(budget: Object) -> None:
    budget["spec"]["maxUnavailable"] = 0


def nowhere(daemons: Object) -> None:
    daemons["spec"]["template"]["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"] = (
        "g6e.4xlarge"  # EC2's name; HyperPod's nodes carry ml.g6e.4xlarge
    )


NOTICED = [
    Mistake("Deployment", greedy, "Insufficient nvidia.com/gpu"),
    Mistake("Deployment", fat, "Insufficient memory"),
    Mistake("Deployment", surge, "Insufficient nvidia.com/gpu"),
    Mistake("Service", lost_service, f"Service kascade/{ENGINE} has no ready pod"),
    Mistake("Service", lost_port, "no chosen pod has a port called m-nothing"),
    Mistake("NetworkPolicy", wrong_port_name, "allows ingress on port m-vlm"),
    Mistake("NetworkPolicy", wrong_peer, "lets pods reach none", name="allow-dns"),
    Mistake("NetworkPolicy", lost_policy, f"NetworkPolicy kascade/{ENGINE} chooses no pod"),
    Mistake("NetworkPolicy", other_port, "worker kascade to master kascade", name="curvine-master"),
    Mistake("NetworkPolicy", no_udp, "on 53/UDP from happening: no egress", name="allow-dns"),
    Mistake("NetworkPolicy", no_egress, "no egress rule allows it", name=f"{ENGINE}-router"),
    Mistake("NetworkPolicy", stranger, f"to engine {ENGINE} on m-vllm/TCP from happening"),
    Mistake("NetworkPolicy", open_gateway, f"let pod coredns to engine {ENGINE} on m-vllm/TCP"),
    Mistake("PodDisruptionBudget", lost_budget, "protects no pod"),
    Mistake("PodDisruptionBudget", rigid_budget, "lets no pod go"),
    Mistake("DaemonSet", nowhere, "curvine-worker-gpu finds no node", name="curvine-worker-gpu"),
]


@pytest.mark.parametrize("mistake", NOTICED, ids=_id)
def test_the_ring_notices(cluster: Cluster, rendered: Rendered, mistake: Mistake) -> None:
    broken = rendered.changed(mistake.kind, mistake.make, mistake.name)
    cluster.kubectl.apply([broken.find(mistake.kind, mistake.name)], "--force-conflicts")
    try:
        cluster.complains(mistake.words)
    finally:
        right = rendered.find(mistake.kind, mistake.name)
        cluster.kubectl.apply([right], "--force-conflicts")
        cluster.forget_events()
        cluster.settle()


def no_protection(budget: Object) -> None:
    budget["spec"]["maxUnavailable"] = "100%"


def test_a_budget_that_protects_nothing_lets_the_last_replica_go(
    restored: Cluster, rendered: Rendered
) -> None:
    """What `test_behaviour` shows of a draining replica is the budget's doing."""
    broken = rendered.changed("PodDisruptionBudget", no_protection, ENGINE)
    restored.kubectl.apply([broken.find("PodDisruptionBudget", ENGINE)], "--force-conflicts")
    draining, other = engine_pods(restored, ENGINE)

    def all_may_go() -> bool:
        (budget,) = restored.kubectl.get("pdb", ENGINE, "-n", "kascade")
        return bool(budget["status"].get("disruptionsAllowed") == 2)

    assert restored.within(all_may_go, 30)
    with silent(restored, draining["spec"]["nodeName"]):
        evict(restored, draining)
        evict(restored, other)


def test_a_surge_on_full_gpus_never_completes(restored: Cluster, rendered: Rendered) -> None:
    broken = rendered.changed("Deployment", surge, ENGINE)
    restored.kubectl.apply([broken.find("Deployment", ENGINE)], "--force-conflicts")
    with pytest.raises(KubectlError, match="timed out"):
        restored.kubectl(
            "rollout", "status", f"deployment/{ENGINE}", "-n", "kascade", "--timeout=6s"
        )
