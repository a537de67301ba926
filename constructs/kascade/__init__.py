"""Kascade: LLM serving on SageMaker HyperPod whose KV cache cascades from GPU to RAM to NVMe.

This face is pure Python: it reads a configuration and plans it. The constructs live in
:mod:`kascade.aws` (AWS CDK) and :mod:`kascade.kube` (cdk8s).
"""

from kascade.config.blocks import ServingConfig
from kascade.errors import InvalidConfigError, KascadeError, Problem
from kascade.plan import Figure, ServingPlan
from kascade.planning.loading import load_config
from kascade.planning.planner import plan_file, plan_serving

__all__ = [
    "Figure",
    "InvalidConfigError",
    "KascadeError",
    "Problem",
    "ServingConfig",
    "ServingPlan",
    "load_config",
    "plan_file",
    "plan_serving",
]
