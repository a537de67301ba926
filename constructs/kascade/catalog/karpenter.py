"""HyperPod's managed Karpenter: what is known of it, and from where.

All of it is reported, from AWS's pages sagemaker-hyperpod-eks-autoscaling and those below it (-iam,
-nodeclass, -nodepool), and agrees with four public applications that use it.
"""

from __future__ import annotations

import re
from typing import Final

NODE_CLASS_GROUP: Final = "karpenter.sagemaker.amazonaws.com"
NODE_CLASS_VERSION: Final = f"{NODE_CLASS_GROUP}/v1"
NODE_CLASS_KIND: Final = "HyperpodNodeClass"
"""Its spec is ``instanceGroups``: names of groups, ten at most. The kind comes with autoscaling."""

NODE_POOL_VERSION: Final = "karpenter.sh/v1"
"""The Karpenter project's own; HyperPod takes v1 only."""

OWN_LABELS: Final = ("karpenter.sh", "karpenter.k8s.aws", NODE_CLASS_GROUP)
"""Domains whose labels a NodePool may not set."""

MIN_HEALTH_AGENT: Final = "1.0.742.0_1.0.241.0"
"""Oldest health monitoring agent that autoscaling works with."""


def agent_number(tag: str) -> tuple[int, ...]:
    """Order tags of the health monitoring agent.

    >>> agent_number("1.0.742.0_1.0.241.0") < agent_number("1.0.1249.0_1.0.359.0")
    True
    """
    return tuple(map(int, re.findall(r"\d+", tag)))
