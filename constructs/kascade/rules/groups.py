"""Instance groups: their types, counts, labels, and what Karpenter takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kascade.catalog.hyperpod import not_reservable, without_adapter
from kascade.catalog.instances import INSTANCES, InstanceType
from kascade.catalog.karpenter import MIN_HEALTH_AGENT, OWN_LABELS, agent_number
from kascade.catalog.kubernetes import owner_of
from kascade.catalog.training_plans import RESERVABLE_TYPES
from kascade.config.blocks import (
    InstanceGroupConfig,
    ServingConfig,
    name_error,
)
from kascade.errors import ConfigPath, Problem, format_path
from kascade.rules._words import duplicates, near
from kascade.rules.context import Context
from kascade.units import counted

_MODE: ConfigPath = ("hyperpod", "autoscaling")


def keys(context: Context) -> Iterator[Problem]:
    """Labels, taints and checks of groups."""
    config = context.config
    for index, group in enumerate(config.instance_groups):
        place: ConfigPath = ("instance_groups", index)
        taints = [f"{taint.key}:{taint.effect}" for taint in group.taints]
        yield from duplicates(taints, (*place, "taints"), "", "taint")
        yield from duplicates(group.deep_health_checks, (*place, "deep_health_checks"), "", "check")
        keys: list[tuple[str, ConfigPath]] = [(key, ("labels", key)) for key in group.labels]
        keys += [(taint.key, ("taints", n, "key")) for n, taint in enumerate(group.taints)]
        for key, inside in keys:
            owner = owner_of(key)
            if owner is not None:
                yield Problem(
                    path=(*place, *inside),
                    code="reserved-key",
                    message=f"{inside[0]} of {owner} are set by Kubernetes or HyperPod, and "
                    "placement relies on them; use a prefix of your own",
                )


def zones_of_groups(context: Context) -> Iterator[Problem]:
    """Say which group stands in a zone that the deployment lacks."""
    config = context.config
    for index, group in enumerate(config.instance_groups):
        if group.zone is not None and group.zone not in config.zones:
            yield Problem(
                path=("instance_groups", index, "zone"),
                code="zone-of-a-group",
                message=f"{group.zone!r} is not among this deployment's zones "
                f"({', '.join(config.zones)}); add it to `zones` or choose one of them",
                also_reads=(("zones",),),
            )


def instance_types(context: Context) -> Iterator[Problem]:
    """Say which type is not in the catalog."""
    config = context.config
    for index, group in enumerate(config.instance_groups):
        path: ConfigPath = ("instance_groups", index, group.types_field)
        for place, given in enumerate(group.types):
            if given in INSTANCES:
                continue
            hint = near(given if given.startswith("ml.") else f"ml.{given}", INSTANCES)
            yield Problem(
                path=(*path, place) if group.instance_types else path,
                code="unknown-instance-type",
                message=f"{given!r} is not in the catalog of HyperPod GPU types, which are "
                f"written with the prefix ml., such as ml.g6e.4xlarge.{hint}",
            )


def groups(context: Context) -> Iterator[Problem]:
    """Find errors of instance groups and of what all groups share."""
    config = context.config
    for index, group in enumerate(config.instance_groups):
        path: ConfigPath = ("instance_groups", index)
        yield from _types(group, path)
        yield from _several_types(group, path)
        yield from _counts(group, path)
        yield from _adapters(group, path)
        yield from _checked_nodes(group, path)
        yield from _reserved(group, path)
        yield from _regions_of(config, group, path)
        yield from _read_by_the_operator(config, index, path)
    yield from _names(config)
    yield from _shared(config)


def _names(config: ServingConfig) -> Iterator[Problem]:
    there = config.hyperpod.existing is not None
    first: dict[str, str] = {}
    for index, group in enumerate(config.instance_groups):
        path: ConfigPath = ("instance_groups", index, "name")
        message = name_error(group.name)
        if message is not None and not there:
            yield Problem(
                path=path,
                code="not-a-short-name",
                message=message,
                also_reads=(("hyperpod", "existing"),),
            )
        # Objects of Kubernetes are named after it, in lower case.
        other = first.setdefault(group.name.lower(), group.name)
        if other != group.name:
            yield Problem(
                path=path,
                code="group-name-case",
                message=f"{group.name!r} and {other!r} differ in case alone, and objects of "
                "Kubernetes are named after them in lower case; serve on one of the two",
            )


def _types(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    if group.instance_type is None and not group.instance_types:
        yield Problem(
            path=(*path, "instance_type"),
            code="missing-field",
            message="this field is required: HyperPod instance type, such as ml.g6e.4xlarge. For "
            "a choice of several give instance_types instead",
            also_reads=((*path, "instance_types"),),
        )
    elif group.instance_type is not None and group.instance_types:
        yield Problem(
            path=(*path, "instance_types"),
            code="type-and-types",
            message="instance_type is given, too, and HyperPod takes one of the two; put that type "
            "at the head of the list, or leave the list out",
            also_reads=((*path, "instance_type"),),
        )
    seen: set[str] = set()
    for place, name in enumerate(group.instance_types):
        if name in seen:
            yield Problem(
                path=(*path, "instance_types", place),
                code="duplicate",
                message=f"{name} is duplicated; the order is a preference, so name each type once",
            )
        seen.add(name)


def _known(group: InstanceGroupConfig) -> list[InstanceType]:
    return [INSTANCES[name] for name in group.types if name in INSTANCES]


def _several_types(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    """An engine is sized once, so its node must have the same GPUs whatever type it is."""
    known = _known(group)
    for place, name in enumerate(group.instance_types):
        if name not in INSTANCES:
            continue
        instance, first = INSTANCES[name], known[0]
        if (instance.gpu.name, instance.gpus) != (first.gpu.name, first.gpus):
            yield Problem(
                path=(*path, "instance_types", place),
                code="types-with-other-gpus",
                message=f"{name} has {instance.gpus} x {instance.gpu.name} and {first.name} has "
                f"{first.gpus} x {first.gpu.name}; an engine is sized once for the whole list, so "
                "list types with the same GPUs, or make a second group",
            )


def _counts(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    if group.min_count is not None and group.min_count > group.count:
        yield Problem(
            path=(*path, "min_count"),
            code="min-count",
            message=f"got {group.min_count}, more than the "
            f"{counted(group.count, 'instance')} of the group. Set "
            f"{format_path((*path, 'min_count'))} to {group.count}, or set "
            f"{format_path((*path, 'count'))} to {group.min_count}",
            also_reads=((*path, "count"),),
        )


def _adapters(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    without = without_adapter(group.types)
    if group.efa != "none" and without:
        yield Problem(
            path=(*path, "efa"),
            code="efa-of-a-type",
            message=f"got {group.efa}, but {_listed(without)} no Elastic Fabric Adapter; leave "
            "it out, or choose sizes that have one, such as ml.g6e.8xlarge",
            also_reads=((*path, group.types_field),),
        )


def _checked_nodes(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    if group.deep_health_checks and group.taints:
        yield Problem(
            path=(*path, "taints"),
            code="deep-checks-and-taints",
            message="HyperPod's deep health checks run as pods that tolerate no taint of yours, "
            "so the nodes would never pass them; leave out taints or deep_health_checks",
            also_reads=((*path, "deep_health_checks"),),
        )


def _reserved(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    others = not_reservable(group.types)
    if group.capacity.kind == "training_plan" and others:
        yield Problem(
            path=(*path, "capacity"),
            code="training-plan-type",
            message=f"got training_plan, and a plan reserves no {' or '.join(others)}, but "
            f"{', '.join(RESERVABLE_TYPES)}; use on_demand or spot, or one of these types",
            also_reads=((*path, group.types_field),),
        )


def _regions_of(
    config: ServingConfig, group: InstanceGroupConfig, path: ConfigPath
) -> Iterator[Problem]:
    arns: dict[str, str | None] = {
        "volume_kms_key_arn": group.volume_kms_key_arn,
        "root_volume_kms_key_arn": group.root_volume_kms_key_arn,
    }
    if group.capacity.kind == "training_plan":
        arns["capacity"] = group.capacity.arn
    for field, arn in arns.items():
        region = None if arn is None else arn.split(":")[3]
        if region not in {None, config.region}:
            place = (*path, field, "arn") if field == "capacity" else (*path, field)
            yield Problem(
                path=place,
                code="region-of-an-arn",
                message=f"it is of {region}, and the deployment in {config.region}; "
                f"{format_path(place[2:])} must be of the same region",
                also_reads=(("region",),),
            )


def _read_by_the_operator(config: ServingConfig, index: int, path: ConfigPath) -> Iterator[Problem]:
    group = config.instance_groups[index]
    theirs = [
        place
        for place, model in enumerate(config.models)
        if model.mode == "operator" and model.instance_group in {None, group.name}
    ]
    if len(group.instance_types) > 1 and theirs:
        yield Problem(
            path=(*path, "instance_types"),
            code="operator-instance-types",
            message=f"models[{theirs[0]}] is in mode operator, whose endpoints name one instance "
            "type; give instance_type, or choose mode: deployment",
            also_reads=(("models", theirs[0], "mode"), ("models", theirs[0], "instance_group")),
        )


def _shared(config: ServingConfig) -> Iterator[Problem]:
    updates = config.hyperpod.software_updates
    if updates is not None and None not in {updates.batch_count, updates.batch_percentage}:
        yield Problem(
            path=("hyperpod", "software_updates", "batch_percentage"),
            code="batch-count-and-percentage",
            message="batch_count is given, too, and HyperPod takes one of the two; leave one out",
            also_reads=(("hyperpod", "software_updates", "batch_count"),),
        )
    alarms = updates.rollback_alarms if updates is not None else ()
    for place, name in enumerate(alarms):
        if name in alarms[:place]:
            yield Problem(
                path=("hyperpod", "software_updates", "rollback_alarms", place),
                code="duplicate",
                message=f"{name!r} is duplicated; name each alarm once",
            )
    groups = config.hyperpod.security_group_ids
    for place, name in enumerate(groups):
        if name in groups[:place]:
            yield Problem(
                path=("hyperpod", "security_group_ids", place),
                code="duplicate",
                message=f"{name} is duplicated; name each security group once",
            )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def autoscaling(context: Context) -> Iterator[Problem]:
    """Find what HyperPod's Karpenter does not take."""
    config = context.config
    if config.hyperpod.autoscaling is None or config.hyperpod.existing is not None:
        return  # the latter has its sentence already
    if config.hyperpod.node_recovery != "Automatic":
        yield Problem(
            path=("hyperpod", "node_recovery"),
            code="karpenter-node-recovery",
            message=f"got {config.hyperpod.node_recovery}; with autoscaling HyperPod has to "
            "replace instances itself. Use Automatic",
            also_reads=(_MODE,),
        )
    if config.cache.l2.kind == "curvine":
        yield Problem(
            path=("cache", "l2", "kind"),
            code="karpenter-and-curvine",
            message="got curvine, which keeps blocks on the NVMe of instances that Karpenter takes "
            "away; use directory, managed or none, or leave hyperpod.autoscaling out",
            also_reads=(_MODE,),
        )
    agent = config.images.health_agent
    number = agent_number(agent.rpartition(":")[2]) if agent and "@" not in agent else ()
    # A tag of yours that is no number of AWS's says nothing.
    if len(number) == len(agent_number(MIN_HEALTH_AGENT)) and number < agent_number(
        MIN_HEALTH_AGENT
    ):
        yield Problem(
            path=("images", "health_agent"),
            code="karpenter-health-agent",
            message=f"{agent} is older than {MIN_HEALTH_AGENT}, the first that autoscaling works "
            "with; take a newer one, or leave hyperpod.autoscaling out",
            also_reads=(_MODE,),
        )
    for index, group in enumerate(config.instance_groups):
        yield from _group(group, ("instance_groups", index))


