"""A volume that is made for one claim, and the claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from constructs import Construct

from kascade.kube._objects import Fields, Metadata, add_object

_CAPACITY: Final = "1Ti"
"""Drivers of static volumes enforce none, but the API wants one, equal in volume and claim."""


def add_static_volume(  # noqa: PLR0913 - keyword-only but for one
    scope: Construct,
    *,
    name: str,
    claim: Metadata,
    access_mode: str,
    csi: Fields,
    mount_options: Sequence[str] = (),
) -> None:
    """Add a PersistentVolume and the one claim that it is for.

    Args:
        scope: Parent construct.
        name: Of the volume, unique in the cluster.
        claim: Of the claim; its labels are the volume's, too.
        access_mode: Of both.
        csi: The volume's source.
        mount_options: For the driver.
    """
    add_object(
        scope,
        api_version="v1",
        kind="PersistentVolume",
        meta=Metadata(name=name, labels=claim.labels),
        body={
            "spec": {
                "capacity": {"storage": _CAPACITY},
                "accessModes": [access_mode],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "volumeMode": "Filesystem",
                **({"mountOptions": list(mount_options)} if mount_options else {}),
                # Bound to this claim and to no other.
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim.namespace,
                    "name": claim.name,
                },
                "csi": csi,
            }
        },
    )
    add_object(
        scope,
        api_version="v1",
        kind="PersistentVolumeClaim",
        meta=claim,
        body={
            "spec": {
                "accessModes": [access_mode],
                # Empty, or the cluster's default class would provision another volume.
                "storageClassName": "",
                "volumeName": name,
                "resources": {"requests": {"storage": _CAPACITY}},
            }
        },
    )
