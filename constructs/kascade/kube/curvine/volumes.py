"""A static volume: one directory of the pool, claimed by one engine."""

from __future__ import annotations

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Fields, Metadata, expect
from kascade.kube._volumes import add_static_volume
from kascade.kube.curvine.csi import DRIVER
from kascade.kube.curvine.names import CurvineNames
from kascade.plan import CurvinePlan, CurvineVolumePlan


class CurvineVolume(Construct):
    """PersistentVolume and claim of one engine, or of other pods that share files.

    All volumes have the same mount attributes, so one FUSE process per node serves them all.
    Kubernetes changes no attribute of a volume that exists, so the plan puts a hash of them into
    the volume's name. Claim and volume belong to their engine's chart: on deletion the claim waits
    for the engine's pods, and only then may the CSI driver go, which must unmount for them.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        curvine: CurvinePlan,
        volume: CurvineVolumePlan,
    ) -> None:
        """Add volume and claim.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            curvine: The pool.
            volume: The volume.

        Raises:
            KascadeError: A plan is not the one that the argument takes.
        """
        super().__init__(scope, construct_id)
        expect(curvine=(curvine, CurvinePlan), volume=(volume, CurvineVolumePlan))
        written = labels(CurvineNames(curvine).selector("volume"))
        name = f"{curvine.cluster_id}-{volume.name}"
        claim = Metadata(name=volume.name, namespace=volume.claim_namespace, labels=written)
        # No capacity is enforced; what an engine may write is bounded by its LMCache server.
        add_static_volume(
            self,
            name=name,
            claim=claim,
            access_mode="ReadWriteMany",
            csi={
                "driver": DRIVER,
                # A handle of the form a@b@c is taken for one the driver made itself,
                # and its mount is then torn down at zero references.
                "volumeHandle": name,
                "volumeAttributes": mount_attributes(curvine, volume),
            },
        )


def mount_attributes(curvine: CurvinePlan, volume: CurvineVolumePlan) -> Fields:
    """Attributes of a volume: three for the driver, the rest become flags of ``curvine-fuse``.

    FUSE reads the configuration baked into the CSI image and none of ours, so whatever shall differ
    from it stands here. An unknown key is an unknown flag, and the mount fails.
    """
    timeout = f"{curvine.client_timeout_ms}"
    return {
        "master-addrs": CurvineNames(curvine).master_addresses,
        "curvine-path": volume.curvine_path,
        "fs-path": "/",
        "web-port": f"{curvine.fuse_web_port}",
        "client.block-size": f"{curvine.block_size_mib}MB",
        # Age since the last write; reading does not renew it. "free" would only drop copies of
        # what also lies in S3.
        "client.ttl-ms": f"{curvine.ttl_hours}h",
        "client.ttl-action": "delete",
        # FUSE does not see the workers' directories, and a writer would not fall back to TCP.
        "client.short-circuit": "false",
        "client.audit-logging-enabled": "false",
        # Upstream waits up to two minutes for a lost master or worker, with a system call hanging
        # meanwhile. LMCache has no deadline of its own: an error is a miss, a hang is a hang.
        "client.conn-timeout-ms": timeout,
        "client.conn-retry-max-duration-ms": timeout,
        "client.rpc-timeout-ms": timeout,
        "client.rpc-retry-max-duration-ms": timeout,
        "client.data-timeout-ms": timeout,
        # A file that another node just published must be seen at once, so absence is not cached;
        # a second of stale attributes does no harm, since files never change once published.
        "entry-timeout-ms": "1000",
        "attr-timeout-ms": "1000",
        "negative-timeout-ms": "0",
    }