def _group(group: InstanceGroupConfig, path: ConfigPath) -> Iterator[Problem]:
    if group.zone is None:
        yield Problem(
            path=(*path, "zone"),
            code="karpenter-zone",
            message=f"{group.name!r} names none, and Karpenter wants all instances of a group in "
            "one; give it one of `zones`, and a group of its own for each further zone",
            also_reads=(_MODE, path),
        )
    if group.count == 0:
        yield Problem(
            path=(*path, "count"),
            code="karpenter-no-instances",
            message="got 0, which with autoscaling is the most that Karpenter may add; give the "
            "largest number that you want to pay for, or take the group out",
            also_reads=(_MODE,),
        )
    if group.capacity.kind == "training_plan":
        yield Problem(
            path=(*path, "capacity"),
            code="karpenter-training-plan",
            message="got training_plan, whose instances are reserved and paid for whether they "
            "run or not; use on_demand or spot, or leave hyperpod.autoscaling out",
            also_reads=(_MODE,),
        )
    if group.min_count is not None:
        yield Problem(
            path=(*path, "min_count"),
            code="karpenter-min-count",
            message=f"got {group.min_count}, but with autoscaling every group begins empty; leave "
            "it out",
            also_reads=(_MODE,),
        )
    if group.deep_health_checks:
        yield Problem(
            path=(*path, "deep_health_checks"),
            code="karpenter-deep-checks",
            message=f"got {', '.join(group.deep_health_checks)}; they take an hour or more, in "
            "which Karpenter adds further instances for the pods that wait. Leave them out",
            also_reads=(_MODE,),
        )
    keys: list[tuple[str, ConfigPath]] = [(key, ("labels", key)) for key in group.labels]
    keys += [(taint.key, ("taints", place, "key")) for place, taint in enumerate(group.taints)]
    for key, inside in keys:
        domain = key.rpartition("/")[0]
        if any(f".{domain}".endswith(f".{own}") for own in OWN_LABELS):
            yield Problem(
                path=(*path, *inside),
                code="karpenter-own-key",
                message=f"{inside[0]} of {domain} are Karpenter's own; use another domain",
                also_reads=(_MODE,),
            )
