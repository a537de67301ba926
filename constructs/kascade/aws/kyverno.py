"""Kyverno's Helm chart, installed by the function that applies manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from kascade.plan import ContainerSize, KyvernoPlan

_TIMEOUT: Final = cdk.Duration.minutes(10)
"""For images, leader election and its own certificates; the function ends after 15."""


class Kyverno(Construct):
    """Kyverno's admission controller, and no other of its controllers.

    Whatever is of one of its kinds depends on it: Helm returns once the kinds are there and the
    pods that answer for them are ready.

    Attributes:
        release: The Helm release.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: eks.ICluster, plan: KyvernoPlan
    ) -> None:
        super().__init__(scope, construct_id)
        self.release = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            chart="kyverno",
            repository=plan.chart_repository,
            version=plan.chart_version,
            release="kyverno",
            namespace=plan.namespace,
            create_namespace=False,  # a manifest makes it, with its labels and policy
            wait=True,
            timeout=_TIMEOUT,
            values=cast("Mapping[str, Any]", chart_values(plan)),
        )


def chart_values(plan: KyvernoPlan) -> dict[str, object]:
    """Values of the chart; names as in its ``values.yaml``."""
    values: dict[str, object] = {
        "admissionController": {
            "replicas": plan.replicas,
            "container": {"resources": _resources(plan.size)},
            # One may be drained, never all.
            "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
            "nodeAffinity": _ON_SYSTEM_NODES,
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {
                        "matchLabels": {"app.kubernetes.io/component": "admission-controller"}
                    },
                }
            ],
        },
        # They generate, delete and report; the policies here only change pods at admission.
        "backgroundController": {"enabled": False},
        "cleanupController": {"enabled": False},
        "reportsController": {"enabled": False},
        "features": {
            "admissionReports": {"enabled": False},
            "aggregateReports": {"enabled": False},
            "policyReports": {"enabled": False},
            "backgroundScan": {"enabled": False},
            "validatingAdmissionPolicyReports": {"enabled": False},
            "generateValidatingAdmissionPolicy": {"enabled": False},
            # Or anybody who may make an exception lets a pod past the policies.
            "policyExceptions": {"enabled": False},
        },
        # A hook that rewrites objects of older releases: there are none.
        "crds": {"migration": {"enabled": False}},
    }
    if plan.image_registry is not None:
        values["global"] = {"image": {"registry": plan.image_registry}}
    return values


_ON_SYSTEM_NODES: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {
                        "key": "sagemaker.amazonaws.com/instance-group-name",
                        "operator": "DoesNotExist",
                    }
                ]
            }
        ]
    }
}
"""The charts' own pods that need no GPU stand there, too; see ``kascade.kube._pods``."""


def _resources(size: ContainerSize) -> dict[str, object]:
    return {
        "requests": {"cpu": f"{size.cpu_millicores}m", "memory": f"{size.memory_mib}Mi"},
        "limits": {"memory": f"{size.limit_mib}Mi"},
    }
