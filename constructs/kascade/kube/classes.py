"""Cluster-wide classes: who may evict whom, and what a volume is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Metadata, add_object
from kascade.kube._pods import CACHE_PRIORITY, ENGINE_PRIORITY

STORAGE_CLASS: Final = "kascade-gp3"
WEIGHTS_STORAGE_CLASS: Final = "kascade-weights"

_PRIORITIES: Final = (
    # Above every default pod (0), far below the system classes (2,000,000,000).
    (ENGINE_PRIORITY, 100_000, "Inference engines and routers."),
    # A Curvine worker holds blocks of every replica, so an engine must never push it from a node.
    (CACHE_PRIORITY, 200_000, "The shared cache; engines cannot evict it."),
)


class Classes(Construct):
    """Two priority classes, and the storage classes of what lies on EBS: once in a cluster.

    ``kascade-engine`` and ``kascade-cache`` stand above every default pod; ``kascade-gp3`` and
    ``kascade-weights`` are encrypted gp3 volumes that go with their claims.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Add the objects.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
        """
        super().__init__(scope, construct_id)
        for name, value, description in _PRIORITIES:
            add_object(
                self,
                api_version="scheduling.k8s.io/v1",
                kind="PriorityClass",
                meta=Metadata(name=name, labels=labels({})),
                body={"value": value, "globalDefault": False, "description": description},
            )
        # For the cache's masters. What they write is the index of a cache: without the cache it
        # is worth nothing, and a volume that stays is paid for until somebody finds it.
        self._add_storage_class(STORAGE_CLASS, reclaim_policy="Delete")
        # Weights are downloaded again. 500 MiB/s loads 15 GB in half a minute; gp3 takes a quarter
        # of a MiB/s for each of its 3,000 IOPS, so 750 at most without buying more.
        self._add_storage_class(
            WEIGHTS_STORAGE_CLASS, reclaim_policy="Delete", more={"throughput": "500"}
        )

    def _add_storage_class(
        self, name: str, *, reclaim_policy: str, more: Mapping[str, str] | None = None
    ) -> None:
        add_object(
            self,
            api_version="storage.k8s.io/v1",
            kind="StorageClass",
            meta=Metadata(name=name, labels=labels({})),
            body={
                "provisioner": "ebs.csi.aws.com",
                "parameters": {"type": "gp3", "encrypted": "true", **(more or {})},
                "reclaimPolicy": reclaim_policy,
                # An EBS volume stays in its zone, so the pod's node must be known first.
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowVolumeExpansion": True,
            },
        )
