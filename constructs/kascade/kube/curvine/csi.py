"""Curvine's CSI driver in embedded mode: FUSE runs inside the node plugin.

In standalone mode (a FUSE pod of its own) v0.4.1 counts volumes instead of pods: when one of two
pods of a node leaves, the mount of the other one goes too. Embedded mode with static volumes never
tears a mount down while the plugin lives. Its price: a restart of the plugin kills every mount on
the node. So nothing in here restarts it, and the program ``mounts`` beside it heals them.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import FUSE_PORT, INSTANCE_GROUP_LABEL, labels
from kascade.kube._objects import Fields, Metadata, add_object, add_program, pod_template
from kascade.kube._pods import (
    HELPER_RESOURCES,
    NO_PRIVILEGES,
    ON_SYSTEM_NODES,
    POD_SECURITY,
    field_env,
    plain_env,
    resources,
)
from kascade.kube._rbac import account, add_role, add_service_account, rule
from kascade.kube.curvine.names import CurvineNames
from kascade.plan import CurvinePlan

DRIVER: Final = "curvine"
"""The name the driver registers itself with."""

_SOCKET: Final = "/csi/csi.sock"
_KUBELET: Final = "/var/lib/kubelet"
_PLUGIN_DIRECTORY: Final = f"{_KUBELET}/csi-plugins/csi.curvine.io"
_REGISTRATION_DIRECTORY: Final = f"{_KUBELET}/plugins_registry"

_LOG_LIMIT: Final = "10Gi"
"""The FUSE log is never rotated. The limit keeps it from filling the node's disk, but the kubelet
enforces it by eviction, which kills the mounts: so it is generous, and the noisiest log (one line
per metadata call) is off in the volumes' attributes."""

_DRIVER: Final = "/opt/curvine/csi"
_PROGRAM: Final = "mounts"
_PYTHON_PATH: Final = "/opt/kascade"
_HANDSHAKE: Final = "/run/kascade"

# The plugin takes a mount for alive by the process id that it wrote down, until the last pod of the
# volume has left the node, so after a restart new pods would get dead mounts. But its processes of
# FUSE all ended with its container: what is written down when it starts is wrong. It has no switch
# for that, so the program beside it deletes the Secret. Without an answer it starts all the same.
_START: Final = """\
asked=$0/starting
: > "$asked"
waited=0
while [ -e "$asked" ] && [ "$waited" -lt 60 ]; do
  sleep 1
  waited=$((waited + 1))
done
if [ -e "$asked" ]; then
  echo "nobody cleared the mounts of before: new pods on this node may get dead ones" >&2
fi
exec "$@"
"""

_ALL_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
_READ: Final = ("get", "list", "watch")


