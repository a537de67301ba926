"""How things of AWS and of Kubernetes that a group names are written."""

from __future__ import annotations

import re
from typing import Final

TYPE: Final = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9]+")
ACCELERATED: Final = re.compile(r"ml\.(g[0-9]|gr[0-9]|p[0-9]|trn)")
CLUSTER_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:cluster/[a-z0-9]{12}"
)
TRAINING_PLAN_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]{1,63}"
)
FILE_SYSTEM: Final = re.compile(r"(fs|fc)i?-[0-9a-f]{8,}\..{4,253}")
MOUNT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,8}")
MOUNT_PATH: Final = re.compile(r"/[a-zA-Z0-9._/-]{1,1023}")
"""Patterns of SageMaker's API model (botocore 1.44.8). A stack of somebody's may stand in another
partition; a configuration's regions are all of the first."""

_GRAVITON: Final = re.compile(r"ml\.([a-z]+[0-9]+[a-z]*g[a-z]*|[a-z0-9]+-gb[0-9]+)\.[a-z0-9]+")


def architecture(instance_type: str) -> str:
    """Which programs an instance runs, by EC2's naming: a ``g`` behind the generation is Graviton.

    >>> [architecture(f"ml.{name}") for name in ("c7g.large", "g6e.xlarge", "p6e-gb200.36xlarge")]
    ['arm64', 'x86_64', 'arm64']
    """
    return "arm64" if _GRAVITON.fullmatch(instance_type) else "x86_64"
