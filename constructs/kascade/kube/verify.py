"""The verification of sharing as a Job: a template that somebody starts, and what it may reach.

It is a suspended CronJob, because Kubernetes has no other object that holds a Job without running
it: `kubectl create job --from=cronjob/NAME` starts one, and `kascade verify --in-cluster` does so.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import (
    ENGINE_LABEL,
    LMCACHE_PORT,
    VLLM_PORT,
    engine_selector,
    labels,
    router_selector,
    selector,
    verify_selector,
)
from kascade.kube._objects import Fields, Metadata, add_object, add_program, pod_template
from kascade.kube._pods import (
    HELPER_RESOURCES,
    NON_ROOT,
    NON_ROOT_POD,
    ON_SYSTEM_NODES,
    plain_env,
)
from kascade.kube._policies import add_policy, egress_to, ingress_from, pods
from kascade.plan import VerifyPlan
from kascade.sizing.tenancy import CLIENT_LABEL

_PROGRAM: Final = "verify"
_CONFIG_MAP: Final = "kascade-verify"
_PYTHON_PATH: Final = "/opt/kascade"
_NEVER: Final = "@yearly"
"""A CronJob must have a schedule; suspended, it keeps none."""


class VerifyProgram(Construct):
    """The program's text, once for all engines of a deployment.

    One ConfigMap and not one per engine: it would be the same 60 KB each time, and CloudFormation
    takes no more than 1 MB of a template.
    """

    def __init__(self, scope: Construct, construct_id: str, *, namespace: str) -> None:
        """Add the ConfigMap.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            namespace: The engines' namespace.
        """
        super().__init__(scope, construct_id)
        selecting = selector(name=_PROGRAM, instance="kascade", component="verify-program")
        meta = Metadata(name=_CONFIG_MAP, namespace=namespace, labels=labels(selecting))
        add_program(self, program=_PROGRAM, meta=meta)


class Verify(Construct):
    """The Job's template, the Service that lists the replicas, and two NetworkPolicies."""

    def __init__(self, scope: Construct, construct_id: str, *, verify: VerifyPlan) -> None:
        """Add the verification of one engine.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            verify: The plan's slice.
        """
        super().__init__(scope, construct_id)
        self._plan = verify
        self._selector = verify_selector(verify.engine)
        self._engine = engine_selector(verify.engine)
        written = {**labels(self._selector), ENGINE_LABEL: verify.engine}
        self._meta = Metadata(name=verify.name, namespace=verify.namespace, labels=written)
        self._add_service()
        self._add_template()
        self._add_policies()

    def _add_service(self) -> None:
        plan = self._plan
        add_object(
            self,
            api_version="v1",
            kind="Service",
            meta=self._meta.named(plan.pods_service),
            body={
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": "None",
                    # A replica that is not ready would fail the verification for no reason.
                    "publishNotReadyAddresses": False,
                    "selector": self._engine,
                    "ports": [
                        {
                            "name": "http",
                            "port": plan.engine_port,
                            # Pods that HyperPod's operator makes call it otherwise.
                            "targetPort": VLLM_PORT if plan.router else plan.engine_port,
                        },
                        {"name": "lmcache", "port": plan.lmcache_port, "targetPort": LMCACHE_PORT},
                    ],
                }
            },
        )

    def _add_template(self) -> None:
        plan = self._plan
        add_object(
            self,
            api_version="batch/v1",
            kind="CronJob",
            meta=self._meta,
            body={
                "spec": {
                    "schedule": _NEVER,
                    "suspend": True,
                    "concurrencyPolicy": "Forbid",
                    "successfulJobsHistoryLimit": 1,
                    "failedJobsHistoryLimit": 1,
                    "jobTemplate": {
                        "metadata": {"labels": dict(self._meta.labels)},
                        "spec": {
                            # Its answer is its result: a second attempt would only hide the first.
                            "backoffLimit": 0,
                            "activeDeadlineSeconds": plan.deadline_seconds,
                            "ttlSecondsAfterFinished": plan.kept_seconds,
                            "template": pod_template(
                                # The router lets only labelled clients in.
                                {**self._meta.labels, CLIENT_LABEL: "true"},
                                self._pod(),
                            ),
                        },
                    },
                }
            },
        )

    def _pod(self) -> Fields:
        plan = self._plan
        return {
            "restartPolicy": "Never",
            # It finds the replicas by DNS and has no business with the API server.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": NON_ROOT_POD,
            # So it cannot mount the cache, whose driver runs on GPU nodes only, and looks into no
            # directory. That the reader finds what the writer stored proves one directory anyway.
            "affinity": ON_SYSTEM_NODES,
            "containers": [
                {
                    "name": "verify",
                    "image": plan.image,
                    "command": ["python3", "-m", _PROGRAM],
                    "args": verify_args(plan),
                    "env": plain_env(
                        {
                            "PYTHONPATH": _PYTHON_PATH,
                            "PYTHONDONTWRITEBYTECODE": "1",
                            "PYTHONUNBUFFERED": "1",
                        }
                    ),
                    "resources": HELPER_RESOURCES,
                    "securityContext": NON_ROOT,
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [
                        {
                            "name": "program",
                            "mountPath": f"{_PYTHON_PATH}/{_PROGRAM}",
                            "readOnly": True,
                        }
                    ],
                }
            ],
            "volumes": [{"name": "program", "configMap": {"name": _CONFIG_MAP}}],
        }

    def _add_policies(self) -> None:
        plan = self._plan
        add_policy(
            self,
            meta=self._meta,
            selecting=self._selector,
            ingress=[],
            egress=[
                egress_to([pods(self._engine)], plan.engine_port, plan.lmcache_port),
                *self._to_the_router(),
            ],
        )
        add_policy(
            self,
            meta=self._meta.named(f"{plan.name}-ingress"),
            selecting=self._engine,
            ingress=[ingress_from([pods(self._selector)], plan.engine_port, plan.lmcache_port)],
        )

    def _to_the_router(self) -> list[Fields]:
        plan = self._plan
        if plan.router is None or plan.router_port is None:
            return []
        ports = [plan.router_port]
        if plan.router_metrics_port is not None:
            ports.append(plan.router_metrics_port)
        return [egress_to([pods(router_selector(plan.router))], *ports)]


def verify_args(plan: VerifyPlan) -> list[str]:
    """Arguments of the program in the pod."""
    return [
        f"--discover={plan.pods_service}",
        f"--engine={plan.engine}",
        f"--model={plan.model}",
        f"--chunk-size={plan.chunk_size}",
        f"--engine-port={plan.engine_port}",
        f"--lmcache-port={plan.lmcache_port}",
        *(
            [
                f"--router-url=http://{plan.router}:{plan.router_port}",
                f"--router-policy={plan.router_policy}",
            ]
            if plan.router
            else []
        ),
        *(
            [f"--router-metrics-url=http://{plan.router}:{plan.router_metrics_port}/metrics"]
            if plan.router_metrics_port is not None
            else []
        ),
        f"--tokens={plan.prompt_tokens}",
        # 0 measures without judging.
        f"--ttft-ratio={plan.ttft_ratio or 0}",
        f"--request-seconds={plan.request_seconds}",
        f"--store-seconds={plan.store_seconds}",
        *([] if plan.tenant is None else [f"--tenant={plan.tenant}"]),
        *([] if plan.control_tenant is None else [f"--control-tenant={plan.control_tenant}"]),
    ]
