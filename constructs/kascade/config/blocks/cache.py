"""The tiers of the cache."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from kascade.config.blocks.values import (
    PATH_STEP,
    Block,
    ClaimName,
    NoSwitch,
    Share,
    Switch,
    Whole,
    matching,
)

_INNER_PATH = re.compile(rf"{PATH_STEP}(/{PATH_STEP}){{0,5}}")


class L1Config(Block):
    """L1: host RAM beside each engine."""

    capacity_gib: Whole | None = Field(
        default=None,
        ge=1,
        description="L1 of one replica. Without it: all the RAM that nothing else needs.",
    )


Encryption = Literal["aesgcm", "none"]

_ENCRYPTION = (
    "aesgcm encrypts and authenticates every block, so that a damaged file becomes "
    "a recompute; with none it was measured to become a wrong answer."
)


class JanitorConfig(Block):
    """What keeps each shared directory of L2 below a mark, and clears what dead pods left."""

    enabled: Switch = Field(
        default=True,
        description="False leaves it out. Then nothing but age bounds what restarted replicas "
        "leave behind, empty and short files stay hits that nobody can load, and on Curvine an "
        "engine that stores nothing for ttl_hours never stores again.",
    )
    high_water: Share = Field(
        default=0.95,
        description="Share of what the replicas of a model may write together. Above it the oldest "
        "files are deleted.",
    )
    low_water: Share = Field(default=0.85, description="Share at which it stops deleting.")
    fresh_seconds: Whole = Field(
        default=600,
        ge=60,
        le=86400,
        description="Files and directories younger than this are never deleted.",
    )
    interval_seconds: Whole = Field(
        default=60, ge=10, le=3600, description="Pause between two rounds."
    )


class CurvineConfig(Block):
    """L2 on Curvine: the NVMe of all nodes as one directory."""

    kind: Literal["curvine"] = "curvine"
    capacity_gib_per_node: Whole | None = Field(
        default=None,
        ge=10,
        description="What each node gives to the pool. Without it: 65 % of its NVMe.",
    )
    reserved_gib_per_node: Whole = Field(
        default=50, ge=10, le=1000, description="Part of that which Curvine never fills."
    )
    masters: Annotated[Literal[1, 3], NoSwitch] = Field(
        default=1,
        description="Metadata servers. Cannot be changed during the life of a deployment.",
    )
    ttl_hours: Whole = Field(
        default=24,
        ge=1,
        le=8760,
        description="Age at which Curvine deletes a cached block, used or not. With the janitor "
        "off it alone bounds the files that restarted replicas leave behind, and the pool must "
        "hold this many hours of new blocks.",
    )
    encryption: Encryption = Field(default="aesgcm", description=_ENCRYPTION)
    janitor: JanitorConfig = Field(
        default=JanitorConfig(), description="What bounds each model's directory."
    )


class ManagedConfig(Block):
    """L2 in HyperPod's managed tiered storage: a share of every node's RAM, which AWS runs."""

    kind: Literal["managed"] = "managed"
    encryption: Encryption = Field(default="aesgcm", description=_ENCRYPTION)


class DirectoryConfig(Block):
    """L2 in a directory of a file system that you bring, such as FSx for Lustre or EFS."""

    kind: Literal["directory"] = "directory"
    claim: ClaimName = Field(
        examples=["kv-cache"],
        description="Claim with access mode ReadWriteMany in the serving namespace. You make it.",
    )
    capacity_gib: Whole = Field(
        examples=[1200],
        ge=10,
        le=10_000_000,
        description="What the engines of all models together may fill.",
    )
    path: Annotated[str, matching(_INNER_PATH, "a path inside the claim, such as kascade/kv")] = (
        Field(
            default="kascade",
            description="Directory inside the claim below which each model gets its own.",
        )
    )
    file_system: Literal["nfs4", "lustre"] | None = Field(
        default=None,
        description="What must be mounted. Without it: anything but a disk of the node itself.",
    )
    read_mib_per_second: Whole | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="What the file system delivers to one node. Without it the plan counts with "
        "the network alone.",
    )
    encryption: Encryption = Field(default="aesgcm", description=_ENCRYPTION)
    janitor: JanitorConfig = Field(
        default=JanitorConfig(), description="What bounds each model's directory."
    )


class NoL2Config(Block):
    """No L2: what one replica computed, no other can read."""

    kind: Literal["none"] = "none"


L2Config = CurvineConfig | ManagedConfig | DirectoryConfig | NoL2Config
"""The either/or of L2."""


class CacheConfig(Block):
    """The KV cache below the GPU."""

    chunk_size: Whole = Field(
        default=256,
        ge=16,
        le=8192,
        description="Tokens of one cached chunk, the unit of L1 and L2.",
    )
    block_size: Annotated[Literal[16, 32, 64, 128], NoSwitch] = Field(
        default=16, description="Tokens of one vLLM block; the chunk must be a multiple of it."
    )
    l1: L1Config = Field(default=L1Config(), description="Host RAM beside each engine.")
    l2: Annotated[L2Config, Field(discriminator="kind")] = Field(
        default=CurvineConfig(), description="The tier that all replicas share."
    )
