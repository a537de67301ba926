"""What LMCache writes to L2: one object for each chunk and GPU, and how large a whole one is."""

from __future__ import annotations

from typing import Final

from kascade.units import MIB

FRAME_BYTES: Final = 29
"""What aesgcm adds to an object: a byte of version, a nonce of 12 and a tag of 16 (LMCache 0.5.6,
``lmcache/v1/distributed/serde/aesgcm.py``)."""

BUFFER_BYTES: Final = MIB
"""What a Curvine client keeps until the file is closed. An object that fits in it fails nowhere but
there, where LMCache does not look: on a full pool 160 of 160 stores of 800,000 bytes and 16 of 16
of 1,048,576 left empty files and were called good, while objects of 1.1 MB were rejected (measured
on Curvine 0.4.1)."""


def object_bytes(kv_per_gpu: int, *, chunk_size: int, encrypted: bool) -> int:
    """Return the size of a whole object.

    Args:
        kv_per_gpu: KV cache of one token on one GPU.
        chunk_size: Tokens of a chunk.
        encrypted: Whether blocks are encrypted.

    >>> object_bytes(57_344, chunk_size=256, encrypted=True)
    14680093
    """
    return kv_per_gpu * chunk_size + (FRAME_BYTES if encrypted else 0)


def least_chunk(kv_per_gpu: int, *, block_size: int) -> int:
    """Return the smallest chunk whose object is larger than what a Curvine client keeps.

    Args:
        kv_per_gpu: KV cache of one token on one GPU.
        block_size: vLLM's block, of which a chunk is a multiple.

    >>> least_chunk(8192, block_size=16), least_chunk(8192, block_size=128)
    (144, 256)
    """
    return (BUFFER_BYTES // (kv_per_gpu * block_size) + 1) * block_size


def largest_chunk(kv_per_gpu: int, *, block_size: int, most_bytes: int) -> int:
    """Return the largest chunk whose object, encrypted, is no larger than so many bytes, or 0.

    Args:
        kv_per_gpu: KV cache of one token on one GPU.
        block_size: vLLM's block, of which a chunk is a multiple.
        most_bytes: Size of the largest object.

    >>> largest_chunk(57_344, block_size=16, most_bytes=128 * MIB)
    2336
    """
    return (most_bytes - FRAME_BYTES) // (kv_per_gpu * block_size) * block_size
