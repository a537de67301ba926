"""The whole file."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from kascade.config.blocks.cache import CacheConfig
from kascade.config.blocks.hyperpod import HyperPodConfig, InstanceGroupConfig
from kascade.config.blocks.images import ImagesConfig
from kascade.config.blocks.kubernetes import KubernetesConfig
from kascade.config.blocks.models import ModelConfig
from kascade.config.blocks.network import NetworkConfig
from kascade.config.blocks.observability import ObservabilityConfig
from kascade.config.blocks.router import RouterConfig
from kascade.config.blocks.values import MAX_NAME, Block, TagKey, TagValue, matching, short_name


class ServingConfig(Block):
    """A whole deployment file."""

    name: Annotated[str, short_name(MAX_NAME)] = Field(
        examples=["kascade"],
        description="Name of the deployment; every stack and cluster name begins with it.",
    )
    region: str = Field(examples=["us-west-2"], description="AWS region.")
    zones: tuple[str, ...] = Field(
        examples=[["us-west-2a", "us-west-2b"]],
        min_length=2,
        max_length=4,
        description="Availability zones, at least two (EKS needs them). EKS, the system nodes and "
        "groups without a zone live in the first two. More may be added at the end, for groups "
        "that name them; none can be moved or removed during the life of a deployment.",
    )
    zone_offerings: str | None = Field(
        default=None,
        description="Path, relative to this file, of the account's own list of the zones that "
        "offer each instance type, as `aws ec2 describe-instance-type-offerings` writes it; "
        "docs/groups.md has the command. Without it nothing compares zones with types.",
    )
    account: Annotated[str, matching(re.compile(r"[0-9]{12}"), "12 digits")] | None = Field(
        default=None,
        description="AWS account, in quotes. Without it the templates fit any account.",
    )
    tags: dict[TagKey, TagValue] = Field(
        default={}, max_length=40, description="Tags on every AWS resource."
    )
    instance_groups: tuple[InstanceGroupConfig, ...] = Field(
        min_length=1, max_length=20, description="HyperPod instance groups."
    )
    models: tuple[ModelConfig, ...] = Field(
        min_length=1, max_length=20, description="What is served."
    )
    hyperpod: HyperPodConfig = Field(
        default=HyperPodConfig(), description="Settings of all groups."
    )
    kubernetes: KubernetesConfig = Field(default=KubernetesConfig(), description="The EKS cluster.")
    network: NetworkConfig = Field(default=NetworkConfig(), description="The VPC.")
    cache: CacheConfig = Field(default=CacheConfig(), description="The KV cache below the GPU.")
    router: RouterConfig = Field(default=RouterConfig(), description="What picks the replica.")
    observability: ObservabilityConfig = Field(
        default=ObservabilityConfig(), description="Metrics and dashboards."
    )
    images: ImagesConfig = Field(
        default=ImagesConfig(), description="Images instead of the catalog's pinned ones."
    )
    on_delete: Literal["retain", "destroy"] = Field(
        default="retain",
        description="What becomes of log groups and buckets when their stacks are deleted. destroy "
        "also takes the context flag kascade:allow-destroy; see docs/deletion.md.",
    )
