"""Models: names, weights, HyperPod's operator, and what they name of others."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.catalog.kubernetes import KEY_SECRET
from kascade.catalog.models import MODELS
from kascade.catalog.operator import MAX_NAME_AND_NAMESPACE, OPERATOR_REGIONS
from kascade.catalog.regions import REGIONS
from kascade.config.blocks import (
    ClaimWeights,
    DirectoryConfig,
    ModelConfig,
    OperatorConfig,
    ServingConfig,
)
from kascade.errors import ConfigPath, Problem, format_path
from kascade.rules._words import near
from kascade.rules.context import Context

RESERVED_MODEL_NAMES = frozenset(
    {"default", "default-deny", "allow-dns", "kascade-cache-keys", "kascade-janitor"}
)
"""Names of other objects in the serving namespace."""


RESERVED_MODEL_ENDINGS = (
    "-router",
    "-pods",
    "-verify",
    "-verify-ingress",
    "-gateway",
    "-janitor",
)
"""What a model's other objects add to its name."""


def model_names(context: Context) -> Iterator[Problem]:
    """Say which name would collide with that of another object."""
    config = context.config
    for index, model in enumerate(config.models):
        if model.name in RESERVED_MODEL_NAMES or model.name.endswith(RESERVED_MODEL_ENDINGS):
            yield Problem(
                path=("models", index, "name"),
                code="reserved-name",
                message=f"{model.name!r} would collide with objects of another model or a policy; "
                f"choose a name that does not end with {', '.join(RESERVED_MODEL_ENDINGS)}",
            )


def groups_of_models(context: Context) -> Iterator[Problem]:
    """Say which model has no group."""
    config = context.config
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


def models(context: Context) -> Iterator[Problem]:
    """Say which model is unknown, or lacks a token."""
    config = context.config
    for index, model in enumerate(config.models):
        facts = MODELS.get(model.model)
        if facts is None and model.config_json is None:
            yield Problem(
                path=("models", index, "model"),
                code="unknown-model",
                message=f"{model.model!r} is not in the catalog.{near(model.model, MODELS)} For "
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


def _not_from_the_hub(index: int, model: ModelConfig) -> Iterator[Problem]:
    """Reject what only a download from Hugging Face reads."""
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


def operator_managed(context: Context) -> Iterator[Problem]:
    """Errors about HyperPod's inference operator."""
    config = context.config
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
            message=f"got {model.tenancy.kind}; who asks through the operator's router has no "
            "tenant gateway that names its tenant. Leave it out or choose mode: deployment",
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


def references(context: Context) -> Iterator[Problem]:
    """Find names of others' things that cannot be meant."""
    config = context.config
    endpoints: dict[str, int] = {}
    for index, model in enumerate(config.models):
        path: ConfigPath = ("models", index)
        yield from _claim(config, model, path)
        yield from _arns(config, model, path)
        secret = model.huggingface_token_secret
        if secret is not None and secret.startswith(KEY_SECRET):
            yield Problem(
                path=(*path, "huggingface_token_secret"),
                code="token-secret-name",
                message=f"{secret!r} is a name of the keys that seal cached blocks; put the token "
                "into a Secret of another name",
            )
        endpoint = model.operator.endpoint_name if model.mode == "operator" else None
        if endpoint is not None and endpoints.setdefault(endpoint, index) != index:
            yield Problem(
                path=(*path, "operator", "endpoint_name"),
                code="duplicate-endpoint",
                message=f"{endpoint!r} is the endpoint of models[{endpoints[endpoint]}], too; give "
                "each its own",
                also_reads=(("models", endpoints[endpoint]),),
            )


def _claim(config: ServingConfig, model: ModelConfig, path: ConfigPath) -> Iterator[Problem]:
    l2, weights = config.cache.l2, model.weights
    if not isinstance(l2, DirectoryConfig) or not isinstance(weights, ClaimWeights):
        return
    if l2.claim == weights.name:
        yield Problem(
            path=(*path, "weights", "name"),
            code="claim-of-l2",
            message=f"{weights.name!r} is the claim of L2, too, so whoever mounts the "
            "weights could read every model's cached blocks; make a second claim, of the same "
            "file system if you like",
            also_reads=(("cache", "l2", "claim"),),
        )


def _arns(config: ServingConfig, model: ModelConfig, path: ConfigPath) -> Iterator[Problem]:
    named = {(*path, "operator", "certificate_arn"): model.operator.certificate_arn}
    if model.weights.kind == "s3":
        named[*path, "weights", "kms_key_arn"] = model.weights.kms_key_arn
    for place, arn in named.items():
        region = None if arn is None else arn.split(":")[3]
        if region not in {None, config.region}:
            yield Problem(
                path=place,
                code="region-of-an-arn",
                message=f"it is of {region}, and the deployment in {config.region}; "
                f"{format_path(place[-1:])} must be of the same region",
                also_reads=(("region",),),
            )


def router(context: Context) -> Iterator[Problem]:
    """Say which strategy the router cannot have."""
    config = context.config
    if config.router.strategy == "kvaware":
        yield Problem(
            path=("router", "strategy"),
            code="router-strategy",
            message="kvaware needs the address of every engine on its command line, which a "
            "Deployment cannot promise; choose prefixaware, session or roundrobin",
        )


def router_limits(context: Context) -> Iterator[Problem]:
    """Say that silence is never cut where the whole request is cut before."""
    router = context.config.router
    whole, silent = router.longest_request_seconds, router.request_timeout_seconds
    if whole is not None and whole < silent:
        yield Problem(
            path=("router", "longest_request_seconds"),
            code="shorter-than-silence",
            message=f"got {whole}, less than the {silent} s that a stream may be silent "
            f"(request_timeout_seconds), which then nothing measures; give {silent} or more, or "
            f"lower request_timeout_seconds to {whole}",
            also_reads=(("router", "request_timeout_seconds"),),
        )
