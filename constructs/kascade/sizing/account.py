"""What a plan asks of the account it is deployed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from kascade.catalog.quotas import SYSTEM_VCPUS
from kascade.plan import AddonPlan, ServingPlan

_GRAFANA, _GRAFANA_PAGE = "grafana", "grafana-workspace"
_ROLLING: Final = 1
"""Nodes that a managed node group adds while it replaces others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNeed:
    """Instances of one group.

    Attributes:
        types: Any of them will do, the preferred first.
        spot: Whether they are spare capacity, which has quotas of its own.
        at_most: Whether Karpenter makes them one by one, up to ``count``.
    """

    group: str
    types: tuple[str, ...]
    count: int
    spot: bool
    at_most: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Whether the quotas give one group its instances.

    Attributes:
        given: How many of them the quotas allow, after the groups before it took theirs.
        short: The types whose quota is used up before the group is full, preferred first.
    """

    need: InstanceNeed
    given: int
    short: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Instances that no quota allows."""
        return self.need.count - self.given


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountNeeds:
    """Numbers to hold against quotas.

    Attributes:
        instances: By group, without those of a training plan, which reserved them.
        reserved: Instances by the ARN of their training plan.
        in_cluster: Instances of all groups.
        volume_gib: The largest volume of an instance.
        system_vcpus: Of the system nodes at the start.
        most_system_vcpus: Of as many as the group may grow to, and one that rolls.
        nat_gateways: By zone.
        services: Interface endpoints by the service's short name.
    """

    instances: tuple[InstanceNeed, ...]
    reserved: Mapping[str, int]
    in_cluster: int
    spot: int
    volume_gib: int
    system_vcpus: int
    most_system_vcpus: int
    vpcs: int
    nat_gateways: Mapping[str, int]
    services: tuple[str, ...]

    @property
    def elastic_ips(self) -> int:
        """One for each NAT gateway."""
        return sum(self.nat_gateways.values())


def account_needs(plan: ServingPlan) -> AccountNeeds:
    """Count what a plan asks of its account."""
    groups = plan.cluster.groups if plan.cluster.makes_hyperpod else ()
    karpenter = plan.cluster.autoscaling is not None
    bought = [group for group in groups if group.capacity != "training_plan"]
    reserved: dict[str, int] = {}
    for group in groups:
        if group.training_plan_arn is not None:
            before = reserved.get(group.training_plan_arn, 0)
            reserved[group.training_plan_arn] = before + group.count
    system = plan.cluster.system_group
    vcpus = SYSTEM_VCPUS[system.instance_type]
    network = plan.network
    return AccountNeeds(
        instances=tuple(
            InstanceNeed(
                group=group.name,
                types=group.instance_types,
                count=group.count,
                spot=group.capacity == "spot",
                at_most=karpenter,
            )
            for group in bought
        ),
        reserved=reserved,
        in_cluster=sum(group.count for group in groups),
        spot=sum(group.count for group in groups if group.capacity == "spot"),
        volume_gib=max((group.volume_gib for group in groups), default=0),
        system_vcpus=vcpus * system.count,
        most_system_vcpus=vcpus * (max(system.count, system.max_count) + _ROLLING),
        vpcs=0 if network.existing else 1,
        nat_gateways=(
            {} if network.existing else dict.fromkeys(network.zones[: network.nat_gateways], 1)
        ),
        services=_services(plan),
    )


def _services(plan: ServingPlan) -> tuple[str, ...]:
    """Endpoints of the network, and those that Grafana's stack always makes."""
    services = plan.network.interface_endpoints
    if plan.observability is None:
        return services
    api = plan.network.nat_gateways == 0 and _GRAFANA not in services
    return (*services, *((_GRAFANA,) if api else ()), _GRAFANA_PAGE)


def fill(needs: tuple[InstanceNeed, ...], free: Mapping[str, int]) -> tuple[Filling, ...]:
    """Give each group its instances from what the quotas leave free.

    Args:
        needs: Groups that draw on the same quotas.
        free: Instances by type that the quotas still allow; a type that is missing has no bound
            that is known.

    >>> one = InstanceNeed(group="a", types=("x",), count=2, spot=False, at_most=False)
    >>> any_of = InstanceNeed(group="b", types=("x", "y"), count=2, spot=False, at_most=False)
    >>> [(f.need.group, f.given, f.short) for f in fill((any_of, one), {"x": 3, "y": 0})]
    [('a', 2, ()), ('b', 1, ('x', 'y'))]
    """
    left = dict(free)
    filled = []
    # Who takes one type only has no choice, so he is first.
    for need in sorted(needs, key=lambda need: len(need.types)):
        given, short = 0, []
        for kind in need.types:
            wanted = need.count - given
            if not wanted:
                break
            taken = wanted if kind not in left else min(wanted, max(left[kind], 0))
            if kind in left:
                left[kind] -= taken
            given += taken
            if taken < wanted:
                short.append(kind)
        filled.append(Filling(need=need, given=given, short=tuple(short)))
    return tuple(filled)


def all_addons(plan: ServingPlan) -> tuple[AddonPlan, ...]:
    """Every EKS add-on that is made."""
    features = plan.cluster.features
    if features is None:
        return plan.cluster.addons
    inner = (
        features.inference.addon if features.inference else None,
        features.task_governance,
        features.training_operator,
        features.observability.addon if features.observability else None,
    )
    return (*plan.cluster.addons, *features.dependencies, *(one for one in inner if one))


def images_of(plan: ServingPlan) -> tuple[str, ...]:
    """Every image that a node will pull, sorted, each once."""
    platform = plan.platform
    unused = set()
    if not platform.agents:
        unused |= {platform.health_agent_image, platform.device_plugin_image}
    if not platform.agents or not platform.efa_instance_types:
        unused.add(platform.efa_plugin_image)
    return tuple(sorted(set(_images(plan)) - unused))


def _images(value: object) -> list[str]:
    found: list[str] = []
    if isinstance(value, tuple):
        for item in value:
            found += _images(item)
    elif is_dataclass(value):
        for field in fields(value):
            inner = getattr(value, field.name)
            if isinstance(inner, str) and field.name.endswith("image"):
                found += [inner] if inner else []
            else:
                found += _images(inner)
    return found
