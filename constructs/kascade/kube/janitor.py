"""What keeps an engine's shared directory below a mark: one pod beside the engines of a model.

It needs no Curvine, only a claim that several pods may mount, so it serves any such directory.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import (
    CONFIG_HASH_ANNOTATION,
    ENGINE_LABEL,
    JANITOR_PORT,
    engine_selector,
    labels,
    selector,
)
from kascade.kube._objects import (
    Fields,
    Metadata,
    add_object,
    add_program,
    pod_template,
    program_hash,
)
from kascade.kube._pods import (
    NO_PRIVILEGES,
    POD_SECURITY,
    http_probe,
    in_group,
    plain_env,
    resources,
    tolerations,
)
from kascade.kube._policies import add_policy, api_server_egress, scrape_ingress
from kascade.kube._rbac import account, add_role, add_service_account, rule
from kascade.kube.l2.attachment import CACHE_VOLUME, TEMP_PREFIX
from kascade.kube.l2.guards import MARKER
from kascade.plan import JanitorPlan, NetworkPlan

_PROGRAM: Final = "janitor"
_COMPONENT: Final = "janitor"
_COMMON_NAME: Final = "kascade-janitor"
_PYTHON_PATH: Final = "/opt/kascade"
_GRACE_SECONDS: Final = 10
"""It ends within a second of being asked."""


class JanitorCommons(Construct):
    """What all janitors of a deployment share: the program, its rights, and who may reach it.

    Once, and not once an engine: it would be the same each time, and CloudFormation takes no more
    than 1 MB of a template.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, janitor: JanitorPlan, network: NetworkPlan
    ) -> None:
        """Add the objects.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            janitor: Any of the janitors; they are all in one namespace and listen on one port.
            network: Addresses of the VPC: of the API server and the collector of metrics.
        """
        super().__init__(scope, construct_id)
        selecting = selector(name=_PROGRAM, instance="kascade", component="janitors")
        meta = Metadata(name=_COMMON_NAME, namespace=janitor.namespace, labels=labels(selecting))
        add_program(self, program=_PROGRAM, meta=meta)
        add_service_account(self, meta=meta)
        add_role(
            self,
            meta=meta,
            # Names of pods, and of nothing else. A Role cannot be narrowed to labels.
            rules=[rule([""], ["pods"], ["list"])],
            subjects=[account(meta)],
        )
        add_policy(
            self,
            meta=meta,
            selecting={"app.kubernetes.io/component": _COMPONENT},
            ingress=scrape_ingress(network.collector_cidrs, janitor.port),
            # The mount is the kubelet's, not the pod's, so the cache needs no rule.
            egress=[api_server_egress(network.vpc_cidrs)],
        )


class Janitor(Construct):
    """The pod of one engine's janitor; it needs the ``JanitorCommons`` of its deployment."""

    def __init__(self, scope: Construct, construct_id: str, *, janitor: JanitorPlan) -> None:
        """Add the janitor.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            janitor: The plan's slice.
        """
        super().__init__(scope, construct_id)
        self._plan = janitor
        self._selector = selector(name=_PROGRAM, instance=janitor.engine, component=_COMPONENT)
        self._labels = {**labels(self._selector), ENGINE_LABEL: janitor.engine}
        self._meta = Metadata(name=janitor.name, namespace=janitor.namespace, labels=self._labels)
        self._add_deployment()

    def _add_deployment(self) -> None:
        add_object(
            self,
            api_version="apps/v1",
            kind="Deployment",
            meta=self._meta,
            body={
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": self._selector},
                    # Two do no harm, but the nodes' plan has room for one.
                    "strategy": {"type": "Recreate"},
                    "template": pod_template(
                        self._labels,
                        self._pod(),
                        {CONFIG_HASH_ANNOTATION: program_hash(_PROGRAM)},
                    ),
                }
            },
        )

    def _pod(self) -> Fields:
        plan = self._plan
        return {
            "serviceAccountName": _COMMON_NAME,
            # It asks the API server which pods are alive, to know whose directories are left over.
            "automountServiceAccountToken": True,
            "enableServiceLinks": False,
            # No priority class: an engine may push it aside, since a cache that is too full for a
            # while costs less than an engine that does not start. No disruption budget: for one
            # replica it would block every drain.
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": POD_SECURITY,
            # Only the nodes of engines have the driver that mounts the volume.
            "affinity": in_group(plan.group, plan.instance_types),
            "tolerations": tolerations(plan.taint_keys),
            "containers": [self._container()],
            "volumes": [
                {"name": CACHE_VOLUME, "persistentVolumeClaim": {"claimName": plan.claim}},
                {"name": "program", "configMap": {"name": _COMMON_NAME}},
            ],
        }

    def _container(self) -> Fields:
        plan = self._plan
        return {
            "name": "janitor",
            "image": plan.image,
            "command": ["python3", "-m", _PROGRAM],
            "args": janitor_args(plan),
            "env": plain_env(
                {
                    "PYTHONPATH": _PYTHON_PATH,
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "PYTHONUNBUFFERED": "1",
                }
            ),
            "ports": [{"name": JANITOR_PORT, "containerPort": plan.port}],
            # Answered from memory. A mount that hangs is no reason to restart: another process
            # would hang on it too.
            "livenessProbe": http_probe("/healthz", JANITOR_PORT, period=10, failures=3),
            "resources": resources(plan.size),
            # Root, as engines are, without any of root's rights: their directories have mode 0755,
            # so nobody else may delete in them what a dead pod left. Chunk files alone could be
            # deleted by any user, since the directory itself has mode 0777.
            "securityContext": {**NO_PRIVILEGES, "runAsUser": 0, "readOnlyRootFilesystem": True},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {
                    "name": CACHE_VOLUME,
                    "mountPath": plan.mount_path,
                    **({} if plan.folder is None else {"subPath": plan.folder}),
                },
                {
                    "name": "program",
                    "mountPath": f"{_PYTHON_PATH}/{_PROGRAM}",
                    "readOnly": True,
                },
            ],
        }


def janitor_args(plan: JanitorPlan) -> list[str]:
    """Arguments of the program in the pod."""
    selecting = ",".join(f"{key}={value}" for key, value in engine_selector(plan.engine).items())
    return [
        f"--directory={plan.mount_path}",
        f"--marker={MARKER}",
        f"--filesystem={plan.filesystem}",
        f"--temp-prefix={TEMP_PREFIX}",
        f"--high-bytes={plan.high_bytes}",
        f"--low-bytes={plan.low_bytes}",
        f"--fresh-seconds={plan.fresh_seconds}",
        f"--interval-seconds={plan.interval_seconds}",
        f"--step-seconds={plan.step_seconds}",
        f"--unreadable-seconds={plan.unreadable_seconds}",
        f"--object-bytes={int(plan.object_bytes.value)}",
        f"--disk-full-at={plan.disk_full_at}",
        f"--namespace={plan.namespace}",
        f"--selector={selecting}",
        # Probes and the collector of metrics come from outside.
        "--host=0.0.0.0",
        f"--port={plan.port}",
    ]
