"""Regions in which HyperPod offers each catalogued type.

Taken from PyPI cfn-lint 1.58.0 (``aws_sagemaker_cluster/instancetype_enum.json``), which derives
it from AWS's price lists. That list lags reality: a type missing here may well be on offer (p5e
is in no region of it), so warn on it, never reject.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OFFERINGS_SOURCE: Final = "cfn-lint 1.58.0, aws_sagemaker_cluster/instancetype_enum.json"

_Regions = tuple[str, ...]

_G5: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_G6: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-2",
    "ap-southeast-5",
    "ca-central-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-2",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_GR6: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-2",
    "ap-southeast-5",
    "ca-central-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-2",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_G6E: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-2",
    "eu-central-1",
    "eu-north-1",
    "eu-south-2",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_G7: _Regions = (
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_G7E: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "eu-central-1",
    "eu-north-1",
    "eu-south-2",
    "eu-west-2",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_P4D: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_P4DE: _Regions = (
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_P5_4XLARGE: _Regions = (
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
)
_P5: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)
_P5E: _Regions = ()
_P5EN: _Regions = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-3",
    "eu-north-1",
    "eu-south-2",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)

OFFERED_IN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ml.g5.xlarge": _G5,
        "ml.g5.2xlarge": _G5,
        "ml.g5.4xlarge": _G5,
        "ml.g5.8xlarge": _G5,
        "ml.g5.12xlarge": _G5,
        "ml.g5.16xlarge": _G5,
        "ml.g5.24xlarge": _G5,
        "ml.g5.48xlarge": _G5,
        "ml.g6.xlarge": _G6,
        "ml.g6.2xlarge": _G6,
        "ml.g6.4xlarge": _G6,
        "ml.g6.8xlarge": _G6,
        "ml.g6.12xlarge": _G6,
        "ml.g6.16xlarge": _G6,
        "ml.g6.24xlarge": _G6,
        "ml.g6.48xlarge": _G6,
        "ml.gr6.4xlarge": _GR6,
        "ml.gr6.8xlarge": _GR6,
        "ml.g6e.xlarge": _G6E,
        "ml.g6e.2xlarge": _G6E,
        "ml.g6e.4xlarge": _G6E,
        "ml.g6e.8xlarge": _G6E,
        "ml.g6e.12xlarge": _G6E,
        "ml.g6e.16xlarge": _G6E,
        "ml.g6e.24xlarge": _G6E,
        "ml.g6e.48xlarge": _G6E,
        "ml.g7.2xlarge": _G7,
        "ml.g7.4xlarge": _G7,
        "ml.g7.8xlarge": _G7,
        "ml.g7.12xlarge": _G7,
        "ml.g7.24xlarge": _G7,
        "ml.g7.48xlarge": _G7,
        "ml.g7e.2xlarge": _G7E,
        "ml.g7e.4xlarge": _G7E,
        "ml.g7e.8xlarge": _G7E,
        "ml.g7e.12xlarge": _G7E,
        "ml.g7e.24xlarge": _G7E,
        "ml.g7e.48xlarge": _G7E,
        "ml.p4d.24xlarge": _P4D,
        "ml.p4de.24xlarge": _P4DE,
        "ml.p5.4xlarge": _P5_4XLARGE,
        "ml.p5.48xlarge": _P5,
        "ml.p5e.48xlarge": _P5E,
        "ml.p5en.48xlarge": _P5EN,
    }
)
"""Regions of each type, sorted; empty where the list knows none."""
