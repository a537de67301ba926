"""What cannot be changed during the life of a deployment, as a file beside its configuration.

Neither a template nor a manifest knows what is deployed, and a change of these would end in a
second deployment beside the first, or in a broken one. The file is written when a configuration is
first deployed, is committed with it, and every plan and synth compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from kascade.catalog.kubernetes import KUBERNETES_VERSIONS
from kascade.config.blocks import CurvineConfig, ServingConfig
from kascade.errors import ConfigPath, Problem, format_path

Lock = Mapping[str, object]
"""Values by the path of their field, such as ``network.vpc_cidr``."""

_OLD_STACKS: Final = "the deployed stacks would stay behind, and cost"

FIXED: Final[Mapping[ConfigPath, str]] = {
    ("name",): _OLD_STACKS,
    ("region",): _OLD_STACKS,
    ("account",): _OLD_STACKS,
    ("zones",): "EKS and HyperPod keep the subnets of the first two, and each zone's addresses "
    "follow from its place, so zones can only be added at the end",
    ("hyperpod", "security_group_ids"): "CloudFormation would replace the HyperPod cluster",
    ("network", "vpc_cidr"): "CloudFormation would replace the VPC under all that is in it",
    ("network", "existing"): "EKS and HyperPod keep the VPC and the subnets they stand in",
    ("kubernetes", "existing"): "the cluster that runs everything would be deleted, or left behind",
    ("kubernetes", "dependencies_chart"): "Helm takes over no objects that it did not make, and "
    "nothing else those that it did",
    ("hyperpod", "existing"): "the nodes that run everything would be deleted, or left behind",
    ("cache", "l2", "masters"): "each master's journal names the members of its group",
}
"""What is fixed, and why."""

VERSION: Final[ConfigPath] = ("kubernetes", "version")
"""What may only go up, one step at a time; of a cluster that is made here."""

HELD: Final[tuple[ConfigPath, ...]] = (*FIXED, VERSION)
"""What a lock holds, in its order."""

_HEADER: Final = """\
# What cannot be changed while this deployment lives, as it was first deployed; zones and Kubernetes
# version as they are now. `make deploy` writes it and every plan compares; commit it with the
# configuration. `make destroy` removes it.
"""


def lock_path(config: Path) -> Path:
    """Where a configuration's lock is.

    >>> lock_path(Path("config/fleet.yaml")).name
    'fleet.lock'
    """
    return config.with_suffix(".lock")


def locked_values(config: ServingConfig) -> dict[str, object]:
    """Return what is fixed once this configuration is deployed."""
    values: dict[ConfigPath, object] = {
        ("name",): config.name,
        ("region",): config.region,
        ("zones",): list(config.zones),
        ("hyperpod", "security_group_ids"): list(config.hyperpod.security_group_ids),
        ("network", "vpc_cidr"): config.network.vpc_cidr,
        ("network", "existing"): _vpc(config),
        ("kubernetes", "existing"): [eks.name] if (eks := config.kubernetes.existing) else [],
        ("kubernetes", "dependencies_chart"): config.kubernetes.dependencies_chart is not None,
        ("hyperpod", "existing"): [hp.cluster_arn] if (hp := config.hyperpod.existing) else [],
    }
    if config.account is not None:
        values["account",] = config.account
    if isinstance(config.cache.l2, CurvineConfig):
        values["cache", "l2", "masters"] = config.cache.l2.masters
    if config.kubernetes.existing is None:
        values[VERSION] = config.kubernetes.version
    return {format_path(path): values[path] for path in HELD if path in values}


def _vpc(config: ServingConfig) -> list[str]:
    """Ids of an existing VPC and of its subnets, in the order of the zones."""
    vpc = config.network.existing
    return [] if vpc is None else [vpc.vpc_id, *(subnet.id for subnet in vpc.private_subnets)]


def check_lock(config: ServingConfig, lock: Lock, source: str) -> Iterator[Problem]:
    """Yield every change of what is fixed.

    Args:
        config: The configuration.
        lock: What was deployed. What it does not hold is free: an account, or the masters of a
            deployment that had no Curvine yet. So are masters without Curvine, but not the account
            of a configuration that names none: it would go to whichever is active.
        source: The lock's file name, for the sentences.
    """
    wanted = locked_values(config)
    if lock:
        # A lock of before the field was there is one of a deployment with objects of its own.
        lock = {"kubernetes.dependencies_chart": False, **lock}
    if "account" in lock and config.account is None:
        yield Problem(
            path=("account",),
            code="locked",
            message=f"there is none, but {source} says that {_shown(lock['account'])} is deployed, "
            "and without it a deployment goes to whichever account is active; put it back, in "
            "quotes",
        )
    for path, reason in FIXED.items():
        field = format_path(path)
        if field in lock and field in wanted and not _kept(path, lock[field], wanted[field]):
            yield Problem(
                path=path,
                code="locked",
                message=f"got {_shown(wanted[field])}, but {source} says that "
                f"{_shown(lock[field])} is deployed, and that is fixed for life: {reason}. Go back "
                "to it, or make another deployment from a copy of this file",
            )
    yield from _of_version(config, lock, source)


def _of_version(config: ServingConfig, lock: Lock, source: str) -> Iterator[Problem]:
    """Yield a step of the Kubernetes version that EKS does not take."""
    deployed, wanted = lock.get(format_path(VERSION)), config.kubernetes.version
    if config.kubernetes.existing is not None or wanted not in KUBERNETES_VERSIONS:
        return
    if not isinstance(deployed, str):  # a lock of before the field was there
        return
    before, after = _minor(deployed), _minor(wanted)
    said = f"got {wanted!r}, but {source} says that {deployed!r} is deployed, and EKS "
    if after > before + 1:
        yield Problem(
            path=VERSION,
            code="kubernetes-upgrade",
            message=f"{said}upgrades a control plane one minor version at a time. Deploy "
            f"'1.{before + 1}' first",
        )
    if after < before:
        yield Problem(
            path=VERSION,
            code="kubernetes-downgrade",
            message=f"{said}takes no control plane back. Put {deployed!r} back; only where that "
            f"upgrade never came about (`aws eks describe-cluster --name {config.name} --query "
            f"cluster.version` says {wanted}) write {wanted!r} into {source}",
        )


def _minor(version: str) -> int:
    """Return the number that counts up.

    >>> _minor("1.35")
    35
    """
    return int(version.partition(".")[2])


def _kept(path: ConfigPath, locked: object, wanted: object) -> bool:
    """Say whether a value is the deployed one; zones and their subnets may have grown at the end.

    An empty list is what is made here, and that cannot become somebody else's.
    """
    grows = path in {("zones",), ("network", "existing")} and bool(locked)
    if grows and isinstance(locked, list) and isinstance(wanted, list):
        return wanted[: len(locked)] == locked
    return locked == wanted


_KINDS: Final[Mapping[ConfigPath, tuple[type, str]]] = {
    ("name",): (str, "text"),
    ("region",): (str, "text"),
    ("account",): (str, "text, in quotes"),
    ("zones",): (list, "a list"),
    ("hyperpod", "security_group_ids"): (list, "a list"),
    ("network", "vpc_cidr"): (str, "text"),
    ("network", "existing"): (list, "a list"),
    ("kubernetes", "existing"): (list, "a list"),
    ("kubernetes", "dependencies_chart"): (bool, "true or false"),
    ("hyperpod", "existing"): (list, "a list"),
    ("cache", "l2", "masters"): (int, "a number"),
    VERSION: (str, "text, in quotes"),
}

_ALWAYS: Final[tuple[ConfigPath, ...]] = (
    ("name",),
    ("region",),
    ("zones",),
    ("network", "vpc_cidr"),
)
"""What every lock holds; without it, nothing would be fixed any more."""


def parse_lock(content: Mapping[object, object]) -> Lock:
    """Take what a lock file holds.

    Raises:
        ValueError: It is no lock, with every reason.
    """
    kinds = {format_path(path): _KINDS[path] for path in HELD}
    wrong = [f"there is no field {key!r}" for key in content if key not in kinds]
    wrong += [
        f"{format_path(path)} is missing" for path in _ALWAYS if format_path(path) not in content
    ]
    wrong += [
        f"{field} is {content[field]!r}, not {words}"
        for field, (kind, words) in kinds.items()
        if field in content and type(content[field]) is not kind
    ]
    version = content.get(format_path(VERSION))
    if isinstance(version, str) and version not in KUBERNETES_VERSIONS:
        known = ", ".join(KUBERNETES_VERSIONS)
        wrong.append(f"{format_path(VERSION)} is {version!r}, not one of {known}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return {str(key): value for key, value in content.items()}


def lock_text(config: ServingConfig, before: Lock) -> str:
    """Write the lock of a configuration.

    Args:
        config: The configuration, which ``check_lock`` has nothing against.
        before: The lock so far. Its values stay, also those that no longer matter, such as the
            masters of a pool that was switched off: their volumes outlive it. Zones that were
            added since, with their subnets, are locked, too, and so is a newer Kubernetes version.
    """
    now = locked_values(config)
    moving = ("zones", "network.existing", format_path(VERSION))
    values = {**now, **before, **{field: now[field] for field in moving if field in now}}
    ordered = {field: values[field] for field in map(format_path, HELD) if field in values}
    return _HEADER + yaml.safe_dump(ordered, sort_keys=False, default_flow_style=None)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else repr(value)
