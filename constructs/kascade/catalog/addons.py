"""EKS add-ons of HyperPod's features: names, versions, and who their pods are to IAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kascade.catalog.operator import OPERATOR_NAMESPACE

INFERENCE: Final = "amazon-sagemaker-hyperpod-inference"
TASK_GOVERNANCE: Final = "amazon-sagemaker-hyperpod-taskgovernance"
TRAINING_OPERATOR: Final = "amazon-sagemaker-hyperpod-training-operator"
OBSERVABILITY: Final = "amazon-sagemaker-hyperpod-observability"
S3_CSI: Final = "aws-mountpoint-s3-csi-driver"
FSX_CSI: Final = "aws-fsx-csi-driver"
CERT_MANAGER: Final = "cert-manager"
METRICS_SERVER: Final = "metrics-server"

INFERENCE_VERSION: Final = "v1.3.0-eksbuild.1"
"""Carries operator 3.2, whose kinds are rendered (reported: aws/sagemaker-hyperpod-cli issue 431).
Another one may know other fields, so it is not EKS's to choose."""

TASK_GOVERNANCE_VERSION: Final = "v1.3.0-eksbuild.1"
"""What the training operator wants at least, beside it (reported)."""

MINIMUM_VERSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        S3_CSI: "v1.14.1-eksbuild.1",
        FSX_CSI: "v1.6.0-eksbuild.1",
        METRICS_SERVER: "v0.7.2-eksbuild.4",
        CERT_MANAGER: "v1.18.2-eksbuild.2",
    }
)
"""What the inference add-on needs at least (reported: page
sagemaker-hyperpod-model-deployment-setup, section on required add-ons)."""

_CERT_MANAGER: Final = "v1.18.2-eksbuild.2"  # the same page, and public clusters of 1.33 and 1.34
_METRICS_SERVER: Final = "v0.8.1-eksbuild.4"  # a CDK application with one map per add-on, 2026

FEATURE_ADDONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "1.30": MappingProxyType({METRICS_SERVER: "v0.8.0-eksbuild.3"}),
        "1.31": MappingProxyType({METRICS_SERVER: _METRICS_SERVER}),
        "1.32": MappingProxyType({METRICS_SERVER: _METRICS_SERVER}),
        "1.33": MappingProxyType({METRICS_SERVER: _METRICS_SERVER, CERT_MANAGER: _CERT_MANAGER}),
        "1.34": MappingProxyType({METRICS_SERVER: _METRICS_SERVER, CERT_MANAGER: _CERT_MANAGER}),
        "1.35": MappingProxyType(
            # The latter from a public cluster of 1.35.
            {METRICS_SERVER: _METRICS_SERVER, CERT_MANAGER: "v1.19.3-eksbuild.2"}
        ),
    }
)
"""Exact version by Kubernetes version and name; what is missing gets EKS's default."""

INFERENCE_POD_SLOTS: Final = 13
"""What has to be free for the inference add-on's pods (reported: page
sagemaker-hyperpod-model-deployment-ts-console-cfn)."""

OPERATOR_ROLE_PREFIX: Final = "SageMakerHyperPodInference"
"""Begins the name of the operator's role, or the add-on rejects it (chart 2.2.2,
``_validateRequiredValues.tpl``)."""

TLS_BUCKET_PREFIX: Final = "hyperpod-tls-"
"""Buckets named so are within reach of the operator's managed policy (reported: the set-up page);
its rights on the one bucket are stated besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """A service account, as a trust policy names it."""

    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """The ``sub`` of its tokens.

        >>> ServiceAccount(namespace="kube-system", name="x").subject
        'system:serviceaccount:kube-system:x'
        """
        return f"system:serviceaccount:{self.namespace}:{self.name}"


# Of the add-on. The Helm chart has KEDA and the load balancer controller elsewhere, and a trust
# policy made for the one is rejected by the other (AssumeRoleWithWebIdentity 403).
OPERATOR_ACCOUNT: Final = ServiceAccount(
    namespace=OPERATOR_NAMESPACE, name="hyperpod-inference-controller-manager"
)
KEDA_ACCOUNT: Final = ServiceAccount(namespace=OPERATOR_NAMESPACE, name="keda-operator")
BALANCER_ACCOUNT: Final = ServiceAccount(
    namespace=OPERATOR_NAMESPACE, name="aws-load-balancer-controller"
)

# By EKS Pod Identity; the add-on's own namespace is implied where the add-on names the account.
FSX_ACCOUNT: Final = "fsx-csi-controller-sa"
OBSERVABILITY_ACCOUNT: Final = "hyperpod-observability-operator-otel-collector"
TRAINING_ACCOUNT: Final = ServiceAccount(
    namespace="aws-hyperpod", name="hp-training-operator-controller-manager"
)
"""Reported by several public applications; the add-on takes no association of its own
(awslabs/awsome-distributed-ai issue 1075)."""
