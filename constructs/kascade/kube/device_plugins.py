"""Device plugins: they offer a node's GPUs and EFA interfaces to the scheduler.

Their upstream manifests select nodes by labels or plain EC2 type names that HyperPod nodes do not
carry, so the node affinity is always our own.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Fields, Metadata, add_object, pod_template
from kascade.kube._pods import NVIDIA_ENV, UNHEALTHY_NODE, of_types, plain_env, tolerations

_NAMESPACE: Final = "kube-system"
_SOCKETS: Final = "/var/lib/kubelet/device-plugins"
_PRIORITY: Final = "system-node-critical"

_DRIVER_ROOT: Final = "/driver-root"
"""Where the plugin looks for the host's driver, whose files it names to containerd."""

_STRATEGIES: Final = "envvar,cdi-cri"
"""How a container is given its GPUs: by a variable, which the node's NVIDIA runtime may ignore in a
container without privileges (awslabs/amazon-eks-ami#2706), and by name to containerd, which takes
it wherever CDI is on. The second tells the runtime to add nothing, so both together are no more
than one."""

_SEES_EVERY_GPU: Final[Fields] = {
    # What makes the nvidia runtime heed NVIDIA_VISIBLE_DEVICES whatever the node's configuration
    # says. Not with allowPrivilegeEscalation: false, which contradicts it.
    "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
}


class NvidiaDevicePlugin(Construct):
    """NVIDIA's device plugin (fields of its chart 0.16.1, without a config map)."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        image: str,
        instance_types: tuple[str, ...],
        taint_keys: tuple[str, ...],
    ) -> None:
        """Add the DaemonSet.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            image: Image of the plugin.
            instance_types: GPU types of the cluster; must equal the health agent's list.
            taint_keys: The deployment's own taints.
        """
        super().__init__(scope, construct_id)
        mounts = (
            ("device-plugin", _SOCKETS, _SOCKETS, None),
            ("mps-root", "/run/nvidia/mps", "/mps", "DirectoryOrCreate"),
            ("mps-shm", "/run/nvidia/mps/shm", "/dev/shm", None),  # noqa: S108 - not a temp file
            ("cdi-root", "/var/run/cdi", "/var/run/cdi", "DirectoryOrCreate"),
            ("driver-root", "/", _DRIVER_ROOT, None),
        )
        pod: Fields = {
            "priorityClassName": _PRIORITY,
            "automountServiceAccountToken": False,
            # No runtimeClassName: HyperPod nodes make the nvidia runtime the default one.
            "affinity": of_types(instance_types),
            "tolerations": [*tolerations(taint_keys), UNHEALTHY_NODE],
            "containers": [
                {
                    "name": "nvidia-device-plugin-ctr",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["nvidia-device-plugin"],
                    "env": plain_env(
                        {
                            "MPS_ROOT": "/run/nvidia/mps",
                            "DEVICE_LIST_STRATEGY": _STRATEGIES,
                            "NVIDIA_DRIVER_ROOT": "/",
                            **NVIDIA_ENV,
                        }
                    ),
                    "securityContext": _SEES_EVERY_GPU,
                    "volumeMounts": [
                        {
                            "name": name,
                            "mountPath": inside,
                            **({"readOnly": True} if inside == _DRIVER_ROOT else {}),
                        }
                        for name, _, inside, _ in mounts
                    ],
                }
            ],
            "volumes": [
                {"name": name, "hostPath": {"path": path, **({"type": kind} if kind else {})}}
                for name, path, _, kind in mounts
            ],
        }
        _add_daemon_set(self, "nvidia-device-plugin", pod)


class EfaDevicePlugin(Construct):
    """AWS's EFA device plugin (fields of its chart 0.5.20)."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        image: str,
        instance_types: tuple[str, ...],
        taint_keys: tuple[str, ...],
    ) -> None:
        """Add the DaemonSet.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            image: Image of the plugin.
            instance_types: Types with EFA and no other: on a node without, the plugin crash-loops.
            taint_keys: The deployment's own taints.
        """
        super().__init__(scope, construct_id)
        mounts = (
            ("device-plugin", _SOCKETS, None),
            ("infiniband", "/dev/infiniband/", None),
            ("neuron", "/opt/aws/neuron/", "DirectoryOrCreate"),
        )
        pod: Fields = {
            "hostNetwork": True,
            "priorityClassName": _PRIORITY,
            "automountServiceAccountToken": False,
            "affinity": of_types(
                instance_types,
                {"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["auto"]},
            ),
            "tolerations": [
                {"key": "CriticalAddonsOnly", "operator": "Exists"},
                {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
                *tolerations(taint_keys),
                UNHEALTHY_NODE,
            ],
            "containers": [
                {
                    "name": "aws-efa-k8s-device-plugin",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    # It opens /dev/infiniband of the host.
                    "securityContext": {
                        "privileged": True,
                        "runAsUser": 0,
                        "allowPrivilegeEscalation": True,
                    },
                    "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
                    "volumeMounts": [{"name": name, "mountPath": path} for name, path, _ in mounts],
                }
            ],
            "volumes": [
                {"name": name, "hostPath": {"path": path, **({"type": kind} if kind else {})}}
                for name, path, kind in mounts
            ],
        }
        _add_daemon_set(self, "aws-efa-k8s-device-plugin", pod)


def _add_daemon_set(scope: Construct, name: str, pod: Fields) -> None:
    selecting = {"app.kubernetes.io/name": name}
    add_object(
        scope,
        api_version="apps/v1",
        kind="DaemonSet",
        meta=Metadata(name=name, namespace=_NAMESPACE, labels=labels(selecting)),
        body={
            "spec": {
                "selector": {"matchLabels": selecting},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": pod_template(labels(selecting), pod),
            }
        },
    )
