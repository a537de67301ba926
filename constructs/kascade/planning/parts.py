"""Parts of a deployment planned alone: one Curvine pool, or one model with its router.

Who imports constructs has a cluster of their own and no deployment file. The few facts that a part
follows from are put where a file would have them, with everything else said to exist already, and
planned like any deployment: same arithmetic, same checks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict, Unpack

from kascade.catalog.instances import PRICE_REGION
from kascade.catalog.models import ModelFacts, facts_from_hf_config
from kascade.config.blocks import checked_cidr, name_error
from kascade.config.messages import parse
from kascade.errors import ConfigPath, InvalidConfigError, KascadeError, Problem, format_path
from kascade.plan import (
    CurvinePlan,
    CurvineVolumePlan,
    EnginePlan,
    NetworkPlan,
    RouterPlan,
    ServingPlan,
)
from kascade.planning.planner import plan_serving
from kascade.sizing.weights import short_hash

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of one HyperPod instance group, as they label themselves.

    Attributes:
        group: Name of the group.
        instance_type: HyperPod type, such as ``ml.g6e.4xlarge``, or up to 20 with the same GPUs;
            everything is sized for the smallest.
        count: Number of nodes, 0 to 1000.
        taint_keys: Keys of the group's own taints, which the pods then tolerate. Those of HyperPod
            and ``nvidia.com/gpu`` need not be named.
    """

    group: str
    instance_type: str | Sequence[str]
    count: int
    taint_keys: Sequence[str] = ()


class _Settings(TypedDict, total=False):
    images: Mapping[str, str]
    vpc_cidrs: Sequence[str]
    collector_cidrs: Sequence[str]


class PoolSettings(_Settings, total=False):
    """Keyword arguments of :func:`plan_pool` that may be left out.

    Attributes:
        name: Of the pool, at most 20 lower-case letters, digits and inner hyphens; begins the names
            of its volumes and of its directory on each node. Default: ``pool``.
        volumes: Names, by the same rule, of the directories that pods of ``client_namespace``
            mount. Default: none, so that nobody mounts the pool.
        client_namespace: Namespace of the pods that mount ``volumes``. It has to exist.
        capacity_gib_per_node: GiB that each node gives, from 10 to 90 % of its NVMe. Default: 65 %.
        reserved_gib_per_node: Part of that in GiB, 10 to 1000, which is never filled. Default: 50.
        masters: 1 or 3, each on a node outside any instance group; fixed for the life of the pool.
            Default: 1, and while it restarts every read is an error.
        ttl_hours: Age in hours, 1 to 8760, at which a file is deleted, used or not. Default: 24.
        nvme_mount: Where the nodes mount their NVMe. Default: ``/opt/dlami/nvme``; workers do not
            start where it is another.
        images: Image references by role (``curvine``, ``curvine_csi``, ``csi_provisioner``,
            ``csi_registrar``, ``jobs``). Default: the catalog's, from public registries.
        vpc_cidrs: Ranges of the VPC. The driver may reach the Kubernetes API there and in the
            private ranges of RFC 1918. Default: those alone.
        collector_cidrs: Ranges that may read metrics. Default: nobody may.
    """

    name: str
    volumes: Sequence[str]
    client_namespace: str
    capacity_gib_per_node: int
    reserved_gib_per_node: int
    masters: Literal[1, 3]
    ttl_hours: int
    nvme_mount: str


