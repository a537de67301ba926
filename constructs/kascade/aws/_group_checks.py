"""What HyperPod would reject in an instance group, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aws_cdk import aws_ec2 as ec2

from kascade.aws._given import (
    TEXT,
    WHOLE,
    WORD,
    Kind,
    an,
    having,
    is_token,
    listed,
    mapped,
    one_of,
    optional,
    repeated,
    sift_fields,
    wrong,
)
from kascade.aws._names import (
    ACCELERATED,
    TRAINING_PLAN_ARN,
    TYPE,
    architecture,
)
from kascade.aws._storage_checks import storage_mistakes
from kascade.aws._update_checks import update_mistakes
from kascade.aws.instance_group import (
    Capacity,
    FsxLustre,
    FsxOpenZfs,
    InstanceGroup,
    Instances,
    SoftwareUpdates,
    Taint,
)
from kascade.catalog.hyperpod import (
    DEEP_HEALTH_CHECKS,
    GROUP_NAME,
    MAX_INSTANCES,
    MAX_LABELS,
    MAX_TYPES,
    not_reservable,
    without_adapter,
)
from kascade.catalog.instances import INSTANCES
from kascade.catalog.kubernetes import LABEL_KEY, LABEL_VALUE, owner_of
from kascade.catalog.training_plans import RESERVABLE_TYPES

_KEY_LENGTHS: Final = "name at most 63, domain at most 253 characters"
_KEY: Final = optional(having("a key of aws_kms", "key_arn"))
_GROUP: Final[Mapping[str, Kind]] = {
    "instances": an(Instances, "Instances.of('ml.g6e.4xlarge') or Instances.any_of([...])"),
    "count": WHOLE,
    "min_count": optional(WHOLE),
    "capacity": an(
        Capacity, "Capacity.on_demand(), Capacity.spot() or Capacity.training_plan(arn)"
    ),
    "labels": mapped(TEXT, "a dict such as {'team': 'a'}"),
    "taints": listed(an(Taint, "Taint(key='team')"), "a list such as [Taint(key='team')]"),
    "deep_health_checks": listed(WORD, "a list such as ['InstanceStress']"),
    "volume_gib": optional(WHOLE),
    "volume_key": _KEY,
    "root_volume_key": _KEY,
    "file_systems": listed(
        an((FsxLustre, FsxOpenZfs), "FsxLustre(...) or FsxOpenZfs(...)"),
        "a list of FsxLustre(...) and FsxOpenZfs(...)",
    ),
    "threads_per_core": one_of(1, 2),
    "vpc_subnets": optional(an(ec2.SubnetSelection, "an ec2.SubnetSelection")),
    "security_groups": listed(
        having("a security group of aws_ec2", "security_group_id"), "a list of security groups"
    ),
    "network_interface": optional(one_of("efa", "efa-only")),
    "software_updates": optional(an(SoftwareUpdates, "SoftwareUpdates(...)")),
}
_ANY_TYPE: Final = Instances.of(RESERVABLE_TYPES[-1])
"""Stands in for types that are none: nothing is wrong with it but what the group's others say."""


def mistakes(name: str, group: InstanceGroup, region: str) -> tuple[InstanceGroup, list[str]]:
    """Find everything that HyperPod would reject in a group, subnets aside.

    Args:
        name: Its name.
        group: The group, whatever its fields are.
        region: Of the stack; may be a token.

    Returns:
        The group with fields of the right kind, for further checks, and the sentences.
    """
    found = wrong("the name", name, WORD)
    if not found and not GROUP_NAME.fullmatch(name):
        found = [
            f"{name!r} cannot name an instance group; use 1 to 63 letters, digits and inner hyphens"
        ]
    neutral = {"instances": _ANY_TYPE, "count": MAX_INSTANCES}
    group, texts = sift_fields(group, _GROUP, neutral)
    types, typed = _types(group.instances)
    found += [
        *texts,
        *typed,
        *_of_counts(group),
        *_of_capacity(group.capacity, types, region),
        *_of_checks(group, types),
        *_of_labels(group),
        *_of_taints(group),
        *_of_adapters(group, types),
        *storage_mistakes(group, region),
    ]
    if group.software_updates is not None:
        found += update_mistakes(group.software_updates)
    return group, found


def uncatalogued(group: InstanceGroup) -> list[str]:
    """Types of a group with EFA of which Kascade does not know whether they have it."""
    if group.network_interface is None:
        return []
    return [name for name in group.instances.types if name not in INSTANCES]


def _types(instances: Instances) -> tuple[list[str], list[str]]:
    """Types that can be asked further, and what is wrong with any."""
    what = "any_of" if instances.is_choice else "Instances.of"
    advice = "a list of types such as ['ml.g6e.8xlarge', 'ml.g6e.4xlarge']"
    found = wrong(what, instances.types, listed(WORD, advice))
    if not isinstance(instances.types, list | tuple):
        return [], found
    types = [name for name in instances.types if isinstance(name, str) and not is_token(name)]
    count = len(instances.types)
    if not 1 <= count <= MAX_TYPES:
        found.append(f"any_of got {count} types; HyperPod takes 1 to {MAX_TYPES}")
    if count > 1 and not instances.is_choice:
        found.append(f"Instances of {count} types are no choice; make them by any_of")
    for name in repeated(types):
        found.append(
            f"any_of names {name} twice; the order is a preference, so name each type once"
        )
    sound = [name for name in dict.fromkeys(types) if TYPE.fullmatch(name)]
    for name in dict.fromkeys(types):
        if name not in sound:
            found.append(f"{name!r} is no HyperPod type; they are written like ml.g6e.4xlarge")
    kinds = {name: architecture(name) for name in sound}
    if len(set(kinds.values())) > 1:
        listing = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        found.append(
            f"any_of mixes architectures, {listing}, and an image runs on one; make a group of each"
        )
    return sound, found


