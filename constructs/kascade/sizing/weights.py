"""Where an engine's weights come from, and how long they take to load."""

from __future__ import annotations

import hashlib
from typing import Final

from kascade.plan import (
    BucketVolumePlan,
    ContainerSize,
    MountedWeights,
)
from kascade.sizing import host
from kascade.sizing.inputs import EngineInput
from kascade.units import MIB

LOAD_BASE_SECONDS: Final = 600

DOWNLOAD_BYTES_PER_SECOND: Final = 100 * MIB
"""Slowest download of weights that the startup probe waits for; an assumption."""

WEIGHTS_SPARE: Final = 1.25


def load_seconds(given: EngineInput) -> int:
    """How long a start may take to load the weights."""
    return LOAD_BASE_SECONDS + int(checkpoint_bytes(given) // DOWNLOAD_BYTES_PER_SECOND)


def warn_of_loose_weights(given: EngineInput) -> None:
    """Warn where nothing says which weights a replica loads."""
    model = given.model
    if model.weights.kind == "hub" and given.revision is None:
        given.warn(
            "revision",
            f"no commit is known for {model.model}: replicas that start at different times may "
            "load different weights and then share cached blocks. Name the commit in `revision`",
        )
    if model.weights.kind == "claim" and model.weights.path is None:
        given.warn(
            "weights",
            f"nothing says which weights lie at the root of claim {model.weights.name!r}: were "
            "they exchanged, replicas would share blocks of the old ones. Put them into a folder "
            "named after their revision and give it in weights.path",
        )


def mounted_weights(given: EngineInput) -> MountedWeights | None:
    """Where the weights are mounted from, or None where each pod downloads them."""
    weights = given.model.weights
    if weights.kind == "hub":
        return None
    if weights.kind == "claim":
        return MountedWeights(claim=weights.name, folder=weights.path, bucket=None)
    region = given.config.region
    size = ContainerSize(
        cpu_millicores=host.MOUNTPOINT_CPU_MILLICORES, memory_mib=host.MOUNTPOINT_MIB
    )
    fixed = f"{weights.bucket} {weights.prefix} {region} {size.cpu_millicores} {size.memory_mib}"
    bucket = BucketVolumePlan(
        name=f"weights-{given.model.name}-{short_hash(fixed)}",
        claim_namespace=given.config.name,
        engine=given.model.name,
        bucket=weights.bucket,
        prefix=weights.prefix,
        region=region,
        size=size,
    )
    return MountedWeights(claim=bucket.name, folder=None, bucket=bucket)


def weights_identity(given: EngineInput) -> str:
    """Which weights of the model they are, as far as the configuration says.

    A commit where they are downloaded; else the place they lie in, which may hold any characters.
    """
    weights = given.model.weights
    if weights.kind == "hub":
        return (given.revision or "main")[:7]
    place = (
        (weights.bucket, weights.prefix)
        if weights.kind == "s3"
        else (weights.name, weights.path or "")
    )
    return f"{weights.kind}.{short_hash('/'.join(place))}"


def short_hash(text: str) -> str:
    """Name a text in six hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def checkpoint_bytes(given: EngineInput) -> float:
    """Size of the weights as they are stored."""
    return given.facts.parameters * given.facts.weight_bytes_per_parameter
