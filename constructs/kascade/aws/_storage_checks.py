"""What HyperPod would reject in the volumes and file systems of a group, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from aws_cdk import aws_kms as kms

from kascade.aws._given import TEXT, Kind, is_token, optional, repeated, sift_fields
from kascade.aws._names import FILE_SYSTEM, MOUNT_NAME, MOUNT_PATH
from kascade.aws.instance_group import FsxLustre, FsxOpenZfs, InstanceGroup
from kascade.catalog.hyperpod import MAX_STORAGE, MAX_VOLUME_GIB

_VOLUME: Final = "/opt/sagemaker"
_ARN_REGION: Final = 3
_FIELDS: Final[Mapping[type, Mapping[str, Kind]]] = {
    FsxLustre: {"dns_name": TEXT, "mount_name": TEXT, "mount_path": optional(TEXT)},
    FsxOpenZfs: {"dns_name": TEXT, "mount_path": optional(TEXT)},
}
_ANY: Final = {"dns_name": "fs-00000000.example", "mount_name": "fsx"}


def storage_mistakes(group: InstanceGroup, region: str) -> Iterator[str]:
    """Find them.

    Args:
        group: With fields of the right kind.
        region: Of the stack; may be a token.
    """
    if group.volume_gib is not None and not 1 <= group.volume_gib <= MAX_VOLUME_GIB:
        yield f"volume_gib is {group.volume_gib}; HyperPod takes 1 to {MAX_VOLUME_GIB}"
    if group.volume_gib is None and group.volume_key is not None:
        yield "volume_key is given, but no volume; give volume_gib, or leave the key out"
    yield from _of_key("volume_key", group.volume_key, region)
    yield from _of_key("root_volume_key", group.root_volume_key, region)
    count = (group.volume_gib is not None) + (group.root_volume_key is not None)
    count += len(group.file_systems)
    if count > MAX_STORAGE:
        yield f"{count} volumes and file systems; HyperPod takes {MAX_STORAGE} in all"
    yield from _of_file_systems(group)


def _of_key(what: str, key: kms.IKey | None, region: str) -> Iterator[str]:
    if key is None:
        return
    if hasattr(key, "alias_name"):
        yield (
            f"{what} is an alias, and rights are given on a key alone; give the key that it stands "
            "for, such as kms.Key.from_key_arn(...)"
        )
        return
    theirs = key.key_arn.split(":")[_ARN_REGION:][:1]
    if theirs and not is_token(key.key_arn) and not is_token(region) and theirs != [region]:
        yield (
            f"{what} is of {theirs[0]}, and the stack in {region}; give a key of the same region"
        )


def _of_file_systems(group: InstanceGroup) -> Iterator[str]:
    mounted, paths = [], []
    for place, given in enumerate(group.file_systems):
        where = f"file_systems[{place}]"
        system, texts = sift_fields(given, _FIELDS[type(given)], _ANY, f"{where}.")
        yield from texts
        name = system.mount_name if isinstance(system, FsxLustre) else None
        path = system.mount_path
        if not is_token(system.dns_name) and not FILE_SYSTEM.fullmatch(system.dns_name):
            yield (
                f"{where}.dns_name is {system.dns_name!r}; FSx writes them like "
                "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
            )
        if name is not None and not is_token(name) and not MOUNT_NAME.fullmatch(name):
            yield f"{where}.mount_name is {name!r}; FSx writes 1 to 8 letters, digits, dashes or _"
        if path is not None and not is_token(path) and not MOUNT_PATH.fullmatch(path):
            yield f"{where}.mount_path is {path!r}; give an absolute path such as /fsx"
        if path == _VOLUME and group.volume_gib is not None:
            yield f"{where}.mount_path is {_VOLUME}, where HyperPod mounts the second volume"
        if not texts:
            mounted.append((system.dns_name, name))
            kind = type(system).__name__
            paths.append(f"HyperPod's own path for {kind}" if path is None else path)
    for dns_name, name in repeated(mounted):
        yield f"file_systems has {name or ''}@{dns_name} twice; mount each once".replace(" @", " ")
    for path in repeated(paths):
        yield f"file_systems mounts two at {path}; give each a mount_path of its own"
