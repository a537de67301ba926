"""EKS, HyperPod and their add-ons, made or existing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from kascade.catalog.addons import S3_CSI
from kascade.catalog.hyperpod import MIN_TIERED_PERCENTAGE
from kascade.catalog.kubernetes import KUBERNETES_VERSIONS
from kascade.config.blocks import (
    BASE_ADDONS,
    AddonsConfig,
    ExistingEksConfig,
    HyperPodConfig,
    InstanceGroupConfig,
    KubernetesConfig,
    KyvernoConfig,
    ServingConfig,
)
from kascade.errors import ConfigPath, Problem
from kascade.rules._words import duplicates, unread
from kascade.rules.context import Context
from kascade.rules.network import VPC, check_vpc
from kascade.units import counted

_RESERVED_NAMES = frozenset(
    {
        "amazon-cloudwatch",
        "amazon-guardduty",
        "aws-hyperpod",
        "cert-manager",
        "default",
        "hyperpod-inference-system",
        "hyperpod-observability",
        "keda",
        "kubeflow",
        "kueue-system",
        "kyverno",
        "mount-s3",
        "mpi-operator",
    }
)
"""Namespaces that are not ours: those of HyperPod, its add-ons and its chart, of Kyverno, of AWS's
own agents and of Mountpoint's pods; `kube-...` are Kubernetes' own."""


_OF_INSTANCES = (
    "capacity",
    "deep_health_checks",
    "efa",
    "labels",
    "min_count",
    "root_volume_kms_key_arn",
    "volume_gib",
    "volume_kms_key_arn",
)
"""What a group says of instances that HyperPod has yet to make."""


_ADDONS = (*BASE_ADDONS, S3_CSI)
"""Those that are asked for here; the names of others are read by nobody."""


_NO_SLIPS = frozenset({"aws-efs-csi-driver", "aws-fsx-csi-driver"})
"""Add-ons of AWS whose names are near one of those above."""


_NEAR = 0.75
"""How alike two names have to be, by difflib's measure. ``aws-ebs-csi`` and its driver are at 0.76,
and of AWS's other add-ons none is above 0.69."""


_EKS: ConfigPath = ("kubernetes", "existing")


_HYPERPOD: ConfigPath = ("hyperpod", "existing")


def duplicate_names(context: Context) -> Iterator[Problem]:
    """Say which name of a list is duplicated."""
    config = context.config
    yield from duplicates(
        [group.name for group in config.instance_groups],
        ("instance_groups",),
        "name",
        "group name",
    )
    yield from duplicates(
        [model.name for model in config.models], ("models",), "name", "model name"
    )
    yield from duplicates(config.zones, ("zones",), "", "zone")
    kubernetes = config.kubernetes
    yield from duplicates(kubernetes.admin_role_arns, ("kubernetes", "admin_role_arns"), "", "role")
    yield from duplicates(
        kubernetes.public_access_cidrs, ("kubernetes", "public_access_cidrs"), "", "network"
    )
    if kubernetes.existing is not None:
        there = ("kubernetes", "existing", "addons")
        yield from duplicates(kubernetes.existing.addons, there, "", "add-on")


def tags(context: Context) -> Iterator[Problem]:
    """IAM takes no two keys that differ in nothing but case (aws/aws-cdk issue 26253)."""
    config = context.config
    first: dict[str, str] = {}
    for key in config.tags:
        other = first.setdefault(key.lower(), key)
        if other != key:
            yield Problem(
                path=("tags", key),
                code="tag-case",
                message=f"{key!r} and {other!r} differ in case alone, and IAM takes them for one "
                "key; keep one of them",
            )


def deployment_name(context: Context) -> Iterator[Problem]:
    """Say which deployment is named like somebody's namespace."""
    config = context.config
    if config.name in _RESERVED_NAMES or config.name.startswith("kube-"):
        yield Problem(
            path=("name",),
            code="reserved-name",
            message=f"{config.name!r} is the name of a namespace that belongs to Kubernetes, "
            "HyperPod or an add-on; the deployment's own namespace is named after it, so choose "
            "another",
        )


def addons(context: Context) -> Iterator[Problem]:
    """Find what cannot be installed."""
    config = context.config
    arn = config.kubernetes.addons.observability_workspace_arn
    if arn is None:
        return
    region, account = arn.split(":")[3:5]
    path = ("kubernetes", "addons", "observability_workspace_arn")
    if region != config.region:
        yield Problem(
            path=path,
            code="workspace-region",
            message=f"the workspace is in {region} and the deployment in {config.region}; the "
            "add-on writes to a workspace of its own region, so name one there",
            also_reads=(("region",),),
        )
    if config.account is not None and account != config.account:
        yield Problem(
            path=path,
            code="workspace-account",
            message=f"the workspace is of account {account} and the deployment of "
            f"{config.account}; the add-on's role reaches its own account, so name one there",
            also_reads=(("account",),),
        )


def existing(context: Context) -> Iterator[Problem]:
    """Find what cannot stand on what."""
    config = context.config
    vpc, eks, hyperpod = (
        config.network.existing,
        config.kubernetes.existing,
        config.hyperpod.existing,
    )
    if eks is not None and vpc is None:
        yield Problem(
            path=_EKS,
            code="eks-without-vpc",
            message="an existing EKS cluster stands in an existing VPC; name it and its "
            "subnets in network.existing",
            also_reads=(VPC,),
        )
    if hyperpod is not None and eks is None:
        yield Problem(
            path=_HYPERPOD,
            code="hyperpod-without-eks",
            message="an existing HyperPod cluster stands on an existing EKS cluster; name "
            "it in kubernetes.existing",
            also_reads=(_EKS,),
        )
    if vpc is not None:
        yield from check_vpc(config, vpc)
    if eks is not None:
        yield from _unread_by_eks(config.kubernetes)
        yield from _of_addons(eks)
    if hyperpod is not None:
        yield from _of_hyperpod(config, hyperpod.cluster_arn)


