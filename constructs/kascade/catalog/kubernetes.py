"""Kubernetes versions and EKS add-on versions.

EKS accepts an add-on version only if it was built for the cluster's Kubernetes version, and it
adds builds every few weeks. An add-on missing below gets EKS's default. Newer builds come from
``aws eks describe-addon-versions --kubernetes-version VERSION --addon-name NAME``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final

KUBERNETES_VERSIONS: Final[tuple[str, ...]] = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
"""What HyperPod documents (reported: page sagemaker-hyperpod-eks-prerequisites).

The newest copy of the page ends at 1.35, an older one at 1.34.
"""

DEFAULT_KUBERNETES_VERSION: Final = "1.35"

OWN_LABEL_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "sagemaker.amazonaws.com",
    "eks.amazonaws.com",
)
"""Domains of the node labels that Kubernetes or HyperPod set; placement relies on them."""


def owner_of(label: str) -> str | None:
    """Return the domain of a label that is none of ours to set.

    >>> owner_of("node.kubernetes.io/instance-type"), owner_of("example.com/team"), owner_of("team")
    ('node.kubernetes.io', None, None)
    """
    domain = label.rpartition("/")[0]
    own = any(f".{domain}".endswith(f".{known}") for known in OWN_LABEL_DOMAINS)
    return domain if own else None


SUPPORT_AS_OF: Final = "2026-11-30"
"""The day on which the dates below were compared with the calendar. No plan asks a clock, or the
same file would give another plan tomorrow."""

SUPPORT_ENDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "1.30": ("2025-07-23", "2026-07-23"),
        "1.31": ("2025-11-26", "2026-11-26"),
        "1.32": ("2026-03-23", "2027-03-23"),
        "1.33": ("2026-07-29", "2027-07-29"),
        "1.34": ("2026-12-02", "2027-12-02"),
        "1.35": ("2027-03-27", "2028-03-27"),
    }
)
"""Last days of EKS's standard and extended support (endoflife.date/amazon-eks of February 2026 and
aws-samples/sample-apex-skills, verified there on 2026-04-24: both agree; AWS's calendar says when a
date is only planned)."""

EKS_USD_PER_HOUR: Final = 0.10
"""EKS control plane in standard support, AWS price page."""

EKS_EXTENDED_USD_PER_HOUR: Final = 0.60
"""The same in extended support, AWS price page."""

SUPPORT_NOTICE_DAYS: Final = 90
"""How long before the end of standard support a plan says so: a quarter to upgrade in."""


def support_of(version: str) -> str:
    """Say where a version stands: ``standard``, ``ending``, ``extended`` or ``over``.

    >>> [support_of(version) for version in ("1.31", "1.33", "1.34", "1.35")]
    ['over', 'extended', 'ending', 'standard']
    """
    today = date.fromisoformat(SUPPORT_AS_OF)
    standard, extended = map(date.fromisoformat, SUPPORT_ENDS[version])
    if today > extended:
        return "over"
    if today > standard:
        return "extended"
    return "ending" if standard - today <= timedelta(SUPPORT_NOTICE_DAYS) else "standard"


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

KEY_SECRET = "kv-cache-key"  # noqa: S105  (the Secret's name, not its content)
"""Made in the cluster; an isolated tenant's has the engine's name behind it."""

SUBDOMAIN: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_NAME_PART: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
LABEL_KEY: Final = re.compile(rf"(?![^/]{{254}})({SUBDOMAIN}/)?{_NAME_PART}")
LABEL_VALUE: Final = re.compile(_NAME_PART)
"""How Kubernetes writes a domain and a label; it takes an empty value as well, HyperPod none."""
