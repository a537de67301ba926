"""Models: what is served, with which weights, by how many engines, for whom."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from kascade.config.blocks.hyperpod import OperatorConfig
from kascade.config.blocks.values import (
    MAX_MODEL_NAME,
    MAX_NAME,
    Block,
    BucketName,
    ClaimName,
    Folders,
    KeyArn,
    SecretName,
    Whole,
    matching,
    short_name,
)

_MODEL_ID = re.compile(
    r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII
)
"""Hugging Face allows neither ``--`` nor ``..``; the first is a slash in directory names."""

_REVISION = re.compile(r"[0-9a-f]{40}")


class HubWeights(Block):
    """Weights that each pod downloads from Hugging Face onto a volume of its own."""

    kind: Literal["hub"] = "hub"


class S3Weights(Block):
    """Weights in a bucket of yours, mounted read-only by Mountpoint for S3."""

    kind: Literal["s3"] = "s3"
    bucket: BucketName = Field(
        examples=["example-models"],
        description="General purpose bucket in the deployment's region.",
    )
    prefix: Folders = Field(
        examples=["qwen2-7b/f2826a0"],
        description="Folder with the model's files (config.json, tokenizer, *.safetensors). Name "
        "the revision in it and never change what lies there: it is part of the cache's directory.",
    )
    kms_key_arn: KeyArn | None = Field(
        default=None, description="Your own key, where the bucket is encrypted with one."
    )


class ClaimWeights(Block):
    """Weights on a volume of yours, mounted read-only from a claim in the serving namespace."""

    kind: Literal["claim"] = "claim"
    name: ClaimName = Field(
        examples=["models"],
        description="PersistentVolumeClaim that every replica can mount at once. You make it.",
    )
    path: Folders | None = Field(
        default=None,
        description="Folder in it with the model's files. Name the revision in it and never change "
        "what lies there: it is part of the cache's directory. Without it the volume's root.",
    )


TenantName = Annotated[str, short_name(MAX_NAME)]

_TENANTS = Field(
    examples=[["alice", "bob"]],
    min_length=1,
    max_length=20,
    description="Short names, unique. They stand in file names, metrics and labels, so a name is "
    "no secret.",
)


class SharedTenancyConfig(Block):
    """Everybody shares the model and its cache."""

    kind: Literal["shared"] = "shared"


class SaltedTenancyConfig(Block):
    """Tenants share the engines and no cached block; each has a tenant gateway of its own."""

    kind: Literal["salted"] = "salted"
    tenants: tuple[TenantName, ...] = _TENANTS


class IsolatedTenancyConfig(Block):
    """Each tenant has engines, cache, key and router of its own; `replicas` counts for each."""

    kind: Literal["isolated"] = "isolated"
    tenants: tuple[TenantName, ...] = _TENANTS


class ModelConfig(Block):
    """One model and its replicas."""

    name: Annotated[str, short_name(MAX_MODEL_NAME)] = Field(
        examples=["qwen2-7b"],
        description="Short name, unique; names the Deployment, Service and router.",
    )
    model: Annotated[
        str, matching(_MODEL_ID, "a Hugging Face id such as Qwen/Qwen2-7B-Instruct")
    ] = Field(
        examples=["Qwen/Qwen2-7B-Instruct"],
        description="Hugging Face id. It is part of every cache key.",
    )
    weights: Annotated[HubWeights | S3Weights | ClaimWeights, Field(discriminator="kind")] = Field(
        default=HubWeights(), description="Where the weights come from."
    )
    config_json: str | None = Field(
        default=None,
        description="Path, relative to this file, of the model's Hugging Face config.json. Needed "
        "only for a model that the catalog does not know.",
    )
    revision: Annotated[str, matching(_REVISION, "40 lower-case hex digits")] | None = Field(
        default=None,
        description="Hugging Face commit of the weights. Without it: the catalog's, where it knows "
        "one, else whatever `main` is when a pod starts.",
    )
    replicas: Whole = Field(
        examples=[2], ge=1, le=1000, description="Engines that serve this model."
    )
    mode: Literal["deployment", "operator"] = Field(
        default="deployment",
        description="Who makes the pods. deployment: this project. operator: HyperPod's inference "
        "operator, from an InferenceEndpointConfig, with a router and a load balancer of its own; "
        "the cache is put into its pods at admission.",
    )
    operator: OperatorConfig = Field(
        default=OperatorConfig(), description="Settings of mode `operator`."
    )
    instance_group: str | None = Field(
        default=None,
        description="Group whose instances run it. May be left out when there is only one.",
    )
    tensor_parallel: Whole = Field(
        default=1, ge=1, le=8, description="GPUs that share one replica."
    )
    max_model_len: Whole | None = Field(
        default=None,
        ge=256,
        description="Longest prompt plus answer, in tokens. Without it: the model's limit, or what "
        "L0 holds if that is less.",
    )
    kv_cache_dtype: Literal["auto", "fp8"] = Field(
        default="auto",
        description="auto keeps the model's dtype; fp8 halves every tier's bytes per token.",
    )
    quantization: Literal["fp8"] | None = Field(
        default=None, description="fp8 quantizes 16-bit weights while loading."
    )
    gpu_memory_utilization: (
        Annotated[float, Field(strict=True, gt=0.1, lt=1.0, allow_inf_nan=False)] | None
    ) = Field(
        default=None,
        description="Share of GPU memory that vLLM may use. Without it: 0.92, less where the "
        "LMCache server's own GPU context needs more room.",
    )
    max_num_seqs: Whole | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Requests in one batch at most. Without it: vLLM's own default for the GPU, "
        "256 below 70 GiB and on an A100, 1024 above.",
    )
    max_batched_tokens: Whole | None = Field(
        default=None,
        ge=256,
        le=131072,
        description="Tokens in one forward pass at most; while one of that size runs, nothing "
        "decodes. Without it: vLLM's own default for the GPU, 2048 below 70 GiB and on an A100, "
        "8192 above.",
    )
    huggingface_token_secret: SecretName | None = Field(
        default=None,
        description="Secret in the serving namespace whose key `token` holds a Hugging Face token. "
        "You make it; gated models need it.",
    )
    tenancy: Annotated[
        SharedTenancyConfig | SaltedTenancyConfig | IsolatedTenancyConfig,
        Field(discriminator="kind"),
    ] = Field(
        default=SharedTenancyConfig(),
        description="Who shares what: shared keeps nobody apart. docs/tenancy.md says what each "
        "kind separates and what it leaves open.",
    )

    @property
    def tenants(self) -> tuple[str, ...]:
        """Names of the tenants that are kept apart; none where all is shared."""
        return () if self.tenancy.kind == "shared" else self.tenancy.tenants

    @property
    def engine_names(self) -> tuple[str, ...]:
        """Names of the engines that serve it: one, or one for each isolated tenant."""
        if self.tenancy.kind != "isolated":
            return (self.name,)
        return tuple(f"{self.name}-{tenant}" for tenant in self.tenants)
