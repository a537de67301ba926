"""What a configuration names of others: claims, keys, certificates, endpoints, Secrets."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.config.blocks import ClaimWeights, DirectoryConfig, ModelConfig, ServingConfig
from kascade.errors import ConfigPath, Problem, format_path

KEY_SECRET = "kv-cache-key"  # noqa: S105  (the Secret's name, not its content)
"""Made in the cluster; an isolated tenant's has the engine's name behind it."""


def check_references(config: ServingConfig) -> Iterator[Problem]:
    """Find names of others' things that cannot be meant.

    Args:
        config: A configuration whose fields are valid one by one.
    """
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