class ModelSettings(_Settings, total=False):
    """Keyword arguments of :func:`plan_model` that may be left out.

    Attributes:
        hf_config: Content of the model's Hugging Face ``config.json``. Needed for a model that the
            catalog does not know. Default: the catalog's facts.
        revision: Hugging Face commit, 40 hex digits. Default: the catalog's, or whatever ``main``
            is when a pod starts.
        huggingface_token_secret: Secret in the namespace whose key ``token`` holds a Hugging Face
            token. Default: none; gated models need it.
        tensor_parallel: GPUs of one replica, 1 to 8. Default: 1.
        max_model_len: Longest prompt plus answer in tokens, from 256. Default: the model's limit,
            or what its GPUs hold if that is less.
        kv_cache_dtype: ``fp8`` halves the bytes of each cached token. Default: ``auto``, the
            model's own type.
        quantization: ``fp8`` quantizes 16-bit weights while loading. Default: as they are.
        gpu_memory_utilization: Share of GPU memory for vLLM, above 0.1 and below 1. Default: 0.92,
            less where LMCache's own context needs more.
        max_num_seqs: Requests in one batch, 1 to 4096. Default: vLLM's for the GPU.
        max_batched_tokens: Tokens in one pass, 256 to 131072. Default: vLLM's for the GPU.
        l1_gib: RAM in GiB of one replica's L1. Default: all that nothing else of Kascade's needs on
            the node, so say it where other pods stand there.
        strategy: What picks the replica: ``prefixaware``, ``session`` or ``roundrobin``.
            Default: ``prefixaware``.
        request_timeout_seconds: Longest silence of a stream in seconds, 10 to 3600. Default: 600.
        max_payload_mib: Largest request body in MiB, 1 to 512. Default: 16.
        images: Image references by role (``engine``, ``router``). Default: the catalog's, from
            public registries.
        vpc_cidrs: Ranges of the VPC. Weights are fetched from everywhere but these and the private
            ranges of RFC 1918. Default: those alone.
        collector_cidrs: Ranges that may read metrics. Default: nobody may.
    """

    hf_config: Mapping[str, object]
    revision: str
    huggingface_token_secret: str
    tensor_parallel: int
    max_model_len: int
    kv_cache_dtype: Literal["auto", "fp8"]
    quantization: Literal["fp8"]
    gpu_memory_utilization: float
    max_num_seqs: int
    max_batched_tokens: int
    l1_gib: int
    strategy: Literal["prefixaware", "session", "roundrobin"]
    request_timeout_seconds: int
    max_payload_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """A Curvine pool, ready to be rendered.

    Attributes:
        curvine: The pool; its ``volumes`` are what pods mount.
        network: Addresses that its NetworkPolicies name.
        taint_keys: Taints that its workers tolerate.
        jobs_image: Any image with a Python 3.
    """

    curvine: CurvinePlan
    network: NetworkPlan
    taint_keys: tuple[str, ...]
    jobs_image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model's engines with their LMCache servers, and the router in front of them.

    Attributes:
        engine: The engines; ``figures`` says what each tier holds and why.
        router: The router; clients reach it at ``http://NAME.NAMESPACE:PORT``.
        network: Addresses that NetworkPolicies name.
    """

    engine: EnginePlan
    router: RouterPlan
    network: NetworkPlan


_SHARED: Final[Mapping[str, ConfigPath]] = {"images": ("images",)}
_WORDS: Final = (
    (r"(nodes\S*)\.instance_types\b", r"\1.instance_type"),
    (r"(nodes\S*)\.name\b", r"\1.group"),
    (r"(nodes\S*)\.taints\[(\d+)\]\.key\b", r"\1.taint_keys[\2]"),
    (r"models\[0\]\.instance_group\b", "nodes"),
    (r"`config_json`", "hf_config"),
)
"""What a file calls otherwise than an argument or :class:`Nodes` does."""

_NOT_IN_A_FILE: Final = ("vpc_cidrs", "collector_cidrs")

_L2: Final = ("cache", "l2")
_POOL: Final[Mapping[str, ConfigPath]] = {
    **_SHARED,
    **{
        name: (*_L2, name)
        for name in ("capacity_gib_per_node", "reserved_gib_per_node", "masters", "ttl_hours")
    },
    "name": ("name",),
    "nvme_mount": ("hyperpod", "nvme_mount"),
}
_MODEL: Final[Mapping[str, ConfigPath]] = {
    **_SHARED,
    **{
        name: ("models", 0, name)
        for name in (
            "name",
            "model",
            "replicas",
            "revision",
            "huggingface_token_secret",
            "tensor_parallel",
            "max_model_len",
            "kv_cache_dtype",
            "quantization",
            "gpu_memory_utilization",
            "max_num_seqs",
            "max_batched_tokens",
        )
    },
    "hf_config": ("models", 0, "config_json"),
    "l1_gib": ("cache", "l1", "capacity_gib"),
    **{
        name: ("router", name)
        for name in ("strategy", "request_timeout_seconds", "max_payload_mib")
    },
}
"""Where a file has what an argument says."""


def plan_pool(
    *, namespace: str, nodes: Sequence[Nodes], **settings: Unpack[PoolSettings]
) -> PoolPlan:
    """Plan one Curvine pool over the NVMe of some nodes.

    Its pods stand on these nodes and no other, so whoever mounts the pool does, too.

    Args:
        namespace: Of its pods; it must admit privileged ones.
        nodes: The instance groups that carry it, all with NVMe.
        **settings: See :class:`PoolSettings`.

    Raises:
        KascadeError: With one sentence for each argument that cannot be used.
    """
    given: dict[str, Any] = {"name": "pool", **settings}
    volumes = given.pop("volumes", ())
    clients = given.pop("client_namespace", None)
    found = _unknown(settings, PoolSettings) + _namespace_problems(namespace=namespace)
    if _is_list_of(volumes, str):
        found += [
            f"volumes: {error}" for name in volumes if (error := name_error(name)) is not None
        ]
        if len(set(volumes)) < len(volumes):
            found.append(f"volumes: {list(volumes)!r} names one twice; give each its own")
    else:
        found.append(f"volumes: got {volumes!r}; give a list of names")
    if volumes and clients is None:
        found.append("client_namespace: volumes are claimed in a namespace; name it")
    elif clients is not None:
        found += _namespace_problems(client_namespace=clients)
    network = _network(given, found)
    raw = _raw(given, _POOL, nodes, found)
    raw["cache"]["l2"] = {"kind": "curvine", **raw["cache"].get("l2", {})}
    plan = _plan(raw, found, _POOL)
    assert plan.curvine is not None  # noqa: S101 - what the mapping above asks for
    curvine = replace(plan.curvine, namespace=namespace)
    return PoolPlan(
        curvine=replace(curvine, volumes=_volumes(curvine, volumes, str(clients))),
        network=_with(network, plan),
        taint_keys=plan.platform.taint_keys,
        jobs_image=plan.jobs_image,
    )


def plan_model(
    *,
    name: str,
    namespace: str,
    model: str,
    replicas: int,
    nodes: Nodes,
    **settings: Unpack[ModelSettings],
) -> ModelPlan:
    """Plan the engines of one model, with L0 and L1, and the router in front of them.

    L2, tenants, mounted weights and HyperPod's operator touch more than one part: plan them
    together, with :func:`kascade.plan_serving`.

    Args:
        name: Of the engines' Deployment and Service, at most 32 lower-case letters, digits and
            inner hyphens. The router's is ``NAME-router``.
        namespace: Of all pods.
        model: Hugging Face id, which is also its name in the API.
        replicas: Number of engines, 1 to 1000; the nodes must have GPUs for all.
        nodes: The instance group that runs them.
        **settings: See :class:`ModelSettings`.

    Raises:
        KascadeError: With one sentence for each argument that cannot be used.
    """
    given: dict[str, Any] = {**settings, "name": name, "model": model, "replicas": replicas}
    found = _unknown(settings, ModelSettings) + _namespace_problems(namespace=namespace)
    network = _network(given, found)
    local: dict[str, ModelFacts] = {}
    if (content := given.get("hf_config")) is not None:
        given["hf_config"] = "config.json"
        try:
            if not isinstance(content, Mapping):
                msg = f"got {content!r}; give what json.load makes of the model's config.json"
                raise ValueError(msg)
            local[name] = facts_from_hf_config(model, content)
        except ValueError as error:
            found.append(f"hf_config: {error}")
    raw = _raw(given, _MODEL, (nodes,), found)
    raw["name"] = "part"
    raw["cache"]["l2"] = {"kind": "none"}
    plan = _plan(raw, found, _MODEL, local_models=local)
    return ModelPlan(
        engine=replace(plan.engines[0], namespace=namespace),
        router=replace(plan.routers[0], namespace=namespace),
        network=_with(network, plan),
    )


def namespace_error(name: object) -> str | None:
    """Say why a name cannot be a namespace's, or None.

    >>> namespace_error("team-a")
    >>> print(namespace_error("Team"))
    'Team' cannot name a namespace; give at most 63 lower-case letters, digits and inner hyphens
    """
    if isinstance(name, str) and _NAMESPACE.fullmatch(name):
        return None
    return (
        f"{name!r} cannot name a namespace; give at most 63 lower-case letters, digits and inner "
        "hyphens"
    )


def _namespace_problems(**names: object) -> list[str]:
    return [
        f"{argument}: {error}"
        for argument, name in names.items()
        if (error := namespace_error(name)) is not None
    ]


def _is_list_of(value: object, kind: type) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(item, kind) for item in value)
    )


def _unknown(given: Mapping[str, object], settings: type) -> list[str]:
    """Find arguments that do not exist; Python itself takes any for ``**settings``."""
    names = sorted(settings.__annotations__)
    found = []
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f". Did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            found.append(f"{name}: there is no such argument{hint}")
    return found


def _network(given: dict[str, Any], found: list[str]) -> dict[str, tuple[str, ...]]:
    """Take the ranges out of the arguments, checked."""
    ranges = {}
    for argument in _NOT_IN_A_FILE:
        value = given.pop(argument, ())
        if not _is_list_of(value, str):
            found.append(f"{argument}: got {value!r}; give a list such as ['10.0.0.0/16']")
            continue
        for cidr in value:
            try:
                checked_cidr(cidr)
            except ValueError as error:
                found.append(f"{argument}: {error}")
        ranges[argument] = tuple(value)
    return ranges


def _with(ranges: Mapping[str, tuple[str, ...]], plan: ServingPlan) -> NetworkPlan:
    """Put the given ranges in place of those that only fill the plan's file."""
    existing = plan.network.existing
    assert existing is not None  # noqa: S101 - what every mapping here says
    first, *rest = ranges["vpc_cidrs"] or ("10.0.0.0/16",)
    return replace(
        plan.network,
        vpc_cidr=first,
        zones=(),
        private_cidrs=(),
        collector_cidrs=ranges["collector_cidrs"],
        existing=replace(existing, vpc_id="", private_subnet_ids=(), further_cidrs=tuple(rest)),
    )


