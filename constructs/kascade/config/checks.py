"""What one block says about another: names, references, and what exists at all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from kascade.catalog.instances import INSTANCES
from kascade.catalog.kubernetes import KUBERNETES_VERSIONS, owner_of
from kascade.catalog.models import MODELS
from kascade.catalog.operator import MAX_NAME_AND_NAMESPACE, OPERATOR_REGIONS
from kascade.catalog.regions import REGIONS
from kascade.config.addons import check_addons
from kascade.config.autoscaling import check_autoscaling
from kascade.config.blocks import (
    MAX_MODEL_NAME,
    CurvineConfig,
    DirectoryConfig,
    KyvernoConfig,
    ModelConfig,
    OperatorConfig,
    ServingConfig,
)
from kascade.config.existing import check_existing
from kascade.config.groups import check_groups
from kascade.config.ranges import check_ranges
from kascade.config.references import check_references
from kascade.config.regions import check_regions
from kascade.errors import ConfigPath, Problem, format_path
from kascade.units import counted

_MAX_BUCKET_NAME = 63
"""Characters that S3 allows."""

MIN_TIERED_PERCENTAGE = 20
"""HyperPod's documentation calls 20 to 100 valid, while the API's schema takes 0 to 100."""


def check_config(config: ServingConfig) -> tuple[Problem, ...]:
    """Find every mistake that needs no arithmetic.

    Args:
        config: A configuration whose fields are valid one by one.

    Returns:
        The problems, in no particular order.
    """
    return (
        *_names(config),
        *_places(config),
        *_instance_types(config),
        *check_groups(config),
        *_models(config),
        *_tenants(config),
        *_operated(config),
        *check_references(config),
        *check_addons(config),
        *check_existing(config),
        *check_ranges(config),
        *check_regions(config),
        *check_autoscaling(config),
        *_unsealed_tenants(config),
        *_settings(config),
    )


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

_RESERVED_MODEL_NAMES = frozenset(
    {"default", "default-deny", "allow-dns", "kascade-cache-keys", "kascade-janitor"}
)
"""Names of other objects in the serving namespace."""

MIN_WATER_GAP = 0.01
"""Between the janitor's marks; with less it would delete a file or two at a time."""

_RESERVED_MODEL_ENDINGS = (
    "-router",
    "-pods",
    "-verify",
    "-verify-ingress",
    "-door",
    "-janitor",
)
"""What a model's other objects add to its name."""

RESERVED_TENANT_PREFIX = "kascade-"
"""Begins the names of tenants of our own, such as the one that `kascade verify` asks as."""


