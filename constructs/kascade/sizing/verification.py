"""How the verification of sharing is sized: its prompts, its deadlines, and what may be judged."""

from __future__ import annotations

from typing import Final

from kascade.plan import EnginePlan, RouterPlan, VerifyPlan

PROMPT_TOKENS: Final = 6000
"""Long enough that computing takes visibly longer than loading: with a tiny model on two CPU cores
the second replica needed 0.1 to 0.3 of the first one's time to the first token."""

PROMPT_SHARE: Final = 0.75
"""Of the longest request, at most: the real length of a prompt is known only to the tokenizer."""

GAIN_FACTOR: Final = 2
"""A prompt of this many times the break-even length loads clearly faster than it is computed."""

TTFT_RATIO: Final = 0.8
"""Above it loading was no gain worth the name. Far above what was measured, because a replica that
also serves others is slower now and then."""

REQUEST_SECONDS: Final = 300
"""An engine that has just lost its LMCache server answered its next request after two minutes."""

STORE_SECONDS: Final = 60

DEADLINE_SECONDS: Final = 3600
"""Ends a Job that nobody watches. Not counted from the replicas: another number of them must touch
the engine and its router alone."""

KEPT_SECONDS: Final = 24 * 3600
"""A finished Job, and so its log, stays for a day."""

FEWEST_REPLICAS: Final = 2
"""One that computes and one that reads."""


def verify_plan(engine: EnginePlan, router: RouterPlan | None, *, image: str) -> VerifyPlan | None:
    """Plan the verification for one engine.

    Args:
        engine: The engine.
        router: The router in front of it, or None where it is not ours.
        image: Any image with a Python 3.

    Returns:
        None without an L2. With one replica there is nothing to prove either, but replicas come and
        go, and the objects of a deployment should not.
    """
    if engine.lmcache.l2 is None:
        return None
    even = engine.figures.break_even_tokens
    pays_from = GAIN_FACTOR * even.value if even is not None else None
    most = int(engine.max_model_len * PROMPT_SHARE)
    tokens = min(most, max(PROMPT_TOKENS, int(pays_from or 0)))
    pays = pays_from is not None and tokens >= pays_from
    return VerifyPlan(
        name=f"{engine.name}-verify",
        namespace=engine.namespace,
        engine=engine.name,
        model=engine.served_name,
        image=image,
        replicas=engine.replicas,
        chunk_size=engine.lmcache.chunk_size,
        pods_service=f"{engine.name}-pods",
        engine_port=engine.port,
        lmcache_port=engine.lmcache.http_port,
        tenant=engine.tenancy.verify_tenant if engine.tenancy is not None else None,
        control_tenant=engine.tenancy.control_tenant if engine.tenancy is not None else None,
        router=router.name if router else None,
        router_port=router.port if router else None,
        router_policy=router.policy if router else None,
        router_metrics_port=router.metrics_port if router and router.rendering else None,
        prompt_tokens=tokens,
        ttft_ratio=TTFT_RATIO if pays else None,
        ttft_reason=f"{tokens} tokens are {GAIN_FACTOR} times the break-even length or more"
        if pays
        else f"loading {tokens} tokens is no clear gain here: {engine.figures.break_even_reason}",
        request_seconds=REQUEST_SECONDS,
        store_seconds=STORE_SECONDS,
        deadline_seconds=DEADLINE_SECONDS,
        kept_seconds=KEPT_SECONDS,
    )
