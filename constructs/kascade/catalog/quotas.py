"""What an account may be too small for: quotas of AWS, by name or by code.

HyperPod's are matched by name: public lists disagree on their codes (ml.p5.48xlarge for cluster
usage is L-8762A75F in one and L-5C4CD236 in another), and the account itself says the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

HYPERPOD_SERVICE: Final = "sagemaker"

PER_CLUSTER: Final = "Maximum number instances allowed per SageMaker HyperPod cluster"
ALL_CLUSTERS: Final = "Total number of instances allowed across SageMaker HyperPod clusters"
ALL_SPOT: Final = "Total number of Spot instances allowed across SageMaker HyperPod clusters"
VOLUME: Final = "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance"
"""Names as AWS's HyperPod prerequisites page has them (sagemaker-hyperpod-prerequisites, table of
quotas); the one of spot instances as two public programs ask for it (reported)."""


def cluster_quota(instance_type: str, *, spot: bool) -> str:
    """Name of the quota of one instance type in HyperPod clusters.

    >>> cluster_quota("ml.g6e.4xlarge", spot=False)
    'ml.g6e.4xlarge for cluster usage'
    >>> cluster_quota("ml.g6e.4xlarge", spot=True)
    'ml.g6e.4xlarge for cluster spot instance usage'
    """
    return f"{instance_type} for cluster {'spot instance ' if spot else ''}usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaCode:
    """A quota that has the same code in every account.

    Attributes:
        source: Where the code was seen.
    """

    service: str
    code: str
    name: str
    source: str


_VPC_GUIDE: Final = "VPC user guide, quotas; the codes in AWS's landing zone accelerator guides"

ON_DEMAND_VCPUS: Final = QuotaCode(
    service="ec2",
    code="L-1216C47A",
    name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    source="EC2 user guide, on-demand instance quotas; counts vCPUs",
)
VPCS: Final = QuotaCode(service="vpc", code="L-F678F1CE", name="VPCs per Region", source=_VPC_GUIDE)
ELASTIC_IPS: Final = QuotaCode(
    service="ec2", code="L-0263D0A3", name="EC2-VPC Elastic IPs", source=_VPC_GUIDE
)
NAT_GATEWAYS: Final = QuotaCode(
    service="vpc",
    code="L-FE5A380F",
    name="NAT gateways per Availability Zone",
    source=_VPC_GUIDE,
)
INTERFACE_ENDPOINTS: Final = QuotaCode(
    service="vpc", code="L-29B6F2EB", name="Interface VPC endpoints per VPC", source=_VPC_GUIDE
)
LAMBDA_CONCURRENCY: Final = QuotaCode(
    service="lambda",
    code="L-B99A9384",
    name="Concurrent executions",
    source="Lambda developer guide, quotas: 1,000 by default, new accounts have less",
)

STANDARD_FAMILIES: Final = frozenset("acdhimrtz")
"""First letters of the EC2 types that ``ON_DEMAND_VCPUS`` counts."""

SYSTEM_VCPUS: Final[Mapping[str, int]] = MappingProxyType(
    {"m7i.xlarge": 4, "m5.xlarge": 4, "m5.2xlarge": 8}
)
"""vCPUs of the system nodes' types (EC2 instance types guide, general purpose)."""

DEPLOYMENT_CONCURRENCY: Final = 10
"""Lambda executions at once that a deployment needs: CDK's provider framework and the kubectl
function for each of four objects of a wave, and as many for another resource of its stack. It is
also what new accounts have in all (awslabs/eks-perf-tests issue 313,
aws-samples/one-observability-demo issue 193)."""

COMFORTABLE_CONCURRENCY: Final = 2 * DEPLOYMENT_CONCURRENCY
"""Room for whatever else runs in the account meanwhile."""

BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"
"""Where ``cdk bootstrap`` leaves its version, with the CDK's default qualifier."""

BOOTSTRAP_VERSION: Final = 6
"""What every template asks for (``requiresBootstrapStackVersion`` in cdk.out/manifest.json)."""

BOOTSTRAP_LOOKUP_VERSION: Final = 8
"""What the role asks for with which ``cdk diff`` reads the deployed templates (the same file)."""