def _near(value: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(value, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _twice(names: Sequence[str], path: ConfigPath, field: str, what: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            place = (*path, index, field) if field else (*path, index)
            yield Problem(
                path=place,
                code="duplicate",
                message=f"the {what} {name!r} stands twice (also at "
                f"{format_path((*path, first[name]))}); "
                "give each its own",
            )
        first.setdefault(name, index)


def _names(config: ServingConfig) -> Iterator[Problem]:
    yield from _twice(
        [group.name for group in config.instance_groups],
        ("instance_groups",),
        "name",
        "group name",
    )
    yield from _twice([model.name for model in config.models], ("models",), "name", "model name")
    yield from _twice(config.zones, ("zones",), "", "zone")
    kubernetes = config.kubernetes
    yield from _twice(kubernetes.admin_role_arns, ("kubernetes", "admin_role_arns"), "", "role")
    yield from _twice(
        kubernetes.public_access_cidrs, ("kubernetes", "public_access_cidrs"), "", "network"
    )
    if kubernetes.existing is not None:
        there = ("kubernetes", "existing", "addons")
        yield from _twice(kubernetes.existing.addons, there, "", "add-on")
    yield from _tags(config)
    yield from _group_keys(config)
    if config.name in _RESERVED_NAMES or config.name.startswith("kube-"):
        yield Problem(
            path=("name",),
            code="reserved-name",
            message=f"{config.name!r} is the name of a namespace that belongs to Kubernetes, "
            "HyperPod or an add-on; the deployment's own namespace is named after it, so choose "
            "another",
        )
    for index, model in enumerate(config.models):
        if model.name in _RESERVED_MODEL_NAMES or model.name.endswith(_RESERVED_MODEL_ENDINGS):
            yield Problem(
                path=("models", index, "name"),
                code="reserved-name",
                message=f"{model.name!r} would collide with objects of another model or a policy; "
                f"choose a name that does not end with {', '.join(_RESERVED_MODEL_ENDINGS)}",
            )
    groups = [group.name for group in config.instance_groups]
    reads = tuple(("instance_groups", index, "name") for index in range(len(groups)))
    for index, model in enumerate(config.models):
        path = ("models", index, "instance_group")
        if model.instance_group is None and len(set(groups)) > 1:
            yield Problem(
                path=path,
                code="group-open",
                message=f"there are several groups, so say which one runs {model.name!r}: "
                f"{', '.join(groups)}",
                also_reads=reads,
            )
        elif model.instance_group is not None and model.instance_group not in groups:
            yield Problem(
                path=path,
                code="unknown-group",
                message=f"there is no group {model.instance_group!r}; the groups are "
                f"{', '.join(groups)}",
                also_reads=reads,
            )


def _group_keys(config: ServingConfig) -> Iterator[Problem]:
    """Labels, taints and checks of groups."""
    for index, group in enumerate(config.instance_groups):
        place: ConfigPath = ("instance_groups", index)
        taints = [f"{taint.key}:{taint.effect}" for taint in group.taints]
        yield from _twice(taints, (*place, "taints"), "", "taint")
        yield from _twice(group.deep_health_checks, (*place, "deep_health_checks"), "", "check")
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


def _tags(config: ServingConfig) -> Iterator[Problem]:
    """IAM takes no two keys that differ in nothing but case (aws/aws-cdk issue 26253)."""
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


def _places(config: ServingConfig) -> Iterator[Problem]:
    region = REGIONS.get(config.region)
    longest = _MAX_BUCKET_NAME - len(f"sagemaker--lifecycle-{'0' * 12}-{config.region}")
    if region is not None and len(config.name) > longest:
        yield Problem(
            path=("name",),
            code="name-too-long",
            message=f"{config.name!r} has {len(config.name)} characters; in {config.region} at "
            f"most {longest} fit the name of the lifecycle script's bucket",
            also_reads=(("region",),),
        )
    if region is None:
        yield Problem(
            path=("region",),
            code="unknown-region",
            message=f"{config.region!r} is no region where HyperPod offers these instance types; "
            f"allowed: {', '.join(sorted(REGIONS))}.{_near(config.region, REGIONS)}",
        )
    else:
        for index, zone in enumerate(config.zones):
            if zone not in region.zones:
                yield Problem(
                    path=("zones", index),
                    code="unknown-zone",
                    message=f"{zone!r} is no zone of {region.name}; its zones are "
                    f"{', '.join(region.zones)}",
                    also_reads=(("region",),),
                )
    for index, group in enumerate(config.instance_groups):
        if group.zone is not None and group.zone not in config.zones:
            yield Problem(
                path=("instance_groups", index, "zone"),
                code="zone-of-a-group",
                message=f"{group.zone!r} is not among this deployment's zones "
                f"({', '.join(config.zones)}); add it to `zones` or choose one of them",
                also_reads=(("zones",),),
            )


def _instance_types(config: ServingConfig) -> Iterator[Problem]:
    for index, group in enumerate(config.instance_groups):
        path: ConfigPath = ("instance_groups", index, group.types_field)
        for place, given in enumerate(group.types):
            if given in INSTANCES:
                continue
            hint = _near(given if given.startswith("ml.") else f"ml.{given}", INSTANCES)
            yield Problem(
                path=(*path, place) if group.instance_types else path,
                code="unknown-instance-type",
                message=f"{given!r} is not in the catalog of HyperPod GPU types, which are "
                f"written with the prefix ml., such as ml.g6e.4xlarge.{hint}",
            )


def _models(config: ServingConfig) -> Iterator[Problem]:
    for index, model in enumerate(config.models):
        facts = MODELS.get(model.model)
        if facts is None and model.config_json is None:
            yield Problem(
                path=("models", index, "model"),
                code="unknown-model",
                message=f"{model.model!r} is not in the catalog.{_near(model.model, MODELS)} For "
                "any other model give its Hugging Face config.json in `config_json`",
            )
        if model.weights.kind != "hub":
            yield from _not_from_the_hub(index, model)
        elif facts is not None and facts.gated and model.huggingface_token_secret is None:
            yield Problem(
                path=("models", index, "huggingface_token_secret"),
                code="gated-model",
                message=f"{model.model} is gated on Hugging Face; name the Secret (key `token`) "
                "that holds your access token",
                also_reads=(("models", index, "model"),),
            )


def _operated(config: ServingConfig) -> Iterator[Problem]:
    """Mistakes about HyperPod's inference operator."""
    for index, model in enumerate(config.models):
        path: ConfigPath = ("models", index)
        if model.mode == "operator":
            yield from _operator_takes(config, model, path)
        elif model.operator != OperatorConfig():
            yield Problem(
                path=(*path, "operator"),
                code="unread",
                message=f"nothing reads it while {model.name} is in mode {model.mode}; leave it "
                "out or set mode: operator",
                also_reads=((*path, "mode"),),
            )


def _operator_takes(
    config: ServingConfig, model: ModelConfig, path: ConfigPath
) -> Iterator[Problem]:
    own = model.operator
    mode = ((*path, "mode"),)
    if model.tenancy.kind != "shared":
        yield Problem(
            path=(*path, "tenancy"),
            code="operator-tenancy",
            message=f"got {model.tenancy.kind}; who asks through the operator's router has no door "
            "that names its tenant. Leave it out or choose mode: deployment",
            also_reads=mode,
        )
    if config.cache.l2.kind == "managed":
        yield Problem(
            path=mode[0],
            code="operator-managed-l2",
            message="the operator's pods get no directory of their host, which cache.l2 managed "
            "needs; choose mode: deployment or cache.l2 curvine or directory",
            also_reads=(("cache", "l2"),),
        )
    if config.region in REGIONS and config.region not in OPERATOR_REGIONS:
        yield Problem(
            path=mode[0],
            code="operator-region",
            message=f"HyperPod's inference operator has no image in {config.region}; it has one in "
            f"{', '.join(OPERATOR_REGIONS)}. Choose one of them or mode: deployment",
            also_reads=(("region",),),
        )
    if len(model.name) + len(config.name) > MAX_NAME_AND_NAMESPACE:
        yield Problem(
            path=(*path, "name"),
            code="operator-name-too-long",
            message=f"{model.name!r} and the deployment's name {config.name!r} have "
            f"{len(model.name) + len(config.name)} characters; in mode operator at most "
            f"{MAX_NAME_AND_NAMESPACE} fit the name of the operator's routing Service",
            also_reads=(("name",), *mode),
        )
    if model.weights.kind == "claim" and model.weights.path is not None:
        yield Problem(
            path=(*path, "weights", "path"),
            code="operator-claim-path",
            message="the operator mounts a claim as a whole; leave it out and give a claim that "
            "holds this model alone, or choose mode: deployment",
            also_reads=mode,
        )
    if "/" not in model.model:
        yield Problem(
            path=(*path, "model"),
            code="operator-model-id",
            message=f"{model.model!r} has no organisation; the operator takes ids such as "
            "Qwen/Qwen2-7B-Instruct only. Name it so, or choose mode: deployment",
            also_reads=mode,
        )
    if (own.certificate_arn is None) != (own.certificate_domain is None):
        given, missing = (
            ("certificate_arn", "certificate_domain")
            if own.certificate_domain is None
            else ("certificate_domain", "certificate_arn")
        )
        yield Problem(
            path=(*path, "operator", missing),
            code="operator-certificate-pair",
            message=f"{given} is given without it, and the operator takes both or neither; add it",
            also_reads=((*path, "operator", given), *mode),
        )
    if own.certificate_arn is not None and own.certificate_output is not None:
        yield Problem(
            path=(*path, "operator", "certificate_output"),
            code="operator-certificate-output",
            message="the operator makes no certificate where you bring one (certificate_arn), so "
            "it leaves none anywhere; leave one of the two out",
            also_reads=((*path, "operator", "certificate_arn"), *mode),
        )


def _not_from_the_hub(index: int, model: ModelConfig) -> Iterator[Problem]:
    """Refuse what only a download from Hugging Face reads."""
    where = {"s3": "prefix", "claim": "path"}[model.weights.kind]
    reads = (("models", index, "weights"),)
    if model.revision is not None:
        yield Problem(
            path=("models", index, "revision"),
            code="unread",
            message=f"nothing reads it with weights of kind {model.weights.kind}; leave it out and "
            f"name the revision in weights.{where}",
            also_reads=reads,
        )
    if model.huggingface_token_secret is not None:
        yield Problem(
            path=("models", index, "huggingface_token_secret"),
            code="unread",
            message=f"nothing is downloaded with weights of kind {model.weights.kind}; leave it "
            "out, so that no pod holds a token it does not need",
            also_reads=reads,
        )


def _tenants(config: ServingConfig) -> Iterator[Problem]:
    owners: dict[str, int] = {}
    for index, model in enumerate(config.models):
        path: ConfigPath = ("models", index, "tenancy", "tenants")
        yield from _twice(model.tenants, path, "", "tenant")
        for place, tenant in enumerate(model.tenants):
            if tenant.startswith(RESERVED_TENANT_PREFIX):
                yield Problem(
                    path=(*path, place),
                    code="reserved-tenant",
                    message=f"{tenant!r} begins with {RESERVED_TENANT_PREFIX}, which is kept for "
                    "tenants of Kascade's own; choose another name",
                )
            yield from _combined_name(model, index, place)
        for name in (model.name, *(f"{model.name}-{tenant}" for tenant in model.tenants)):
            other = owners.setdefault(name, index)
            # A model name that stands twice has a sentence of its own already.
            if config.models[other].name != model.name:
                yield Problem(
                    path=path if model.tenants else ("models", index, "name"),
                    code="same-object-name",
                    message=f"{name!r} would name objects of both models[{other}] and "
                    f"models[{index}]; rename one of the models or the tenant",
                    also_reads=(("models", other),),
                )


def _combined_name(model: ModelConfig, index: int, place: int) -> Iterator[Problem]:
    """Refuse a model and a tenant whose names make no name together."""
    path: ConfigPath = ("models", index, "tenancy", "tenants", place)
    tenant, reads = model.tenants[place], (("models", index, "name"),)
    name = f"{model.name}-{tenant}"
    if len(name) > MAX_MODEL_NAME:
        yield Problem(
            path=path,
            code="tenant-name-too-long",
            message=f"{name!r} has {len(name)} characters; objects are named after model and "
            f"tenant together, so use at most {MAX_MODEL_NAME}",
            also_reads=reads,
        )
    if name.endswith(_RESERVED_MODEL_ENDINGS) or name in _RESERVED_MODEL_NAMES:
        yield Problem(
            path=path,
            code="reserved-name",
            message=f"{name!r}, of model and tenant, would collide with objects of another model; "
            f"choose a tenant that does not end with {', '.join(_RESERVED_MODEL_ENDINGS)} there",
            also_reads=reads,
        )


def _unsealed_tenants(config: ServingConfig) -> Iterator[Problem]:
    """In HyperPod's shared memory the seal is all that keeps tenants apart."""
    l2 = config.cache.l2
    if l2.kind != "managed" or l2.integrity != "none":
        return
    for index, model in enumerate(config.models):
        if model.tenancy.kind != "shared":
            yield Problem(
                path=("cache", "l2", "integrity"),
                code="tenants-unencrypted",
                message=f"got none, but {model.name} has tenants that are {model.tenancy.kind}, "
                "and every engine of a node can read all of HyperPod's shared memory; use aesgcm",
                also_reads=(("models", index, "tenancy"),),
            )
            return


def _versions(config: ServingConfig) -> Iterator[Problem]:
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


def _settings(config: ServingConfig) -> Iterator[Problem]:
    percentage = config.hyperpod.tiered_storage_percentage
    if percentage is not None and percentage < MIN_TIERED_PERCENTAGE:
        yield Problem(
            path=("hyperpod", "tiered_storage_percentage"),
            code="tiered-storage-percentage",
            message=f"got {percentage}; HyperPod takes {MIN_TIERED_PERCENTAGE} to 100. Leave the "
            "field out to switch the managed tier off",
        )
    if config.cache.l2.kind == "managed" and percentage is None:
        yield Problem(
            path=("hyperpod", "tiered_storage_percentage"),
            code="managed-l2-percentage",
            message="cache.l2 is managed, which is kept in the RAM that this field lends; give "
            f"{MIN_TIERED_PERCENTAGE} to 100, or choose another kind of L2",
            also_reads=(("cache", "l2"),),
        )
    yield from _versions(config)
    cache = config.cache
    if cache.chunk_size % cache.block_size:
        yield Problem(
            path=("cache", "chunk_size"),
            code="chunk-of-blocks",
            message=f"got {cache.chunk_size}; it must be a multiple of the block size "
            f"({cache.block_size}), or vLLM refuses to start",
            also_reads=(("cache", "block_size"),),
        )
    janitor = cache.l2.janitor if isinstance(cache.l2, CurvineConfig | DirectoryConfig) else None
    if janitor is not None and janitor.high_water - janitor.low_water < MIN_WATER_GAP - 1e-9:
        lower = round(janitor.high_water - 0.1, 3)
        # Neither may be below a tenth.
        change = f"low_water to {lower}" if lower >= 0.1 else "high_water to 0.9"  # noqa: PLR2004
        yield Problem(
            path=("cache", "l2", "janitor", "low_water"),
            code="water-marks",
            message=f"got {janitor.low_water}, which is not {MIN_WATER_GAP} or more below "
            f"high_water ({janitor.high_water}): the janitor deletes from the one down to the "
            f"other. Set cache.l2.janitor.{change}",
            also_reads=(("cache", "l2", "janitor", "high_water"),),
        )
    if config.router.strategy == "kvaware":
        yield Problem(
            path=("router", "strategy"),
            code="router-strategy",
            message="kvaware needs the address of every engine on its command line, which a "
            "Deployment cannot promise; choose prefixaware, session or roundrobin",
        )
    if config.kubernetes.kyverno != KyvernoConfig() and not any(
        model.mode == "operator" for model in config.models
    ):
        yield Problem(
            path=("kubernetes", "kyverno"),
            code="unread",
            message="nothing reads it without a model in mode operator; leave it out",
            also_reads=(("models",),),
        )
    system = config.kubernetes.system_group
    if cache.l2.kind == "curvine" and cache.l2.masters > system.count:
        most = cache.l2.masters
        higher = f" and set kubernetes.system_group.max_count to {most}"
        higher = higher if most > system.max_count else ""
        yield Problem(
            path=("cache", "l2", "masters"),
            code="masters-on-system-nodes",
            message=f"got {cache.l2.masters}, each on a system node of its own, but there are "
            f"{system.count}. Set kubernetes.system_group.count to {cache.l2.masters}{higher}",
            also_reads=(("kubernetes", "system_group", "count"),),
        )
    if system.max_count < system.count:
        yield Problem(
            path=("kubernetes", "system_group", "max_count"),
            code="system-max-count",
            message=f"got {system.max_count}, less than the "
            f"{counted(system.count, 'node')} at the start. Set "
            f"kubernetes.system_group.max_count to {system.count}",
            also_reads=(("kubernetes", "system_group", "count"),),
        )
