"""Curvine's workers: blocks on the NVMe of GPU nodes."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import (
    CONFIG_HASH_ANNOTATION,
    GROUP_LABEL,
    INSTANCE_GROUP_LABEL,
    INSTANCE_TYPE_LABEL,
    WORKER_PORT,
    labels,
)
from kascade.kube._objects import Fields, Metadata, add_object, content_hash, pod_template
from kascade.kube._pods import (
    CACHE_PRIORITY,
    HELPER_RESOURCES,
    NO_PRIVILEGES,
    POD_SECURITY,
    UNHEALTHY_NODE,
    field_env,
    of_types,
    plain_env,
    resources,
    tcp_probe,
    tolerations,
)
from kascade.kube.curvine._proof import PROVE_INSTANCE_STORE
from kascade.kube.curvine._server import (
    CONFIG_MOUNT,
    GRACE_SECONDS,
    add_config,
    config_path,
    config_volume,
    server_command,
)
from kascade.kube.curvine.config import DATA_MOUNT, cluster_config
from kascade.kube.curvine.names import WORKING_DIRECTORY, CurvineNames
from kascade.plan import CurvinePlan, CurvineWorkerPlan

_NVME: Final = "/host/nvme"


def _nodes_of(worker: CurvineWorkerPlan) -> dict[str, object]:
    """Select the group's nodes, sick ones too: their blocks are still there."""
    group = {INSTANCE_GROUP_LABEL: worker.group}
    if worker.other_types:
        return {"nodeSelector": group, "affinity": of_types(worker.instance_types)}
    return {"nodeSelector": {**group, INSTANCE_TYPE_LABEL: worker.instance_type}}


class CurvineWorkers(Construct):
    """One DaemonSet per instance group: NVMe sizes differ, and data must stay with its node.

    A StatefulSet would move an ordinal to another node's NVMe or put two of them on one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        curvine: CurvinePlan,
        worker: CurvineWorkerPlan,
        taint_keys: tuple[str, ...],
    ) -> None:
        """Add the workers of one group.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            curvine: The plan's slice.
            worker: The group's part of it.
            taint_keys: The deployment's own taints.
        """
        super().__init__(scope, construct_id)
        self._plan = curvine
        self._worker = worker
        selecting = {**CurvineNames(curvine).selector("worker"), GROUP_LABEL: worker.group}
        meta = Metadata(
            # A group of somebody's cluster may be called in capitals.
            name=f"curvine-worker-{worker.group.lower()}",
            namespace=curvine.namespace,
            labels=labels(selecting),
        )
        data = add_config(self, meta=meta, config=cluster_config(curvine, worker))
        add_object(
            self,
            api_version="apps/v1",
            kind="DaemonSet",
            meta=meta,
            body={
                "spec": {
                    "selector": {"matchLabels": selecting},
                    # A second worker on a node would write into the same directory, so the old one
                    # goes first; one node at a time, since its blocks are away meanwhile.
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                    },
                    "template": pod_template(
                        labels(selecting),
                        self._pod(meta.name, taint_keys),
                        {CONFIG_HASH_ANNOTATION: content_hash(data)},
                    ),
                }
            },
        )

    def _pod(self, config_name: str, taint_keys: tuple[str, ...]) -> Fields:
        plan = self._plan
        return {
            "priorityClassName": CACHE_PRIORITY,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": POD_SECURITY,
            **_nodes_of(self._worker),
            "tolerations": [*tolerations(taint_keys), UNHEALTHY_NODE],
            "initContainers": [
                {
                    "name": "check-nvme",
                    "image": plan.image,
                    "command": ["/bin/sh", "-c", PROVE_INSTANCE_STORE, "check-nvme"],
                    "args": [_NVME, plan.nvme_mount, self._directory],
                    "resources": HELPER_RESOURCES,
                    "securityContext": {**NO_PRIVILEGES, "readOnlyRootFilesystem": True},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [{"name": "nvme", "mountPath": _NVME}],
                }
            ],
            "containers": [self._container()],
            "volumes": [
                config_volume(config_name),
                # Not the directory of the blocks: the kubelet would ask for it, or make it on the
                # root disk, before the init container has proved what is mounted.
                {"name": "nvme", "hostPath": {"path": plan.nvme_mount, "type": "Directory"}},
            ],
        }

    @property
    def _directory(self) -> str:
        """Where the blocks lie, below the mount."""
        return self._plan.host_path.removeprefix(f"{self._plan.nvme_mount}/")

    def _container(self) -> Fields:
        plan = self._plan
        return {
            "name": "worker",
            "image": plan.image,
            "command": server_command("worker"),
            "workingDir": WORKING_DIRECTORY,
            "env": [
                # Clients dial this text. A changed address is no matter: workers are known by an
                # id that lies in the data directory.
                field_env("CURVINE_WORKER_HOSTNAME", "status.podIP"),
                *plain_env(
                    {
                        "CURVINE_CONF_FILE": config_path(),
                        "ORPC_BIND_HOSTNAME": "0.0.0.0",  # noqa: S104 - NetworkPolicies guard it
                    }
                ),
            ],
            "ports": [
                {"name": "rpc", "containerPort": plan.worker_rpc_port},
                {"name": WORKER_PORT, "containerPort": plan.worker_web_port},
            ],
            # The full block report at start takes a while on a filled disk.
            "startupProbe": tcp_probe(plan.worker_rpc_port, period=10, failures=30),
            "readinessProbe": tcp_probe(plan.worker_rpc_port, period=5, failures=3),
            "livenessProbe": tcp_probe(plan.worker_rpc_port, period=10, failures=6),
            "resources": resources(self._worker.size),
            # Root, because the image has no other user; upstream's "privileged" is not needed, FUSE
            # being elsewhere.
            "securityContext": NO_PRIVILEGES,
            "volumeMounts": [
                {"name": "nvme", "mountPath": DATA_MOUNT, "subPath": self._directory},
                CONFIG_MOUNT,
            ],
        }
