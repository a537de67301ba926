"""Where a model's weights lie in its pod: downloaded to a volume of its own, or mounted.

vLLM is given the model by its Hugging Face id in all cases, and LMCache takes what vLLM was given
for the model's name in its keys and metrics. So mounted weights lie in a folder of that very name,
and vLLM's working directory is the one above: the relative path is the id.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import labels, selector
from kascade.kube._objects import Fields, Metadata
from kascade.kube._volumes import add_static_volume
from kascade.kube.classes import WEIGHTS_STORAGE_CLASS
from kascade.plan import BucketVolumePlan, EnginePlan

DRIVER: Final = "s3.csi.aws.com"

TOKEN_KEY: Final = "token"  # noqa: S105 - the name of a field, not a secret
"""Field of the Secret that holds the Hugging Face token."""

_VOLUME: Final = "weights"
_MOUNT: Final = "/weights"


class BucketWeights(Construct):
    """PersistentVolume and claim of one model's folder in a bucket.

    The credentials are the driver's, which EKS gives it by Pod Identity: nothing here names a role.
    """

    def __init__(self, scope: Construct, construct_id: str, *, bucket: BucketVolumePlan) -> None:
        """Add volume and claim.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            bucket: The folder.
        """
        super().__init__(scope, construct_id)
        written = labels(selector(name="weights", instance=bucket.engine, component="weights"))
        claim = Metadata(name=bucket.name, namespace=bucket.claim_namespace, labels=written)
        name = f"{bucket.claim_namespace}-{bucket.name}"
        add_static_volume(
            self,
            name=name,
            claim=claim,
            access_mode="ReadOnlyMany",
            mount_options=mount_options(bucket),
            csi={
                "driver": DRIVER,
                # Of two volumes with one handle, Kubernetes would mount only the first.
                "volumeHandle": name,
                "readOnly": True,
                "volumeAttributes": volume_attributes(bucket),
            },
        )


def mount_options(bucket: BucketVolumePlan) -> list[str]:
    """Options of Mountpoint."""
    return [
        "read-only",
        # Mountpoint takes a folder only with the slash behind it.
        f"prefix {bucket.prefix}/",
        # It would ask the instance's metadata, which pods cannot reach.
        f"region {bucket.region}",
        # Mountpoint runs as a user of its own, and vLLM as another.
        "allow-other",
    ]


def volume_attributes(bucket: BucketVolumePlan) -> Fields:
    """Attributes for the driver. Without a limit each Mountpoint would size itself by the node."""
    return {
        "bucketName": bucket.bucket,
        "authenticationSource": "driver",
        "mountpointContainerResourcesRequestsCpu": f"{bucket.size.cpu_millicores}m",
        "mountpointContainerResourcesRequestsMemory": f"{bucket.size.memory_mib}Mi",
        "mountpointContainerResourcesLimitsMemory": f"{bucket.size.limit_mib}Mi",
    }


def weights_volume(engine: EnginePlan) -> Fields:
    """Volume of the pod that holds the weights."""
    mounted = engine.mounted_weights
    if mounted is not None:
        claim = {"claimName": mounted.claim, "readOnly": True}
        return {"name": _VOLUME, "persistentVolumeClaim": claim}
    # Not an emptyDir: that shares the disk of images and logs, see decision 0006.
    return {
        "name": _VOLUME,
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": WEIGHTS_STORAGE_CLASS,
                    "resources": {"requests": {"storage": f"{engine.weights_volume_gib}Gi"}},
                }
            }
        },
    }


def weights_mount(engine: EnginePlan) -> Fields:
    """Where vLLM's container has the volume."""
    mounted = engine.mounted_weights
    if mounted is None:
        return {"name": _VOLUME, "mountPath": _MOUNT}
    folder = {} if mounted.folder is None else {"subPath": mounted.folder}
    path = f"{_MOUNT}/{engine.model}"
    return {"name": _VOLUME, "mountPath": path, "readOnly": True, **folder}


def weights_env(engine: EnginePlan) -> dict[str, str]:
    """Environment of vLLM: where downloads go, or that there are none."""
    if engine.mounted_weights is None:
        return {"HF_HOME": _MOUNT}
    # An absent mount is then an error at start, and not the download of some other revision.
    return {"HF_HUB_OFFLINE": "1"}


def token_env(engine: EnginePlan) -> list[Fields]:
    """Hugging Face token, where the model is gated; the Secret is made by hand."""
    secret = engine.huggingface_secret
    if secret is None:
        return []
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": TOKEN_KEY}}}]


def working_directory(engine: EnginePlan) -> Fields:
    """Field of vLLM's container that makes the model's id the path of mounted weights."""
    return {} if engine.mounted_weights is None else {"workingDir": _MOUNT}
