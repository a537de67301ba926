"""What others bring into a cluster beside nodes: AWS its pods and EBS volumes, people a claim."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kascade.catalog.instances import INSTANCES
from kascade.plan import ServingPlan
from kascade.sizing.host import Daemon, daemons
from tests.rehearsal.kubectl import Kubectl, KubectlError, Object
from tests.rehearsal.nodes import SYSTEM_LABEL, TYPE_LABEL, ZONE_LABEL

EBS: Final = "ebs.csi.aws.com"
S3: Final = "s3.csi.aws.com"
FSX: Final = "fsx.csi.aws.com"
_OWN_DAEMONS: Final = ("health-monitoring-agent", "nvidia-device-plugin", "efa-device-plugin")
"""Those that Kascade's own charts bring; Curvine's are known by their prefix."""

_SYSTEM_DAEMONS: Final = (
    "aws-node",
    "kube-proxy",
    "eks-pod-identity-agent",
    "ebs-csi-node",
    "s3-csi-node",
    "fsx-csi-node",
)
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


def aws_workloads(plan: ServingPlan) -> list[Object]:
    """Return the pods of the EKS add-ons and of HyperPod, with the sizes that the plan assumes.

    They take the room on the nodes that they take in a real cluster. One DaemonSet for each
    instance type, since HyperPod's memory daemon is as large as its share of the node's RAM.
    """
    found: list[Object] = []
    features = plan.cluster.features
    operator_managed = features is not None and features.inference is not None
    s3_driver = bool(plan.cluster.weights) or operator_managed
    for instance_type in sorted({t for group in plan.cluster.groups for t in group.instance_types}):
        instance = INSTANCES[instance_type]
        percentage = plan.cluster.tiered_storage_percentage
        for daemon in daemons(
            instance,
            curvine=False,
            tiered_storage=percentage is not None,
            s3_driver=s3_driver,
            s3_volumes=_mounted_from_s3(plan, instance_type),
            fsx_driver=operator_managed,
        ):
            if daemon.name in _OWN_DAEMONS and plan.platform.agents:
                continue
            tiered_mib = instance.ram_gib * 1024 * (percentage or 0) // 100
            extra_mib = tiered_mib if daemon.name == "ai-toolkit" else 0
            found.append(
                _daemonset(
                    daemon, instance_type, where={TYPE_LABEL: instance_type}, extra_mib=extra_mib
                )
            )
    some = INSTANCES[plan.cluster.groups[0].instance_type]
    found += [
        _daemonset(daemon, "system", where={SYSTEM_LABEL: "system"}, extra_mib=0)
        for daemon in daemons(
            some,
            curvine=False,
            tiered_storage=False,
            s3_driver=s3_driver,
            fsx_driver=operator_managed,
        )
        if daemon.name in _SYSTEM_DAEMONS
    ]
    found += [
        _csi_driver(name) for name, there in ((S3, s3_driver), (FSX, operator_managed)) if there
    ]
    # Requests as in the two EKS add-ons' published defaults.
    found.append(_deployment("coredns", cpu_millicores=100, memory_mib=70, labels=_DNS_LABELS))
    found.append(_deployment("ebs-csi-controller", cpu_millicores=60, memory_mib=240, labels={}))
    if operator_managed:
        found += [
            _deployment(name, cpu_millicores=cpu, memory_mib=memory, labels={}, replicas=replicas)
            for name, cpu, memory, replicas in _OF_THE_OPERATOR
        ]
    return found


def _mounted_from_s3(plan: ServingPlan, instance_type: str) -> list[str]:
    return [
        engine.name
        for engine in plan.engines
        if instance_type in engine.instance_types
        and engine.mounted_weights is not None
        and engine.mounted_weights.bucket is not None
    ]


def _csi_driver(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"attachRequired": False, "podInfoOnMount": True},
    }


def claims_of_people(plan: ServingPlan) -> list[Object]:
    """Return the claims that engines mount and somebody else has to make, with their volumes."""
    found: list[Object] = []
    for engine in plan.engines:
        mounted = engine.mounted_weights
        if mounted is not None and mounted.bucket is None:
            nfs = {"server": "files.example.com", "path": "/models", "readOnly": True}
            found += _claimed(engine.namespace, mounted.claim, "ReadOnlyMany", {"nfs": nfs})
    if plan.directories is not None:
        csi = {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0123456789abcdef0"}
        shared = plan.directories
        found += _claimed(shared.namespace, shared.claim, "ReadWriteMany", {"csi": csi})
    return found


def _claimed(namespace: str, name: str, mode: str, files: Object) -> list[Object]:
    """Return a claim and the volume that it is meant for."""
    place, volume = {"namespace": namespace, "name": name}, f"people-{name}"
    same: Object = {"accessModes": [mode], "storageClassName": ""}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": same | files | {"capacity": {"storage": "2400Gi"}, "claimRef": place},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": place,
            "spec": same | {"volumeName": volume, "resources": {"requests": {"storage": "2400Gi"}}},
        },
    ]


_OF_THE_OPERATOR: Final = (
    ("cert-manager", 10, 32, 3),
    ("metrics-server", 100, 200, 2),
    ("fsx-csi-controller", 40, 160, 2),
    ("hyperpod-inference-controller-manager", 500, 256, 1),
    ("hyperpod-inference-alb", 100, 128, 2),
    ("keda", 100, 128, 3),
)
"""Pods of the inference add-on and of those that it needs: requests of the operator as in its
manager.yaml, of metrics-server as in its add-on; the rest are estimates."""

_DNS_LABELS: Final = {"k8s-app": "kube-dns"}


def _daemonset(daemon: Daemon, suffix: str, *, where: dict[str, str], extra_mib: int) -> Object:
    name = f"{daemon.name}-{suffix.replace('.', '-')}"
    labels = {"app.kubernetes.io/name": name}
    template = _template(
        labels, cpu_millicores=daemon.cpu_millicores, memory_mib=daemon.memory_mib + extra_mib
    )
    template["spec"] |= {
        "nodeSelector": where,
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _deployment(
    name: str, *, cpu_millicores: int, memory_mib: int, labels: dict[str, str], replicas: int = 2
) -> Object:
    labels = {"app.kubernetes.io/name": name} | labels
    template = _template(labels, cpu_millicores=cpu_millicores, memory_mib=memory_mib)
    template["spec"] |= {"priorityClassName": "system-cluster-critical"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def _template(labels: dict[str, str], *, cpu_millicores: int, memory_mib: int) -> Object:
    requests = {"cpu": f"{cpu_millicores}m", "memory": f"{memory_mib}Mi"}
    container = {"name": "main", "image": "aws", "resources": {"requests": requests}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}


class EbsProvisioner:
    """Makes and deletes EBS volumes as the CSI driver would, in a thread of its own.

    A claim whose pod has a node gets a volume in the node's zone, and a released volume whose
    class says so is deleted. Nothing is attached or mounted.
    """

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        # kubectl watches one kind at a time.
        self._watches = {
            kind: kubectl.popen("get", kind, "-A", "-w", "-o", "json")
            for kind in ("persistentvolumeclaims", "persistentvolumes")
        }
        acts = {"persistentvolumeclaims": self._provision, "persistentvolumes": self._reclaim}
        self._threads = [
            threading.Thread(target=self._follow, args=(watch, acts[kind]), daemon=True)
            for kind, watch in self._watches.items()
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        for watch in self._watches.values():
            watch.terminate()
            watch.wait()
        for thread in self._threads:
            thread.join()

    def _follow(self, watch: subprocess.Popen[str], act: Callable[[Object], None]) -> None:
        assert watch.stdout is not None
        for item in _documents(watch.stdout):
            try:
                act(item)
            except KubectlError as error:
                # Gone before its turn, or done already; what is not is asked for by a later event.
                if "NotFound" not in str(error) and "AlreadyExists" not in str(error):
                    raise

    def _provision(self, claim: Object) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        node = meta.get("annotations", {}).get(_SELECTED_NODE)
        if node is None or spec.get("volumeName") or not spec.get("storageClassName"):
            return
        (storage,) = self._kubectl.get("storageclass", spec["storageClassName"])
        if storage["provisioner"] != EBS:
            return
        (host,) = self._kubectl.get("node", node)
        zone = host["metadata"]["labels"][ZONE_LABEL]
        self._kubectl.create([_volume(claim, storage, zone)])

    def _reclaim(self, volume: Object) -> None:
        spec = volume["spec"]
        released = volume.get("status", {}).get("phase") == "Released"
        ours = spec.get("csi", {}).get("driver") == EBS
        if released and ours and spec["persistentVolumeReclaimPolicy"] == "Delete":
            self._kubectl("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")


def _volume(claim: Object, storage: Object, zone: str) -> Object:
    meta, spec = claim["metadata"], claim["spec"]
    term = {"key": ZONE_LABEL, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{meta['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": EBS},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "csi": {
                "driver": EBS,
                "volumeHandle": "vol-" + hashlib.sha256(meta["uid"].encode()).hexdigest()[:17],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            "persistentVolumeReclaimPolicy": storage["reclaimPolicy"],
            "storageClassName": storage["metadata"]["name"],
        },
    }


def _documents(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Cut kubectl's stream into objects: each ends with a brace in the first column."""
    held: list[str] = []
    for line in lines:
        held.append(line)
        if line.startswith("}"):
            yield json.loads("".join(held))
            held.clear()
