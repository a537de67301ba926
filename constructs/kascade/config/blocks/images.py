"""Where images come from."""

from __future__ import annotations

from pydantic import Field

from kascade.config.blocks.values import Block, ImageReference


class ImagesConfig(Block):
    """Images to use instead of the catalog's, for instance from your own registry, by digest."""

    engine: ImageReference | None = Field(default=None, description="vLLM and LMCache.")
    router: ImageReference | None = Field(default=None, description="vllm-router.")
    curvine: ImageReference | None = Field(default=None, description="Curvine master and worker.")
    curvine_csi: ImageReference | None = Field(default=None, description="Curvine CSI driver.")
    csi_provisioner: ImageReference | None = Field(default=None, description="CSI sidecar.")
    csi_registrar: ImageReference | None = Field(default=None, description="CSI sidecar.")
    tenant_gateway: ImageReference | None = Field(
        default=None, description="nginx, for the tenant gateways of salted tenants."
    )
    jobs: ImageReference | None = Field(
        default=None, description="Python, for the Job that makes the cache key."
    )
    nvidia_device_plugin: ImageReference | None = Field(
        default=None, description="NVIDIA's device plugin."
    )
    efa_device_plugin: ImageReference | None = Field(
        default=None, description="EFA's device plugin."
    )
    health_agent: ImageReference | None = Field(
        default=None, description="HyperPod's health monitoring agent; its registry is regional."
    )
