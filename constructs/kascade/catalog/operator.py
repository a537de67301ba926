"""HyperPod's inference operator: what is known of it, and from where."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

OPERATOR_VERSION: Final = "3.2"
"""Whose InferenceEndpointConfig is rendered: the CRD of chart 2.2.2 (aws/sagemaker-hyperpod-cli
011ca92). Later ones add fields and keep these (reported)."""

OPERATOR_NAMESPACE: Final = "hyperpod-inference-system"
"""Where the operator, its routers and its Ingresses live."""

PROXY_PORT: Final = 8081
"""Of the proxy in each pod (reported: two applications that address it; containers
``sidecar-reverse-proxy`` and ``otel-collector``, awslabs/ai-on-sagemaker-hyperpod)."""

MAX_NAME_AND_NAMESPACE: Final = 63 - len("--routing-service")
"""The router's Service is called NAME-NAMESPACE-routing-service (reported), a DNS label."""

OPERATOR_REGIONS: Final = (
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "eu-central-1",
    "eu-north-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)
"""Regions with an image of the operator (values.yaml of the same chart)."""

KNOWN_FAULTS: Final = MappingProxyType(
    {
        "LMCACHE_": "operator 3.2.0 strips every LMCACHE_* variable of an endpoint and, with its "
        "L2 cache on, injects its own (aws/sagemaker-hyperpod-cli issue 431)",
    }
)
