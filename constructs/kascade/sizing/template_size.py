"""How large the template of the serving stack becomes, before anything is rendered.

The parts were measured on rendered manifests and are rounded up by some 5 %; the unit tests hold
their sum against the rendering. Synth works out the real size and has the last word.
"""

from __future__ import annotations

from typing import Final

from kascade.config.blocks import CurvineConfig, DirectoryConfig, ModelConfig, ServingConfig
from kascade.errors import Problem
from kascade.units import counted

MOST_BYTES: Final = 800_000
"""CloudFormation takes 1,000,000; the CDK warns at 80 % of that, and a synth takes no warning."""

_BESIDE: Final = 10_000
_PROOF_PROGRAM: Final = 152_000
_JANITOR_PROGRAM: Final = 88_000
_CURVINE: Final = 98_000
_CURVINE_GROUP: Final = 11_000
_ADMISSION: Final = 5_000
"""Once a deployment, or a further instance group: the texts of programs, the pool."""

_ENGINE: Final = 27_000
_ROUTER: Final = 18_000
_OPERATED: Final = 36_000
_PROOF: Final = 17_000
_MOUNT: Final = 4_500
_JANITOR: Final = 7_200
_TENANCY: Final = 18_000
_GATEWAY: Final = 16_300
"""Once an engine, or a tenant gateway of a salted tenant."""


def shared_bytes(config: ServingConfig) -> int:
    """Return what stands in the template whatever the number of engines."""
    l2 = config.cache.l2
    janitor = isinstance(l2, CurvineConfig | DirectoryConfig) and l2.janitor.enabled
    total = _BESIDE
    total += _PROOF_PROGRAM if l2.kind != "none" else 0
    total += _JANITOR_PROGRAM if janitor else 0
    if l2.kind == "curvine":
        total += _CURVINE + _CURVINE_GROUP * (len(config.instance_groups) - 1)
    total += _ADMISSION if any(model.mode == "operator" for model in config.models) else 0
    return total


def engine_bytes(config: ServingConfig, model: ModelConfig) -> int:
    """Return what one engine of a model adds; an isolated tenant has one of its own."""
    l2, kind = config.cache.l2, model.tenancy.kind
    own = l2 if isinstance(l2, CurvineConfig | DirectoryConfig) else None
    total = _OPERATED if model.mode == "operator" else _ENGINE + _ROUTER
    total += _PROOF if l2.kind != "none" else 0
    total += _MOUNT if own else 0
    total += _JANITOR if own and own.janitor.enabled else 0
    total += _TENANCY if kind != "shared" else 0
    total += _GATEWAY * len(model.tenants) if kind == "salted" else 0
    return total


def template_bytes(config: ServingConfig) -> int:
    """Return about how large the serving stack's template becomes."""
    engines = [m for model in config.models for m in [model] * len(model.engine_names)]
    return shared_bytes(config) + sum(engine_bytes(config, model) for model in engines)


def check_template(config: ServingConfig) -> Problem | None:
    """Reject more engines than one template holds, with the number that fits."""
    if (total := template_bytes(config)) <= MOST_BYTES:
        return None
    each = [engine_bytes(config, model) for model in config.models for _ in model.engine_names]
    room, fitting = MOST_BYTES - shared_bytes(config), 0
    for size in each:
        room -= size
        fitting += room >= 0
    tenant_gateways = any(model.tenancy.kind == "salted" for model in config.models)
    return Problem(
        path=("models",),
        message=f"{counted(len(each), 'engine')} (one a model, and one for each isolated tenant) "
        f"make a template of about {total:,} bytes"
        f"{', tenant gateways included' if tenant_gateways else ''}"
        f"; a synth allows {MOST_BYTES:,}. The first {fitting} fit; spread the others over further "
        "deployments",
        also_reads=(("cache", "l2"), ("instance_groups",)),
    )
