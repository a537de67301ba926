"""Kubernetes versions and EKS add-on versions.

EKS accepts an add-on version only if it was built for the cluster's Kubernetes version, and it
adds builds every few weeks. An add-on missing below gets EKS's default. Newer builds come from
``aws eks describe-addon-versions --kubernetes-version VERSION --addon-name NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

KUBERNETES_VERSIONS: Final[tuple[str, ...]] = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
"""What HyperPod documents (reported: page sagemaker-hyperpod-eks-prerequisites).

The newest copy of the page ends at 1.35, an older one at 1.34.
"""

DEFAULT_KUBERNETES_VERSION: Final = "1.34"

MUTATING_POLICY_VERSION: Final = (1, 36)
"""First version that serves MutatingAdmissionPolicy v1 (KEP-3962: alpha 1.32, beta and off by
default 1.34, stable 1.36). EKS lets nobody turn a gate on."""

KYVERNO_CHART_VERSION: Final = "3.9.1"
"""Kyverno 1.19.1 (kyverno/kyverno v1.19.1, ``charts/kyverno/Chart.yaml``), whose MutatingPolicy
``policies.kyverno.io/v1`` takes the fields of MutatingAdmissionPolicy."""


def serves_mutating_policies(version: str) -> bool:
    """Whether the API server of a version changes objects by MutatingAdmissionPolicy v1.

    >>> serves_mutating_policies("1.35"), serves_mutating_policies("1.36")
    (False, True)
    """
    return tuple(map(int, version.split("."))) >= MUTATING_POLICY_VERSION


MIN_VPC_CNI: Final = "1.18.3"
"""HyperPod's floor (reported: sagemaker-hyperpod-eks-prerequisites)."""

MIN_EBS_CSI: Final = "1.47.0"
"""First driver that attaches volumes to HyperPod nodes (reported: sagemaker-hyperpod-eks-ebs)."""

# Two public lists carry the versions of 1.31 to 1.35, and where both speak they agree, except
# where a comment says otherwise:
#   A  a table of AWS's add-on pages as of 2026-08-20 (kube-proxy, coredns, vpc-cni);
#   B  a CDK application with one map per add-on, mid-2026 (all five).
# Versions of 1.30 come from several clusters that run them.
_POD_IDENTITY: Final = "v1.3.10-eksbuild.3"  # B, 1.30 to 1.35; also a second table, 1.33 to 1.35
_EBS_CSI: Final = "v1.61.1-eksbuild.1"  # B, 1.30 to 1.35; also a second table, 1.33 to 1.35
_VPC_CNI: Final = "v1.22.4-eksbuild.3"  # A, 1.31 to 1.35; B is older and has v1.22.2-eksbuild.1

ADDONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "1.30": MappingProxyType(
            {
                "vpc-cni": "v1.21.1-eksbuild.3",  # two Terraform configurations for 1.30
                "kube-proxy": "v1.30.14-eksbuild.20",  # five configurations for 1.30
                "coredns": "v1.11.4-eksbuild.28",  # three configurations for 1.30
                "eks-pod-identity-agent": _POD_IDENTITY,
                "aws-ebs-csi-driver": _EBS_CSI,
            }
        ),
        "1.31": MappingProxyType(
            {
                "vpc-cni": _VPC_CNI,
                "kube-proxy": "v1.31.14-eksbuild.20",  # A and B
                "coredns": "v1.11.4-eksbuild.40",  # A and B
                "eks-pod-identity-agent": _POD_IDENTITY,
                "aws-ebs-csi-driver": _EBS_CSI,
            }
        ),
        "1.32": MappingProxyType(
            {
                "vpc-cni": _VPC_CNI,
                "kube-proxy": "v1.32.13-eksbuild.16",  # A and B
                "coredns": "v1.11.4-eksbuild.40",  # A and B
                "eks-pod-identity-agent": _POD_IDENTITY,
                "aws-ebs-csi-driver": _EBS_CSI,
            }
        ),
        "1.33": MappingProxyType(
            {
                "vpc-cni": _VPC_CNI,
                "kube-proxy": "v1.33.10-eksbuild.13",  # A and B
                "coredns": "v1.12.4-eksbuild.18",  # A; B prefers v1.13.2-eksbuild.11
                "eks-pod-identity-agent": _POD_IDENTITY,
                "aws-ebs-csi-driver": _EBS_CSI,
            }
        ),
        "1.34": MappingProxyType(
            {
                "vpc-cni": _VPC_CNI,
                "kube-proxy": "v1.34.6-eksbuild.13",  # A, B and two clusters of that version
                "coredns": "v1.13.2-eksbuild.11",  # A, B and two clusters of that version
                "eks-pod-identity-agent": _POD_IDENTITY,
                "aws-ebs-csi-driver": _EBS_CSI,
            }
        ),
        "1.35": MappingProxyType(
            {
                "vpc-cni": _VPC_CNI,  # also read from EKS's API on 2026-08-27
                "kube-proxy": "v1.35.3-eksbuild.13",  # A and B
                "coredns": "v1.14.3-eksbuild.3",  # A and B
                "eks-pod-identity-agent": _POD_IDENTITY,
                "aws-ebs-csi-driver": _EBS_CSI,
            }
        ),
    }
)
"""Exact add-on version by Kubernetes version and add-on name."""