def _raw(
    given: Mapping[str, object],
    known: Mapping[str, ConfigPath],
    nodes: Sequence[Nodes],
    found: list[str],
) -> dict[object, Any]:
    """Write a file in which everything but the part exists already."""
    if not nodes or not _is_list_of(nodes, Nodes):
        one = "Nodes(group=..., instance_type=..., count=...)"
        wanted = one if known is _MODEL else f"a list of {one}"
        found.append(f"nodes: got {nodes!r}; give {wanted}")
        raise KascadeError("\n".join(found))
    raw: dict[object, Any] = {
        "region": PRICE_REGION,
        "zones": [f"{PRICE_REGION}a", f"{PRICE_REGION}b"],
        "instance_groups": [_group(group) for group in nodes],
        "models": [{}],
        "cache": {"l1": {}},
        "router": {},
        "observability": {"enabled": False},
        "network": {
            "vpc_cidr": "10.0.0.0/16",
            "existing": {
                "vpc_id": "vpc-00000000",
                "private_subnets": [
                    {"id": "subnet-00000000", "cidr": "10.0.0.0/16"},
                    {"id": "subnet-00000001", "cidr": "10.1.0.0/16"},
                ],
                "further_cidrs": ["10.1.0.0/16"],
            },
        },
        "kubernetes": {
            "existing": {"name": "existing", "security_group_id": "sg-00000000"},
            "system_group": {"count": 3},
        },
        "hyperpod": {
            "existing": {
                "cluster_arn": f"arn:aws:sagemaker:{PRICE_REGION}:{'0' * 12}:cluster/{'0' * 12}"
            },
        },
    }
    for argument, value in given.items():
        if argument in known:
            *outer, last = known[argument]
            place: Any = raw
            for step in outer:
                place = place[step] if isinstance(step, int) else place.setdefault(step, {})
            place[last] = value
    return raw


