"""Interface endpoints that a VPC without a way to the internet needs, and who calls each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BUSY_ENDPOINTS: Final = ("ecr.api", "ecr.dkr", "eks-auth", "logs", "sts")
"""Worth their price beside NAT: image pulls, logs and credentials."""

CLOSED_ENDPOINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ec2": "nodes, the VPC CNI and the EBS driver",
        "ec2messages": "SSM's agent on HyperPod nodes",
        "ecr.api": "image pulls",
        "ecr.dkr": "image pulls",
        "eks": "nodes that join, and the function that applies manifests",
        "eks-auth": "AWS rights of pods (EKS Pod Identity)",
        "lambda": "CDK's provider framework, which calls that function",
        "logs": "nodes' and pods' logs",
        "monitoring": "HyperPod nodes' metrics",
        "sagemaker.api": "volumes on HyperPod nodes (EBS driver)",
        "ssm": "SSM's agent on HyperPod nodes",
        "ssmmessages": "a person's session on a HyperPod node",
        "sts": "credentials",
    }
)
"""S3 has a gateway beside these. Ten are AWS's own list for closed HyperPod networks
(awslabs/awsome-distributed-training 0edaf15, ``modules/vpc_endpoints/main.tf``); ``eks``,
``lambda`` and ``sagemaker.api`` are what else runs inside the VPC here (inferred: nobody has
deployed this list yet). Managed Grafana brings its own two, below."""

GRAFANA_ENDPOINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "grafana": "the function that puts dashboards into Grafana",
        "grafana-workspace": "people's way to Grafana's private page, and that function's",
    }
)
"""Beside the others where Grafana's page is private (``kascade.aws.grafana``)."""
