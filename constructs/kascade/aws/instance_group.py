"""An instance group of a HyperPod cluster: which instances, how bought, what they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, cast

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms


@dataclass(frozen=True, slots=True)
class Instances:
    """Which instance types a group may consist of; made by :meth:`of` or :meth:`any_of`.

    Attributes:
        types: The types, the preferred first.
        is_choice: Whether HyperPod chooses among them.
    """

    types: tuple[str, ...]
    is_choice: bool

    @classmethod
    def of(cls, instance_type: str) -> Self:
        """One type, such as ``ml.g6e.4xlarge``."""
        return cls((instance_type,), is_choice=False)

    @classmethod
    def any_of(cls, instance_types: Sequence[str]) -> Self:
        """Whichever of up to 20 types HyperPod can get; the order is the preference."""
        if isinstance(instance_types, list):
            instance_types = tuple(instance_types)
        # Anything else stays what it is, for the group's checks: a string falls into letters here.
        return cls(cast("tuple[str, ...]", instance_types), is_choice=True)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How instances are bought: :meth:`on_demand`, :meth:`spot` or :meth:`training_plan`.

    Attributes:
        kind: Which of the three.
        plan_arn: The training plan, where it is one.
    """

    kind: Literal["on_demand", "spot", "training_plan"]
    plan_arn: str | None = None

    @classmethod
    def on_demand(cls) -> Self:
        """At the on-demand price, HyperPod's default."""
        return cls("on_demand")

    @classmethod
    def spot(cls) -> Self:
        """Spare capacity, which goes with two minutes' notice."""
        return cls("spot")

    @classmethod
    def training_plan(cls, arn: str) -> Self:
        """What a SageMaker training plan reserved."""
        return cls("training_plan", arn)


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes that an update takes at once; made by :meth:`nodes` or :meth:`percentage`."""

    kind: Literal["INSTANCE_COUNT", "CAPACITY_PERCENTAGE"]
    value: int

    @classmethod
    def nodes(cls, count: int) -> Self:
        """A number of nodes."""
        return cls("INSTANCE_COUNT", count)

    @classmethod
    def percentage(cls, share: int) -> Self:
        """A share of the group, in percent."""
        return cls("CAPACITY_PERCENTAGE", share)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareUpdates:
    """Scheduled updates of the nodes' system software, some nodes at a time.

    Attributes:
        schedule: Such as ``cron(0 3 ? * SUN *)``, in UTC.
        batch: Nodes that are away at once.
        wait: Pause between two batches, at most an hour.
        rollback_alarms: Any of them, going off, rolls the update back.
    """

    schedule: str
    batch: Batch = field(default_factory=lambda: Batch.nodes(1))
    wait: cdk.Duration = field(default_factory=lambda: cdk.Duration.seconds(0))
    rollback_alarms: Sequence[cloudwatch.IAlarm] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint on a group's nodes."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class FsxLustre:
    """An FSx for Lustre file system that HyperPod mounts on each node."""

    dns_name: str
    mount_name: str
    mount_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FsxOpenZfs:
    """An FSx for OpenZFS file system that HyperPod mounts on each node."""

    dns_name: str
    mount_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    """An instance group of a HyperPod cluster.

    HyperPod never moves a group's nodes to other subnets or keys: to change ``vpc_subnets``,
    ``volume_key`` or ``root_volume_key``, make a second group and empty the first.

    Attributes:
        instances: Which types.
        count: How many instances.
        min_count: Instances without which HyperPod gives the group up after three hours. It
            counts until the group is first in service.
        capacity: How they are bought.
        labels: Node labels.
        taints: Node taints.
        deep_health_checks: ``InstanceStress`` and ``InstanceConnectivity``, before a node joins.
        volume_gib: Second encrypted EBS volume, mounted at ``/opt/sagemaker``, or None for none.
        volume_key: Key of that volume instead of AWS's.
        root_volume_key: Key of the root volume instead of AWS's. Its size has no setting.
        file_systems: Mounted by HyperPod itself.
        threads_per_core: 1 switches the second thread off. Always stated, since an update that
            leaves it out resets it.
        vpc_subnets: Where its nodes live instead of the cluster's subnets, such as one zone.
        security_groups: Of its nodes instead of the cluster's; only together with ``vpc_subnets``.
        network_interface: ``efa``, or ``efa-only`` without IP traffic; for types that have EFA.
        software_updates: When the system software is renewed.
    """

    instances: Instances
    count: int
    min_count: int | None = None
    capacity: Capacity = field(default_factory=Capacity.on_demand)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    deep_health_checks: Sequence[str] = ()
    volume_gib: int | None = 200
    volume_key: kms.IKey | None = None
    root_volume_key: kms.IKey | None = None
    file_systems: Sequence[FsxLustre | FsxOpenZfs] = ()
    threads_per_core: Literal[1, 2] = 2
    vpc_subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup] = ()
    network_interface: Literal["efa", "efa-only"] | None = None
    software_updates: SoftwareUpdates | None = None

    @property
    def keys(self) -> tuple[kms.IKey, ...]:
        """Keys that its nodes' volumes are encrypted with."""
        return tuple(key for key in (self.volume_key, self.root_volume_key) if key is not None)