def _group(nodes: Nodes) -> dict[str, object]:
    field = "instance_types" if _is_list_of(nodes.instance_type, str) else "instance_type"
    keys = nodes.taint_keys if _is_list_of(nodes.taint_keys, str) else [nodes.taint_keys]
    return {
        "name": nodes.group,
        field: nodes.instance_type,
        "count": nodes.count,
        "taints": [{"key": key} for key in keys],
    }


def _plan(
    raw: Mapping[object, Any],
    found: list[str],
    known: Mapping[str, ConfigPath],
    *,
    local_models: Mapping[str, ModelFacts] | None = None,
) -> ServingPlan:
    """Plan the file, or raise with every problem in the words of the arguments."""
    alone = known is _POOL
    # A file needs a model; a pool does not.
    models = [{"name": "none", "model": "Qwen/Qwen2-7B-Instruct", "replicas": 1}]
    parsed = parse({**raw, "models": models} if alone else raw)
    problems: tuple[Problem, ...] = parsed.problems
    plan = None
    if not problems and parsed.config is not None:
        config = parsed.config.model_copy(update={"models": ()}) if alone else parsed.config
        try:
            plan = plan_serving(config, local_models=local_models)
        except InvalidConfigError as error:
            problems = error.problems
    found = [*found, *(_in_words_of(str(problem), known) for problem in problems)]
    if found or plan is None:
        raise KascadeError("\n".join(found))
    return plan


def _in_words_of(text: str, known: Mapping[str, ConfigPath]) -> str:
    """Put arguments in place of a file's paths, in what a problem says."""
    for argument, path in known.items():
        text = re.sub(rf"{re.escape(format_path(path))}(?![\w.])", argument, text)
    text = re.sub(r"instance_groups\[(\d+)\]", "nodes" if known is _MODEL else r"nodes[\1]", text)
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def _volumes(
    curvine: CurvinePlan, names: Sequence[str], namespace: str
) -> tuple[CurvineVolumePlan, ...]:
    # Kubernetes changes no attribute of a volume that exists, so another attribute is another name.
    fixed = (curvine.namespace, curvine.masters, curvine.ttl_hours, curvine.client_timeout_ms)
    return tuple(
        CurvineVolumePlan(
            name=f"kv-{name}-{short_hash(f'/{name} {fixed} {curvine.block_size_mib}')}",
            curvine_path=f"/{name}",
            claim_namespace=namespace,
        )
        for name in names
    )
