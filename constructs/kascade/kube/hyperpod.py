"""What SageMaker HyperPod expects inside an EKS cluster.

Names, rights and fields follow AWS's Helm chart (aws/sagemaker-hyperpod-cli, charts
health-monitoring-agent, deep-health-check, job-auto-restart and hyperpod-patching), because the
service looks for some of them when it creates a cluster and does not say which.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Fields, Metadata, add_object, pod_template
from kascade.kube._pods import field_env, of_types
from kascade.kube._rbac import account, add_role, add_service_account, rule, user

_AGENT: Final = "health-monitoring-agent"
_DEEP_CHECK: Final = "deep-health-check-service-account"
_RESTART: Final = "job-auto-restart"
_PATCHING: Final = "hyperpod-patching"

_SERVICE_USER: Final = "hyperpod-service-linked-role"
"""Kubernetes user that the access entry of HyperPod's service-linked role maps to."""

_EVENT_GROUPS: Final = ("", "events.k8s.io")

_HOST_PATHS: Final = (
    ("log", "/var/log/", False),
    ("kmsg", "/dev/kmsg", True),
    ("localtime", "/etc/localtime", True),
)
"""Volume name, path and whether it is read-only. The agent reads kernel messages for Xid errors."""


class HyperPodAccess(Construct):
    """Rights of the HyperPod service: deep health checks, node recovery and patching."""

    def __init__(self, scope: Construct, construct_id: str, *, namespace: str) -> None:
        """Add accounts, roles and bindings; none of them runs a pod.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespace: HyperPod's namespace.
        """
        super().__init__(scope, construct_id)
        check = Metadata(name=_DEEP_CHECK, namespace=namespace, labels=labels({}))
        # The pods of this account come from the service, so its token must mount by default.
        add_service_account(self, meta=check, automount=True)
        add_role(
            self,
            meta=Metadata(name=f"{_DEEP_CHECK}-role", labels=labels({})),
            rules=[
                rule([""], ["nodes"], ["get", "list"]),
                rule([""], ["pods"], ["get", "list", "patch"]),
            ],
            subjects=[account(check)],
            binding_name=f"{_DEEP_CHECK}-role-binding",
        )

        restart = Metadata(name=_RESTART, namespace=namespace, labels=labels({}))
        add_service_account(self, meta=restart, automount=True)
        add_role(
            self,
            meta=Metadata(name=_RESTART, labels=labels({})),
            rules=_RESTART_RULES,
            subjects=[user(_SERVICE_USER)],
        )

        add_role(
            self,
            meta=Metadata(name=_PATCHING, labels=labels({})),
            rules=[
                rule([""], ["pods"], ["list"]),
                rule([""], ["pods/eviction"], ["create"]),
                # Newer than the chart's last release (aws/sagemaker-hyperpod-cli pull request 423):
                # draining a node for new software cordons it first.
                rule([""], ["nodes"], ["get", "list", "patch"]),
            ],
            subjects=[user(_SERVICE_USER)],
        )


_RESTART_RULES: Final = (
    rule([""], ["nodes", "nodes/status", "pods", "pods/status"], ["get", "list", "watch"]),
    rule([""], ["pods"], ["delete", "deletecollection"]),
    # The only right that lets the service uncordon a node after a managed reboot.
    rule([""], ["nodes", "nodes/status"], ["patch"]),
    rule(_EVENT_GROUPS, ["events"], ["create"]),
    # The chart also lists "describe", which is no verb of Kubernetes.
    rule(
        ["kubeflow.org"],
        ["pytorchjobs", "pytorchjobs/status"],
        ["get", "list", "watch", "delete", "patch", "update"],
    ),
    rule(["coordination.k8s.io"], ["leases"], ["get", "create", "update", "delete"]),
)


class HealthMonitoringAgent(Construct):
    """HyperPod's agent on every GPU node: without it no broken node is ever replaced."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        namespace: str,
        image: str,
        instance_types: tuple[str, ...],
    ) -> None:
        """Add the agent.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespace: HyperPod's namespace.
            image: The agent's image in the deployment's region.
            instance_types: GPU types of the cluster; must equal the device plugin's list.
        """
        super().__init__(scope, construct_id)
        # The selector is AWS's own and nothing may be added to it.
        selecting = {"app": _AGENT}
        meta = Metadata(name=_AGENT, namespace=namespace, labels=labels(selecting))
        add_service_account(self, meta=meta, automount=True)
        add_role(
            self,
            meta=Metadata(name=_AGENT, labels=labels(selecting)),
            rules=[
                rule([""], ["nodes"], ["get"]),
                rule([""], ["nodes", "nodes/status"], ["patch"]),
                rule(_EVENT_GROUPS, ["events"], ["create", "patch", "update"]),
            ],
            subjects=[account(meta)],
        )
        add_object(
            self,
            api_version="apps/v1",
            kind="DaemonSet",
            meta=meta,
            body={
                "spec": {
                    "selector": {"matchLabels": selecting},
                    "template": pod_template(
                        labels(selecting), _agent_pod(image=image, instance_types=instance_types)
                    ),
                }
            },
        )


def _agent_pod(*, image: str, instance_types: tuple[str, ...]) -> Fields:
    size = {"cpu": "500m", "memory": "512Mi"}
    return {
        # As the device plugins have: an engine that waits for room must not evict the agent.
        "priorityClassName": "system-node-critical",
        "serviceAccountName": _AGENT,
        "affinity": of_types(instance_types),
        "tolerations": [
            {"operator": "Exists", "effect": "NoSchedule"},
            {"operator": "Exists", "effect": "NoExecute"},
        ],
        "containers": [
            {
                "name": _AGENT,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": size, "limits": size},
                "securityContext": {"runAsUser": 1000, "runAsGroup": 2000},
                "env": [
                    field_env("NODE_NAME", "spec.nodeName"),
                    field_env("NODE_IP", "status.hostIP"),
                ],
                "volumeMounts": [
                    {"name": name, "mountPath": path, "readOnly": read_only}
                    for name, path, read_only in _HOST_PATHS
                ],
            }
        ],
        "volumes": [{"name": name, "hostPath": {"path": path}} for name, path, _ in _HOST_PATHS],
    }