class CurvineCsi(Construct):
    """CSIDriver, controller and node plugin."""

    def __init__(
        self, scope: Construct, construct_id: str, *, curvine: CurvinePlan, jobs_image: str
    ) -> None:
        """Add the driver.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            curvine: The plan's slice.
            jobs_image: Any image with a Python 3.
        """
        super().__init__(scope, construct_id)
        self._plan = curvine
        self._jobs_image = jobs_image
        self._names = CurvineNames(curvine)
        add_object(
            self,
            api_version="storage.k8s.io/v1",
            kind="CSIDriver",
            meta=Metadata(name=DRIVER, labels=labels(self._names.selector("csi"))),
            body={
                "spec": {
                    "attachRequired": False,
                    "podInfoOnMount": False,
                    "volumeLifecycleModes": ["Persistent"],
                }
            },
        )
        controller = self._meta("csi-controller")
        node = self._meta("csi-node")
        for meta in (controller, node):
            add_service_account(self, meta=meta)
        self._add_rights(controller, node)
        self._add_controller(controller)
        self._add_node(node)

    def _meta(self, component: str) -> Metadata:
        return Metadata(
            name=f"curvine-{component}",
            namespace=self._plan.namespace,
            labels=labels(self._names.selector(component)),
        )

    def _add_rights(self, controller: Metadata, node: Metadata) -> None:
        # Upstream grants these for the whole cluster. The driver keeps its state in Secrets named
        # after nodes, all of them in its own namespace.
        add_role(
            self,
            meta=node.named("curvine-csi-state"),
            rules=[
                rule([""], ["secrets"], _ALL_VERBS),
                rule([""], ["events"], ["create", "patch"]),
            ],
            subjects=[account(controller), account(node)],
        )
        # Of the provisioner; without an attacher no VolumeAttachment is needed.
        add_role(
            self,
            meta=Metadata(name=controller.name, labels=controller.labels),
            rules=[
                rule([""], ["persistentvolumes"], [*_READ, "create", "patch", "update", "delete"]),
                rule([""], ["persistentvolumeclaims"], [*_READ, "update"]),
                rule([""], ["nodes"], _READ),
                rule([""], ["events"], ["create", "update", "patch"]),
                rule(["storage.k8s.io"], ["storageclasses", "csinodes"], _READ),
            ],
            subjects=[account(controller)],
        )
        # Pods whose mount is dead, and no more than a disruption budget allows.
        for namespace in self._namespaces():
            add_role(
                self,
                meta=Metadata(name="curvine-mounts", namespace=namespace, labels=node.labels),
                rules=[
                    rule([""], ["pods"], ["list"]),
                    rule([""], ["pods/eviction"], ["create"]),
                ],
                subjects=[account(node)],
            )

    def _namespaces(self) -> list[str]:
        """Where volumes are claimed: one, or none where no engine uses the pool."""
        return sorted({volume.claim_namespace for volume in self._plan.volumes})

    def _plugin(self) -> dict[str, object]:
        return {
            "name": "csi-plugin",
            "image": self._plan.csi_image,
            "command": [_DRIVER],
            "args": ["--endpoint=$(CSI_ENDPOINT)", "--nodeid=$(NODE_NAME)"],
            "env": [
                *plain_env({"CSI_ENDPOINT": f"unix://{_SOCKET}", "MOUNT_MODE": "embedded"}),
                field_env("NODE_NAME", "spec.nodeName"),
                field_env("KUBERNETES_NAMESPACE", "metadata.namespace"),
            ],
        }

    def _add_controller(self, meta: Metadata) -> None:
        selecting = self._names.selector("csi-controller")
        socket = {"name": "socket", "mountPath": "/csi"}
        pod: Fields = {
            "serviceAccountName": meta.name,
            "automountServiceAccountToken": True,
            "enableServiceLinks": False,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            "affinity": ON_SYSTEM_NODES,
            "containers": [
                {
                    **self._plugin(),
                    "resources": HELPER_RESOURCES,
                    # It only runs the command line tool; mounting is the node plugin's work.
                    "securityContext": NO_PRIVILEGES,
                    "volumeMounts": [socket],
                },
                {
                    "name": "csi-provisioner",
                    "image": self._plan.provisioner_image,
                    "args": [f"--csi-address={_SOCKET}", "--timeout=60s"],
                    "resources": HELPER_RESOURCES,
                    "securityContext": NO_PRIVILEGES,
                    "volumeMounts": [socket],
                },
            ],
            "volumes": [{"name": "socket", "emptyDir": {}}],
        }
        add_object(
            self,
            api_version="apps/v1",
            kind="Deployment",
            meta=meta,
            body={
                "spec": {
                    # Two provisioners would need leader election.
                    "replicas": 1,
                    "strategy": {"type": "Recreate"},
                    "selector": {"matchLabels": selecting},
                    "template": pod_template(labels(selecting), pod),
                }
            },
        )

    def _add_node(self, meta: Metadata) -> None:
        selecting = self._names.selector("csi-node")
        add_program(self, program=_PROGRAM, meta=meta.named("curvine-mounts"))
        add_object(
            self,
            api_version="apps/v1",
            kind="DaemonSet",
            meta=meta,
            body={
                "spec": {
                    "selector": {"matchLabels": selecting},
                    # A new version comes when a person drains the node, not when it is rolled out.
                    "updateStrategy": {"type": "OnDelete"},
                    "template": pod_template(labels(selecting), self._node_pod(meta.name)),
                }
            },
        )

    def _nodes(self) -> Fields:
        """Only HyperPod nodes run engines; elsewhere it would idle on memory it reserves."""
        if self._plan.driver_groups:
            # The cluster is somebody's, and so are its other groups.
            groups = list(self._plan.driver_groups)
            return {"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": groups}
        return {"key": INSTANCE_GROUP_LABEL, "operator": "Exists"}

    def _node_pod(self, service_account: str) -> Fields:
        socket = {"name": "plugin-dir", "mountPath": "/csi"}
        handshake = {"name": "handshake", "mountPath": _HANDSHAKE}
        registration = {"name": "registration-dir", "mountPath": "/registration"}
        return {
            "serviceAccountName": service_account,
            "automountServiceAccountToken": True,
            "enableServiceLinks": False,
            "priorityClassName": "system-node-critical",
            # A pod that must outlive every taint, since other pods' mounts hang on it.
            "tolerations": [{"operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [self._nodes()]}]
                    }
                }
            },
            "containers": [
                {
                    **self._plugin(),
                    **self._start(),
                    "ports": [{"name": FUSE_PORT, "containerPort": self._plan.fuse_web_port}],
                    "resources": resources(self._plan.csi_size),
                    # mount(2), /dev/fuse and mounts that show up on the host. No livenessProbe: a
                    # restart breaks every mount on the node.
                    "securityContext": {"privileged": True},
                    "volumeMounts": [
                        socket,
                        {
                            "name": "kubelet-dir",
                            "mountPath": _KUBELET,
                            "mountPropagation": "Bidirectional",
                        },
                        {"name": "logs", "mountPath": "/tmp"},  # noqa: S108 - where FUSE logs
                        handshake,
                    ],
                },
                *(self._healer(namespace, handshake) for namespace in self._namespaces()),
                {
                    "name": "node-driver-registrar",
                    "image": self._plan.registrar_image,
                    "args": [
                        f"--csi-address={_SOCKET}",
                        f"--kubelet-registration-path={_PLUGIN_DIRECTORY}/csi.sock",
                    ],
                    "resources": HELPER_RESOURCES,
                    # Root: the kubelet's directories belong to root.
                    "securityContext": NO_PRIVILEGES,
                    "volumeMounts": [socket, registration],
                },
            ],
            "volumes": [
                _host_directory("plugin-dir", _PLUGIN_DIRECTORY, "DirectoryOrCreate"),
                _host_directory("kubelet-dir", _KUBELET, "Directory"),
                _host_directory("registration-dir", _REGISTRATION_DIRECTORY, "Directory"),
                {"name": "logs", "emptyDir": {"sizeLimit": _LOG_LIMIT}},
                {"name": "handshake", "emptyDir": {}},
                {"name": "program", "configMap": {"name": "curvine-mounts"}},
            ],
        }

    def _start(self) -> Fields:
        if not self._namespaces():
            return {}
        return {"command": ["/bin/sh", "-c", _START, _HANDSHAKE, _DRIVER]}

    def _healer(self, namespace: str, handshake: Fields) -> Fields:
        """Program that clears what the driver wrote down, and evicts pods with dead mounts."""
        return {
            "name": "heal-mounts",
            "image": self._jobs_image,
            "command": ["python3", "-m", _PROGRAM],
            "args": [
                "--node=$(NODE_NAME)",
                f"--namespace={namespace}",
                f"--driver-namespace={self._plan.namespace}",
                f"--handshake={_HANDSHAKE}",
                f"--volumes={self._plan.cluster_id}-kv-",
                f"--pods={_KUBELET}/pods",
            ],
            "env": [
                field_env("NODE_NAME", "spec.nodeName"),
                *plain_env({"PYTHONPATH": _PYTHON_PATH, "PYTHONDONTWRITEBYTECODE": "1"}),
            ],
            "resources": HELPER_RESOURCES,
            # Root without any right: the kubelet's directories of pods are root's.
            "securityContext": {**NO_PRIVILEGES, "runAsUser": 0, "readOnlyRootFilesystem": True},
            "volumeMounts": [
                handshake,
                {
                    "name": "kubelet-dir",
                    "mountPath": _KUBELET,
                    "mountPropagation": "HostToContainer",
                    "readOnly": True,
                },
                {
                    "name": "program",
                    "mountPath": f"{_PYTHON_PATH}/{_PROGRAM}",
                    "readOnly": True,
                },
            ],
        }


def _host_directory(name: str, path: str, kind: str) -> Fields:
    return {"name": name, "hostPath": {"path": path, "type": kind}}
