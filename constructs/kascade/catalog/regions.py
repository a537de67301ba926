"""Regions: their zones and the account that holds HyperPod's health monitoring agent.

Only commercial regions that have HyperPod and offer at least one catalogued type stand in
``REGIONS``. Zone names are AWS's public letters; every account sees them shuffled, so two accounts'
``a`` zones may differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

ZONES_SOURCE: Final = "cfn-lint 1.58.0, AVAILABILITY_ZONES in cfnlint/helpers.py"
HEALTH_AGENT_SOURCE: Final = (
    "aws/sagemaker-hyperpod-cli 011ca92, charts/health-monitoring-agent/templates/_helpers.tpl"
)

RESOURCE_TYPES_SOURCE: Final = (
    "aws-cdk-lib 2.275.0, @aws/cloudformation-validate, rule F3006; cfn-lint 1.58.0, "
    "cfnlint/data/schemas/providers"
)

WITHOUT_HYPERPOD: Final = ("ap-southeast-5", "eu-central-2")
"""Regions that price catalogued types but have no ``AWS::SageMaker::Cluster``."""

WITHOUT_MANAGED_GRAFANA: Final = (
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-3",
    "ca-central-1",
    "eu-north-1",
    "eu-south-2",
    "sa-east-1",
    "us-west-1",
)
"""Regions of ``REGIONS`` that have no ``AWS::Grafana::Workspace``."""

EKS_REFUSED_ZONES: Final[Mapping[str, str]] = MappingProxyType(
    {"ca-central-1": "cac1-az3", "us-east-1": "use1-az3", "us-west-1": "usw1-az2"}
)
"""The zone of a region in which EKS puts no control plane, by its id (EKS user guide, subnet
requirements of clusters; eksctl issues 817 and 905). Which letter it has differs by account."""

HEALTH_AGENT_TAG: Final = "1.0.1892.0_1.0.424.0"
"""The tag AWS's chart pins. Support for g7 is reported to start with 1.0.2297.0_1.0.474.0."""

HEALTH_AGENT_ACCOUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ap-northeast-1": "533267052152",
        "ap-south-1": "011528288864",
        "ap-southeast-1": "905418428165",
        "ap-southeast-2": "851725636348",
        "ap-southeast-3": "971422672635",
        "ap-southeast-4": "084375568333",
        "ca-central-1": "843976229209",
        "eu-central-1": "211125453373",
        "eu-north-1": "654654141839",
        "eu-south-2": "626887787726",
        "eu-west-1": "533267293120",
        "eu-west-2": "011528288831",
        "sa-east-1": "025066253954",
        "us-east-1": "767398015722",
        "us-east-2": "851725546812",
        "us-west-1": "011528288828",
        "us-west-2": "905418368575",
    }
)
"""Registry account by region, as text: several begin with 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One AWS region.

    Attributes:
        name: Such as ``us-west-2``.
        zones: Names of its availability zones, sorted.
        health_agent_account: Registry account of the health monitoring agent, or None where AWS
            publishes none; such a region needs an image named by hand.
    """

    name: str
    zones: tuple[str, ...]
    health_agent_account: str | None


_ZONE_LETTERS: Final[Mapping[str, str]] = {
    "ap-northeast-1": "abcd",
    "ap-northeast-2": "abcd",
    "ap-south-1": "abc",
    "ap-south-2": "abc",
    "ap-southeast-1": "abc",
    "ap-southeast-2": "abc",
    "ap-southeast-3": "abc",
    "ca-central-1": "abcd",
    "eu-central-1": "abc",
    "eu-north-1": "abc",
    "eu-south-2": "abc",
    "eu-west-1": "abc",
    "eu-west-2": "abc",
    "sa-east-1": "abc",
    "us-east-1": "abcdef",
    "us-east-2": "abc",
    "us-west-1": "ac",
    "us-west-2": "abcd",
}

REGIONS: Final[Mapping[str, Region]] = MappingProxyType(
    {
        name: Region(
            name=name,
            zones=tuple(name + letter for letter in letters),
            health_agent_account=HEALTH_AGENT_ACCOUNTS.get(name),
        )
        for name, letters in _ZONE_LETTERS.items()
    }
)
"""Every region by name."""