def _unread_by_eks(kubernetes: KubernetesConfig) -> Iterator[Problem]:
    if kubernetes.public_access_cidrs:
        yield unread(
            ("kubernetes", "public_access_cidrs"), "who reaches it is its owner's choice", _EKS
        )
    if kubernetes.addons != AddonsConfig():
        yield unread(
            ("kubernetes", "addons"), "HyperPod's add-ons on it are its owner's choice", _EKS
        )


def _of_addons(eks: ExistingEksConfig) -> Iterator[Problem]:
    for index, name in enumerate(eks.addons):
        near = difflib.get_close_matches(name, _ADDONS, n=2, cutoff=_NEAR)
        if near and name not in _ADDONS and name not in _NO_SLIPS:
            meant = " or ".join(near)
            yield Problem(
                path=(*_EKS, "addons", index),
                code="addon-name",
                message=f"got {name}, which nothing here asks for and which is near {meant}; "
                f"write {meant}, or leave it out",
            )


def _of_hyperpod(config: ServingConfig, arn: str) -> Iterator[Problem]:
    region, account = arn.split(":")[3:5]
    for given, wanted, field in (
        (region, config.region, "region"),
        (account, config.account or account, "account"),
    ):
        if given != wanted:
            yield Problem(
                path=(*_HYPERPOD, "cluster_arn"),
                code="cluster-elsewhere",
                message=f"the cluster is in {field} {given} and the deployment in {wanted}; make "
                "them one",
                also_reads=((field,),),
            )
    yield from _unread_by_hyperpod(config)


def _unread_by_hyperpod(config: ServingConfig) -> Iterator[Problem]:
    for index, group in enumerate(config.instance_groups):
        for field in _OF_INSTANCES:
            if getattr(group, field) != InstanceGroupConfig.model_fields[field].get_default():
                yield unread(
                    ("instance_groups", index, field), "its instances are made already", _HYPERPOD
                )
    if config.kubernetes.dependencies_chart is not None:
        yield unread(
            ("kubernetes", "dependencies_chart"), "the cluster brought what it needs", _HYPERPOD
        )
    for field in ("efa_device_plugin", "health_agent", "nvidia_device_plugin"):
        if getattr(config.images, field) is not None:
            yield unread(("images", field), "the cluster brought it", _HYPERPOD)
    default = HyperPodConfig()
    for field in ("node_recovery", "security_group_ids", "software_updates", "autoscaling"):
        if getattr(config.hyperpod, field) != getattr(default, field):
            yield unread(("hyperpod", field), "the cluster keeps its own settings", _HYPERPOD)


def tiered_storage(context: Context) -> Iterator[Problem]:
    """Say what HyperPod does not take as a share of RAM."""
    config = context.config
    percentage = config.hyperpod.tiered_storage_percentage
    if percentage is not None and percentage < MIN_TIERED_PERCENTAGE:
        yield Problem(
            path=("hyperpod", "tiered_storage_percentage"),
            code="tiered-storage-percentage",
            message=f"got {percentage}; HyperPod takes {MIN_TIERED_PERCENTAGE} to 100. Leave the "
            "field out to switch the managed tier off",
        )


def versions(context: Context) -> Iterator[Problem]:
    """Say which Kubernetes version or node image cannot be."""
    config = context.config
    if config.kubernetes.version not in KUBERNETES_VERSIONS:
        yield Problem(
            path=("kubernetes", "version"),
            code="kubernetes-version",
            message=f"got {config.kubernetes.version!r}; HyperPod documents "
            f"{', '.join(KUBERNETES_VERSIONS)}",
        )
    release = config.kubernetes.system_group.release_version
    if release is not None and release.rpartition(".")[0] != config.kubernetes.version:
        yield Problem(
            path=("kubernetes", "system_group", "release_version"),
            code="node-image-version",
            message=f"got {release!r}, a node image of another Kubernetes version than "
            f"{config.kubernetes.version!r}; give one of that version, or leave the field out for "
            "the newest",
            also_reads=(("kubernetes", "version"),),
        )


def kyverno(context: Context) -> Iterator[Problem]:
    """Say that nothing reads its settings."""
    config = context.config
    if config.kubernetes.kyverno != KyvernoConfig() and not any(
        model.mode == "operator" for model in config.models
    ):
        yield Problem(
            path=("kubernetes", "kyverno"),
            code="unread",
            message="nothing reads it without a model in mode operator; leave it out",
            also_reads=(("models",),),
        )


def system_nodes(context: Context) -> Iterator[Problem]:
    """Say where fewer may be than there are."""
    config = context.config
    system = config.kubernetes.system_group
    if system.max_count < system.count:
        yield Problem(
            path=("kubernetes", "system_group", "max_count"),
            code="system-max-count",
            message=f"got {system.max_count}, less than the "
            f"{counted(system.count, 'node')} at the start. Set "
            f"kubernetes.system_group.max_count to {system.count}",
            also_reads=(("kubernetes", "system_group", "count"),),
        )
