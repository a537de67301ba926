"""Tenants: their names, and what keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.config.blocks import (
    MAX_MODEL_NAME,
    ModelConfig,
)
from kascade.errors import ConfigPath, Problem
from kascade.rules._words import duplicates
from kascade.rules.context import Context
from kascade.rules.models import RESERVED_MODEL_ENDINGS, RESERVED_MODEL_NAMES

RESERVED_TENANT_PREFIX = "kascade-"
"""Begins the names of tenants of our own, such as the one that `kascade verify` asks as."""


def tenants(context: Context) -> Iterator[Problem]:
    """Say which tenant's name cannot be."""
    config = context.config
    owners: dict[str, int] = {}
    for index, model in enumerate(config.models):
        path: ConfigPath = ("models", index, "tenancy", "tenants")
        yield from duplicates(model.tenants, path, "", "tenant")
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
            # A model name that is duplicated has a sentence of its own already.
            if config.models[other].name != model.name:
                yield Problem(
                    path=path if model.tenants else ("models", index, "name"),
                    code="same-object-name",
                    message=f"{name!r} would name objects of both models[{other}] and "
                    f"models[{index}]; rename one of the models or the tenant",
                    also_reads=(("models", other),),
                )


def _combined_name(model: ModelConfig, index: int, place: int) -> Iterator[Problem]:
    """Reject a model and a tenant whose names make no name together."""
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
    if name.endswith(RESERVED_MODEL_ENDINGS) or name in RESERVED_MODEL_NAMES:
        yield Problem(
            path=path,
            code="reserved-name",
            message=f"{name!r}, of model and tenant, would collide with objects of another model; "
            f"choose a tenant that does not end with {', '.join(RESERVED_MODEL_ENDINGS)} there",
            also_reads=reads,
        )


def unencrypted_tenants(context: Context) -> Iterator[Problem]:
    """In HyperPod's shared memory the seal is all that keeps tenants apart."""
    config = context.config
    l2 = config.cache.l2
    if l2.kind != "managed" or l2.encryption != "none":
        return
    for index, model in enumerate(config.models):
        if model.tenancy.kind != "shared":
            yield Problem(
                path=("cache", "l2", "encryption"),
                code="tenants-unencrypted",
                message=f"got none, but {model.name} has tenants that are {model.tenancy.kind}, "
                "and every engine of a node can read all of HyperPod's shared memory; use aesgcm",
                also_reads=(("models", index, "tenancy"),),
            )
            return
