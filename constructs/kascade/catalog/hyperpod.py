"""Limits of HyperPod itself, which a configuration and a construct of the library both meet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kascade.catalog.instances import INSTANCES
from kascade.catalog.training_plans import RESERVABLE_TYPES

GROUP_NAME: Final = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")
"""Names of clusters and instance groups (SageMaker's API model, botocore 1.44.8)."""

DEEP_HEALTH_CHECKS: Final = ("InstanceStress", "InstanceConnectivity")

MAX_INSTANCES: Final = 6758
MAX_TYPES: Final = 20
MAX_LABELS: Final = 50
MAX_VOLUME_GIB: Final = 16384
MAX_STORAGE: Final = 4
MAX_ALARMS: Final = 10
MAX_WAIT_SECONDS: Final = 3600
MAX_PERCENTAGE: Final = 100
"""Limits of AWS::SageMaker::Cluster in CloudFormation's registry: instances, types, labels and
taints of a group, its volumes with its file systems, and its scheduled updates."""

MIN_TIERED_PERCENTAGE: Final = 20
"""HyperPod's documentation calls 20 to 100 valid, while the API's schema takes 0 to 100."""


def without_adapter(types: Iterable[str]) -> list[str]:
    """Return those of the types in the catalog that have no Elastic Fabric Adapter.

    >>> without_adapter(["ml.g6e.4xlarge", "ml.g6e.8xlarge", "ml.g6e.4xlarge"])
    ['ml.g6e.4xlarge']
    """
    known = [INSTANCES[name] for name in dict.fromkeys(types) if name in INSTANCES]
    return [instance.name for instance in known if not instance.efa_interfaces]


def not_reservable(types: Iterable[str]) -> list[str]:
    """Return those of the types that no training plan reserves.

    >>> not_reservable(["ml.g6e.4xlarge", "ml.p5.48xlarge"])
    ['ml.g6e.4xlarge']
    """
    return [name for name in types if name not in RESERVABLE_TYPES]
