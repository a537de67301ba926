"""LMCache's L2 adapters as types: what is not declared here cannot be written.

LMCache rejects no unknown key of an adapter's JSON, so a misspelt one would simply have no effect;
and it accepts values that lose data. Names and types are those of lmcache 0.5.6,
``lmcache/v1/distributed/l2_adapters`` and ``serde/aesgcm.py``; the rules beyond them are ours, each
with its reason.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _absolute(path: str) -> str:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == "/":
        msg = f"{path!r} is no plain absolute path below the root"
        raise ValueError(msg)
    return path


def _one_level(path: str) -> str:
    # fs_native writes outside the base path for ".." and absolute paths, and fs does not start on
    # two levels. An empty one puts half-written files among the others.
    if "/" in path or path.strip(".") == "":
        msg = f"{path!r} is no single folder below the base path"
        raise ValueError(msg)
    # With a folder that two pods share, 47 of 120 stores of two replicas failed and half-written
    # files became visible.
    if "$(POD_NAME)" not in path:
        msg = f"{path!r} is the same in every pod; it must hold $(POD_NAME)"
        raise ValueError(msg)
    return path


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
PodFolder = Annotated[str, AfterValidator(_one_level)]
Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(gt=0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Eviction(_Part):
    """What an adapter deletes, and when."""

    eviction_policy: Literal["LRU", "ARC", "IsolatedLRU"]
    trigger_watermark: Share
    eviction_ratio: Share


class AesGcm(_Part):
    """Blocks are encrypted: plain ones have no checksum, so a damaged one is a wrong answer."""

    type: Literal["aesgcm"] = "aesgcm"
    master_key_path: AbsolutePath
    # LMCache's own default is 128.
    aes_bits: Literal[128, 256]
    # One thread by default, slower than the network.
    max_workers: Count


class FsNativeAdapter(_Part):
    """Files in a directory that all replicas mount, written by threads in C++."""

    type: Literal["fs_native"] = "fs_native"
    base_path: AbsolutePath
    relative_tmp_dir: PodFolder
    shared: Literal[True] = True
    num_workers: Count
    # The capacity bounds nothing without the block that follows, so neither may be left out.
    max_capacity_gb: Count
    eviction: Eviction
    serde: AesGcm | None = None


class HyperPodAdapter(_Part):
    """HyperPod's tiered storage. Its daemon owns eviction: LMCache rejects a block for it."""

    type: Literal["sagemaker-hyperpod"] = "sagemaker-hyperpod"
    url: Annotated[str, Field(pattern=r"^sagemaker-hyperpod://\$\(NODE_IP\):[0-9]{2,5}$")]
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$")]
    # LMCache's own default is "shared_memory", which HyperPod's daemon does not make.
    shared_memory_name: Literal["ai_toolkit_cache"]
    shared: Literal[True] = True
    serde: AesGcm | None = None


Adapter = FsNativeAdapter | HyperPodAdapter


def adapter_json(adapter: Adapter) -> str:
    """Write an adapter as the value of ``--l2-adapter``; no key stands for nothing."""
    return json.dumps(adapter.model_dump(exclude_none=True), separators=(",", ":"))