def _of_counts(group: InstanceGroup) -> Iterator[str]:
    if not 0 <= group.count <= MAX_INSTANCES:
        yield f"count is {group.count}; HyperPod takes 0 to {MAX_INSTANCES}"
    if group.min_count is not None and not 0 <= group.min_count <= group.count:
        yield (
            f"min_count is {group.min_count}, which is not between 0 and the {group.count} "
            "instances of the group; lower it or raise count"
        )


def _of_capacity(capacity: Capacity, types: list[str], region: str) -> Iterator[str]:
    kinds = {"kind": one_of("on_demand", "spot", "training_plan"), "plan_arn": optional(TEXT)}
    capacity, texts = sift_fields(capacity, kinds, {"kind": "on_demand"}, "capacity.")
    yield from texts
    if texts:
        return
    arn = capacity.plan_arn
    if capacity.kind != "training_plan":
        if arn is not None:
            yield (
                f"capacity is {capacity.kind} and names the training plan {arn}; "
                f"use Capacity.training_plan(arn), or Capacity.{capacity.kind}() without one"
            )
        return
    example = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/mine"
    if arn is None:
        yield f"capacity is a training plan without its ARN; give one such as {example}"
    elif not is_token(arn):
        if not TRAINING_PLAN_ARN.fullmatch(arn):
            yield f"capacity: {arn!r} is not the ARN of a training plan; they are like {example}"
        elif not is_token(region) and arn.split(":")[3] != region:
            yield (
                f"capacity: the training plan is of {arn.split(':')[3]}, and the stack in "
                f"{region}; name one of the same region"
            )
    others = not_reservable(types)
    if others:
        yield (
            f"capacity: a training plan reserves no {' or '.join(others)}, but "
            f"{', '.join(RESERVABLE_TYPES)}; use one of these, or on-demand or spot capacity"
        )


def _of_checks(group: InstanceGroup, types: list[str]) -> Iterator[str]:
    checks = group.deep_health_checks
    unknown = [check for check in checks if check not in DEEP_HEALTH_CHECKS]
    if unknown:
        yield f"deep health check {', '.join(unknown)}; allowed: {' and '.join(DEEP_HEALTH_CHECKS)}"
    for check in repeated(checks):
        yield f"deep health check {check} is duplicated; name each once"
    plain = [name for name in types if not ACCELERATED.match(name)]
    if checks and plain:
        yield (
            f"deep health checks test GPUs, and {', '.join(plain)} has none; leave the checks out"
        )
    if checks and group.taints:
        yield (
            "deep health checks run as pods that tolerate no taint of yours, so the nodes would "
            "never pass them; leave out taints or deep_health_checks"
        )


def _of_labels(group: InstanceGroup) -> Iterator[str]:
    if len(group.labels) > MAX_LABELS:
        yield f"{len(group.labels)} labels; HyperPod takes {MAX_LABELS}"
    for key, value in group.labels.items():
        texts = _key(f"label {key!r}", key)
        yield from texts
        owner = None if texts else owner_of(key)
        if owner is not None:
            yield (
                f"label {key!r}: those of {owner} are set by Kubernetes or HyperPod; use a domain "
                "of your own"
            )
        if not is_token(value) and not LABEL_VALUE.fullmatch(value):
            yield (
                f"label {key!r} has the value {value!r}; allowed: 1 to 63 letters, digits, dots, "
                "dashes or _, the first and last a letter or digit"
            )


def _key(what: str, key: Any) -> list[str]:
    found = wrong(what, key, WORD)
    if found or LABEL_KEY.fullmatch(key):
        return found
    return [f"{what} is no Kubernetes key; write it like team or example.com/team ({_KEY_LENGTHS})"]


_TAINT: Final[Mapping[str, Kind]] = {
    "value": TEXT,
    "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
}


def _of_taints(group: InstanceGroup) -> Iterator[str]:
    if len(group.taints) > MAX_LABELS:
        yield f"{len(group.taints)} taints; HyperPod takes {MAX_LABELS}"
    sound = []
    for place, given in enumerate(group.taints):
        where = f"taints[{place}]"
        taint, texts = sift_fields(given, _TAINT, {}, f"{where}.")
        keyed = _key(f"{where}.key {given.key!r}", given.key)
        yield from (*texts, *keyed)
        owner = None if keyed else owner_of(taint.key)
        if owner is not None:
            yield (
                f"{where}.key: those of {owner} are set by Kubernetes or HyperPod; use a domain of "
                "your own"
            )
        if not is_token(taint.value) and taint.value and not LABEL_VALUE.fullmatch(taint.value):
            yield (
                f"{where}.value is {taint.value!r}; allowed: at most 63 letters, digits, dots, "
                "dashes or _, the first and last a letter or digit"
            )
        if not texts and not keyed:
            sound.append((taint.key, taint.effect))
    for key, effect in repeated(sound):
        yield f"the taint {key}:{effect} is duplicated; a node has one of each key and effect"


def _of_adapters(group: InstanceGroup, types: list[str]) -> Iterator[str]:
    without = without_adapter(types)
    if group.network_interface is not None and without:
        yield (
            f"network_interface is {group.network_interface}, but {', '.join(without)} has no "
            "Elastic Fabric Adapter; leave it out, or choose sizes that have one"
        )
    if group.security_groups and group.vpc_subnets is None:
        yield "security_groups need vpc_subnets beside them, since HyperPod takes both or neither"
