"""Who is kept apart, and by what: salts, tenant gateways, places of the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kascade.config.blocks import ModelConfig
from kascade.errors import Problem
from kascade.plan import ContainerSize, EnginePlan, RouterPlan, TenancyPlan, TenantGatewayPlan

CLIENT_LABEL: Final = "kascade.dev/client"
"""``true`` on a pod of the serving namespace, or on a namespace, admits it to the routers of models
that all share."""

TENANT_LABEL_PREFIX: Final = "tenant.kascade.dev/"
"""Before a tenant's name, and likewise ``true``, it admits as that tenant. One label for each and
not one with the name as value, because a gateway may speak for several."""

TENANT_HEADER: Final = "x-kascade-tenant"
"""Set by tenant gateways and by nobody else: only they and the verification may reach a salted
model's router."""

VERIFY_TENANT: Final = "kascade-verifier"
"""As this one, `kascade verify` stores and reads. No gateway and no configuration sets it."""

CONTROL_TENANT: Final = "kascade-control"
"""As this one, it must find nothing of that."""

GATEWAY_POSTS: Final = ("/v1/completions", "/v1/chat/completions")
"""What vllm-router 0.1.17 hands on with its headers. It drops those of every other path, such as
/v1/responses and /v1/messages, so an engine would not know whose request it has (measured)."""

GATEWAY_GETS: Final = ("/v1/models",)

GATEWAY_PORT: Final = 8000
GATEWAY_REPLICAS: Final = 2
"""It keeps no state, and a node may be away."""

GATEWAY_CPU_MILLICORES: Final = 50
GATEWAY_MIB: Final = 64
GATEWAY_LIMIT_MIB: Final = 256
"""It passes bodies and answers on in pieces, so it holds little of them."""

GATEWAY_PATIENCE_SECONDS: Final = 10
"""By which a tenant gateway outwaits its router."""

SPARE_BODY_MIB: Final = 1
"""The router writes defaults into a body, so an engine gets a little more than the client sent."""


def tenancy_of(model: ModelConfig, *, tenant: str | None, payload_mib: int) -> TenancyPlan | None:
    """Plan how one model's engines tell tenants apart.

    Args:
        model: The model.
        tenant: The one whose engines these are, where each has its own.
        payload_mib: Longest body that the router takes.

    Returns:
        None where everybody shares everything.
    """
    if tenant is None and not model.tenants:
        return None
    alone = tenant is not None
    return TenancyPlan(
        tenants=model.tenants if tenant is None else (tenant,),
        header=None if alone else TENANT_HEADER,
        verify_tenant=None if alone else VERIFY_TENANT,
        control_tenant=None if alone else CONTROL_TENANT,
        largest_body_mib=payload_mib + SPARE_BODY_MIB,
    )


def client_label(tenancy: TenancyPlan | None) -> str | None:
    """Name the label that admits a client to a router; None where only gateways are admitted."""
    if tenancy is None:
        return CLIENT_LABEL
    if tenancy.tenant_gateways:
        return None
    (tenant,) = tenancy.tenants
    return f"{TENANT_LABEL_PREFIX}{tenant}"


def gateways_of(
    router: RouterPlan, *, image: str, silence_seconds: int
) -> tuple[TenantGatewayPlan, ...]:
    """Plan the tenant gateways of one router: one for each tenant that comes through one."""
    tenancy = router.tenancy
    if tenancy is None or tenancy.header is None:
        return ()
    return tuple(
        TenantGatewayPlan(
            name=f"{router.engine}-{tenant}-gateway",
            namespace=router.namespace,
            tenant=tenant,
            client_label=f"{TENANT_LABEL_PREFIX}{tenant}",
            engine=router.engine,
            image=image,
            router=router.name,
            router_port=router.port,
            header=tenancy.header,
            posts=GATEWAY_POSTS,
            gets=GATEWAY_GETS,
            port=GATEWAY_PORT,
            replicas=GATEWAY_REPLICAS,
            size=ContainerSize(
                cpu_millicores=GATEWAY_CPU_MILLICORES,
                memory_mib=GATEWAY_MIB,
                memory_limit_mib=GATEWAY_LIMIT_MIB,
            ),
            request_timeout_seconds=router.request_timeout_seconds + GATEWAY_PATIENCE_SECONDS,
            silence_seconds=silence_seconds,
            max_payload_mib=router.max_payload_mib,
        )
        for tenant in tenancy.tenants
    )


def shared_places(engines: Sequence[EnginePlan]) -> Iterator[Problem]:
    """Find engines that would read each other's blocks; names rule it out, and this makes sure.

    Two engines must differ in volume, directory and bucket, and an isolated one also in its key.
    """
    for what in ("volume", "directory", "bucket", "key_secret"):
        owners: dict[str, EnginePlan] = {}
        for engine in engines:
            place = getattr(engine.lmcache.l2, what, None)
            if place is None:
                continue
            other = owners.setdefault(place, engine)
            # All who share may share a key.
            harmless = what == "key_secret" and not (_alone(engine) or _alone(other))
            if other is not engine and not harmless:
                yield Problem(
                    path=("models",),
                    message=f"{other.name} and {engine.name} would share the {what} {place} of "
                    "L2; give one of the models or tenants another name",
                )


def _alone(engine: EnginePlan) -> bool:
    return engine.tenancy is not None and not engine.tenancy.tenant_gateways
