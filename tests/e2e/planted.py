"""Misconfigurations to plant on the second of two replicas, and what the verification has to say.

Each was seen with vLLM 0.32.0 and LMCache 0.5.6 on two CPU cores. ``found`` are the causes of the
direction first > second, ``given`` those of second > first; an empty tuple means that this
direction passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One misconfiguration.

    Attributes:
        server: Flags of the second ``lmcache server`` that are replaced or added.
        adapter: Keys of its ``--l2-adapter`` that are replaced or added; ``OWN`` stands for a file
            or folder of the test's own.
        engine: Flags of the second vLLM that are replaced or added.
        mount: Size of a file system of its own behind the second server's base path, in MiB, or
            None for the shared one.
        stopped: The second server ends once its vLLM serves.
        found: Causes when the second replica reads.
        given: Causes when the first replica reads.
    """

    server: Mapping[str, str] = field(default_factory=dict)
    adapter: Mapping[str, object] = field(default_factory=dict)
    engine: Mapping[str, str] = field(default_factory=dict)
    mount: int | None = None
    stopped: bool = False
    found: tuple[str, ...]
    given: tuple[str, ...]


OWN: Final = "(the test's own)"

PLANTED: Final = {
    "hash algorithm": Planted(
        server={"--hash-algorithm": "sha256_cbor"},
        found=("hash-algorithm",),
        given=("hash-algorithm",),
    ),
    "chunk size": Planted(
        server={"--chunk-size": "512"}, found=("chunk-size",), given=("chunk-size",)
    ),
    "base path": Planted(adapter={"base_path": OWN}, found=("base-path",), given=("base-path",)),
    "another directory behind one path": Planted(
        mount=512, found=("mount-differs",), given=("mount-differs",)
    ),
    "full L2": Planted(mount=3, found=("mount-differs",), given=("store-failed",)),
    # The first one reads encrypted bytes as if they were plain: all hits, and another answer.
    "encrypted by one": Planted(
        adapter={"serde": {"type": "aesgcm", "master_key_path": OWN, "aes_bits": 256}},
        found=("serde",),
        given=("serde",),
    ),
    "another key": Planted(
        adapter={"serde": {"type": "aesgcm", "master_key_path": OWN, "aes_bits": 256}},
        found=("key-differs",),
        given=("key-differs",),
    ),
    "model path": Planted(engine={"--model": OWN}, found=("model-path",), given=("model-path",)),
    "server gone": Planted(
        stopped=True, found=("lmcache-unreachable",), given=("lmcache-unreachable",)
    ),
}
"""For "another key" the first replica encrypts too, with a key of its own."""
