"""An instance group of a HyperPod cluster: which instances, how bought, what they carry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from kascade.catalog.instances import INSTANCES

MAX_SECURITY_GROUPS: Final = 5
MAX_SUBNETS: Final = 16
_MAX_TYPES: Final = 20
_MAX_COUNT: Final = 6758
_MAX_STORAGE: Final = 4
_MAX_ALARMS: Final = 10
_MAX_WAIT_SECONDS: Final = 3600
_MAX_VOLUME_GIB: Final = 16384
"""Limits of AWS::SageMaker::Cluster in CloudFormation's registry."""

NAME: Final = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")
_TYPE: Final = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9]+")
_ACCELERATED: Final = re.compile(r"ml\.(g[0-9]|gr[0-9]|p[0-9]|trn)")
_CRON: Final = re.compile(r"cron\(\S+( \S+){5}\)")
_CHECKS: Final = ("InstanceStress", "InstanceConnectivity")


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
        return cls(tuple(instance_types), is_choice=True)


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


def mistakes(name: str, group: InstanceGroup) -> Iterator[str]:
    """Say everything that HyperPod would refuse in a group, a sentence each."""
    if not NAME.fullmatch(name):
        yield (
            f"{name!r} cannot name an instance group; use 1 to 63 letters, digits and inner hyphens"
        )
    yield from _of_instances(group.instances)
    yield from _of_counts(group)
    yield from _of_nodes(group)
    yield from _of_storage(group)
    if group.software_updates is not None:
        yield from _of_updates(group.software_updates)


def _of_instances(instances: Instances) -> Iterator[str]:
    count = len(instances.types)
    if not 1 <= count <= _MAX_TYPES:
        yield f"any_of got {count} types; HyperPod takes 1 to {_MAX_TYPES}"
    for name in dict.fromkeys(instances.types):
        if instances.types.count(name) > 1:
            yield f"any_of names {name} twice; the order is a preference, so name each type once"
        if not _TYPE.fullmatch(name):
            yield f"{name!r} is no HyperPod type; they are written like ml.g6e.4xlarge"


def _of_counts(group: InstanceGroup) -> Iterator[str]:
    if not 0 <= group.count <= _MAX_COUNT:
        yield f"count is {group.count}; HyperPod takes 0 to {_MAX_COUNT}"
    if group.min_count is not None and not 0 <= group.min_count <= group.count:
        yield (
            f"min_count is {group.min_count}, which is not between 0 and the {group.count} "
            "instances of the group; lower it or raise count"
        )


def _of_nodes(group: InstanceGroup) -> Iterator[str]:
    types = group.instances.types
    if group.threads_per_core not in {1, 2}:
        yield f"threads_per_core is {group.threads_per_core}; allowed: 1 or 2"
    without = [name for name in types if name in INSTANCES and not INSTANCES[name].efa_interfaces]
    if group.network_interface in {"efa", "efa-only"} and without:
        yield (
            f"network_interface is {group.network_interface}, but {', '.join(without)} has no "
            "Elastic Fabric Adapter; leave it out, or choose sizes that have one"
        )
    if group.network_interface not in {None, "efa", "efa-only"}:
        yield f"network_interface is {group.network_interface!r}; allowed: 'efa' or 'efa-only'"
    unknown = [check for check in group.deep_health_checks if check not in _CHECKS]
    if unknown:
        yield f"deep health check {', '.join(unknown)}; allowed: {' and '.join(_CHECKS)}"
    plain = [name for name in types if not _ACCELERATED.match(name)]
    if group.deep_health_checks and plain:
        yield (
            f"deep health checks test GPUs, and {', '.join(plain)} has none; leave the checks out"
        )
    if group.deep_health_checks and group.taints:
        yield (
            "deep health checks run as pods that tolerate no taint of yours, so the nodes would "
            "never pass them; leave out taints or deep_health_checks"
        )
    if group.security_groups and group.vpc_subnets is None:
        yield "security_groups need vpc_subnets beside them, since HyperPod takes both or neither"
    if len(group.security_groups) > MAX_SECURITY_GROUPS:
        yield (
            f"{len(group.security_groups)} security groups; HyperPod takes {MAX_SECURITY_GROUPS}"
        )


def _of_storage(group: InstanceGroup) -> Iterator[str]:
    if group.volume_gib is not None and not 1 <= group.volume_gib <= _MAX_VOLUME_GIB:
        yield f"volume_gib is {group.volume_gib}; HyperPod takes 1 to {_MAX_VOLUME_GIB}"
    if group.volume_gib is None and group.volume_key is not None:
        yield "volume_key is given, but no volume; give volume_gib, or leave the key out"
    count = (group.volume_gib is not None) + (group.root_volume_key is not None)
    count += len(group.file_systems)
    if count > _MAX_STORAGE:
        yield f"{count} volumes and file systems; HyperPod takes {_MAX_STORAGE} in all"


def _of_updates(updates: SoftwareUpdates) -> Iterator[str]:
    batch = updates.batch
    if not _CRON.fullmatch(updates.schedule):
        yield f"{updates.schedule!r} is no schedule such as cron(0 3 ? * SUN *)"
    if batch.kind == "CAPACITY_PERCENTAGE" and not 1 <= batch.value <= 100:  # noqa: PLR2004
        yield f"a batch of {batch.value} percent; allowed: 1 to 100"
    if batch.kind == "INSTANCE_COUNT" and batch.value < 1:
        yield f"a batch of {batch.value} nodes; it must be 1 at least"
    if updates.wait.to_seconds() > _MAX_WAIT_SECONDS:
        yield f"a wait of {updates.wait.to_seconds():g} seconds; allowed: {_MAX_WAIT_SECONDS}"
    if len(updates.rollback_alarms) > _MAX_ALARMS:
        yield f"{len(updates.rollback_alarms)} rollback alarms; HyperPod takes {_MAX_ALARMS}"
