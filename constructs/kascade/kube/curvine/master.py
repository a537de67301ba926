"""Curvine's masters: the namespace of the pool."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import CONFIG_HASH_ANNOTATION, MASTER_PORT, labels
from kascade.kube._objects import Fields, Metadata, add_object, content_hash, pod_template
from kascade.kube._pods import (
    CACHE_PRIORITY,
    NO_PRIVILEGES,
    ON_SYSTEM_NODES,
    POD_SECURITY,
    ZONE,
    field_env,
    plain_env,
    resources,
    spread,
    tcp_probe,
)
from kascade.kube.classes import STORAGE_CLASS
from kascade.kube.curvine._server import (
    CONFIG_MOUNT,
    GRACE_SECONDS,
    add_config,
    config_path,
    config_volume,
    server_command,
)
from kascade.kube.curvine.config import JOURNAL_MOUNT, META_MOUNT, cluster_config
from kascade.kube.curvine.names import CLUSTER_DOMAIN, WORKING_DIRECTORY, CurvineNames
from kascade.plan import CurvinePlan

_START_FAILURES: Final = 90
"""Times 10 s: a master replays its journal before it opens the port (value of Curvine's chart)."""


class CurvineMaster(Construct):
    """StatefulSet of one or three masters on EBS, with its Service and configuration.

    Attributes:
        config_name: ConfigMap with the configuration that the command line tool uses too.
    """

    def __init__(self, scope: Construct, construct_id: str, *, curvine: CurvinePlan) -> None:
        """Add the masters.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            curvine: The plan's slice.
        """
        super().__init__(scope, construct_id)
        self._plan = curvine
        self._names = CurvineNames(curvine)
        self._selector = self._names.selector("master")
        meta = Metadata(
            name=self._names.master, namespace=curvine.namespace, labels=labels(self._selector)
        )
        self.config_name = meta.name
        data = add_config(self, meta=meta, config=cluster_config(curvine))
        self._add_service(meta)
        add_object(
            self,
            api_version="apps/v1",
            kind="StatefulSet",
            meta=meta,
            body={
                "spec": {
                    "serviceName": meta.name,
                    "replicas": curvine.masters,
                    # Three masters elect a leader among themselves; none can wait for another.
                    "podManagementPolicy": "Parallel",
                    "updateStrategy": {"type": "RollingUpdate"},
                    # Deleted, the masters take their claims along, and these their volumes. Scaled
                    # down by hand they keep them: a master that comes back without its own does
                    # not rejoin. Those claims have this owner by then, so they go with it, too.
                    "persistentVolumeClaimRetentionPolicy": {
                        "whenDeleted": "Delete",
                        "whenScaled": "Retain",
                    },
                    "selector": {"matchLabels": self._selector},
                    "template": pod_template(
                        labels(self._selector),
                        self._pod(),
                        {CONFIG_HASH_ANNOTATION: content_hash(data)},
                    ),
                    "volumeClaimTemplates": [
                        _claim("meta", curvine.meta_volume_gib),
                        _claim("journal", curvine.journal_volume_gib),
                    ],
                }
            },
        )
        # With one master a budget would either allow its eviction anyway or block every drain.
        if curvine.masters > 1:
            add_object(
                self,
                api_version="policy/v1",
                kind="PodDisruptionBudget",
                meta=meta,
                body={
                    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": self._selector}},
                },
            )

    def _add_service(self, meta: Metadata) -> None:
        ports = (
            ("rpc", self._plan.master_rpc_port),
            ("journal", self._plan.master_journal_port),
            ("web", self._plan.master_web_port),
        )
        add_object(
            self,
            api_version="v1",
            kind="Service",
            meta=meta,
            body={
                "spec": {
                    "clusterIP": "None",
                    # Masters find each other before any of them is ready.
                    "publishNotReadyAddresses": True,
                    "selector": self._selector,
                    "ports": [{"name": name, "port": port} for name, port in ports],
                }
            },
        )

    def _pod(self) -> Fields:
        affinity: dict[str, object] = dict(ON_SYSTEM_NODES)
        if self._plan.masters > 1:
            affinity["podAntiAffinity"] = {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": self._selector},
                    }
                ]
            }
        return {
            "priorityClassName": CACHE_PRIORITY,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": POD_SECURITY,
            "affinity": affinity,
            "topologySpreadConstraints": [spread(self._selector, ZONE)],
            "containers": [self._container()],
            "volumes": [config_volume(self.config_name)],
        }

    def _container(self) -> Fields:
        plan = self._plan
        domain = f"{self._names.master}.{plan.namespace}.svc.{CLUSTER_DOMAIN}"
        return {
            "name": "master",
            "image": plan.image,
            "command": server_command("master"),
            "workingDir": WORKING_DIRECTORY,
            "env": [
                field_env("POD_NAME", "metadata.name"),
                # Must be one of journal_addrs, or the master refuses to start.
                *plain_env(
                    {
                        "CURVINE_MASTER_HOSTNAME": f"$(POD_NAME).{domain}",
                        "CURVINE_CONF_FILE": config_path(),
                        "ORPC_BIND_HOSTNAME": "0.0.0.0",  # noqa: S104 - NetworkPolicies guard it
                    }
                ),
            ],
            "ports": [
                {"name": "rpc", "containerPort": plan.master_rpc_port},
                {"name": "journal", "containerPort": plan.master_journal_port},
                {"name": MASTER_PORT, "containerPort": plan.master_web_port},
            ],
            "startupProbe": tcp_probe(plan.master_rpc_port, period=10, failures=_START_FAILURES),
            "readinessProbe": tcp_probe(plan.master_rpc_port, period=5, failures=3),
            "livenessProbe": tcp_probe(plan.master_rpc_port, period=10, failures=6),
            "resources": resources(plan.master_size),
            # The image has no user but root, and whether it runs on a read-only root is untested.
            "securityContext": NO_PRIVILEGES,
            "volumeMounts": [
                {"name": "meta", "mountPath": META_MOUNT},
                {"name": "journal", "mountPath": JOURNAL_MOUNT},
                CONFIG_MOUNT,
            ],
        }


def _claim(name: str, gib: int) -> Fields:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": f"{gib}Gi"}},
        },
    }
