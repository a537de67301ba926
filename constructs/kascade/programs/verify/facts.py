"""What one replica says about itself: the settings that two replicas have to agree in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .client import UnreachableError, get_json, get_object, get_text
from .metrics import parse
from .target import Replica

NO_SERDE: Final = "none"

_SERDE: Final = re.compile(r"type='([^']*)'(?:.*?'aes_bits': (\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What vLLM says.

    Attributes:
        version: Of vLLM.
        root: The model as ``vllm serve`` was given it; it stands in every cache key.
        max_model_len: Longest request in tokens.
        cache_dtype: Type of the KV cache, ``auto`` for the model's own.
    """

    version: str
    root: str
    max_model_len: int
    cache_dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFacts:
    """What the LMCache server beside it says.

    Attributes:
        version: Of LMCache.
        instance: The name it was started with, in a cluster its pod's.
        healthy: What it thinks of itself.
        engines: vLLM workers that are registered with it.
        expected: How many there should be, or 0 where the server does not say.
        chunk_size: Tokens of one chunk.
        hash_algorithm: Names the chunks.
        hash_seed: PYTHONHASHSEED of the process, or an empty text.
        adapter: Type of the first L2 adapter, or an empty text where there is none.
        base_path: Directory of L2.
        tmp_dir: Its own directory for unfinished files, below the base path.
        serde: How blocks are encrypted, such as ``aesgcm/256``, or ``none``.
        key_path: File with the key, or an empty text.
        world_size: Ranks of the registered engine, or 0 where none is.
    """

    version: str
    instance: str
    healthy: bool
    engines: int
    expected: int
    chunk_size: int
    hash_algorithm: str
    hash_seed: str
    adapter: str
    base_path: str
    tmp_dir: str
    serde: str
    key_path: str
    world_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One replica; ``cache`` is None where its LMCache server gave no answer, for ``problem``."""

    name: str
    engine: EngineFacts
    cache: CacheFacts | None
    problem: str = ""


def observe(replica: Replica, model: str) -> Facts:
    """Ask one replica for everything that the diagnosis may need.

    Args:
        replica: Where it answers.
        model: What a request calls the model.

    Raises:
        UnreachableError: The engine gives no answer or does not serve the model.
    """
    engine = _engine(replica.engine_url, model)
    try:
        cache = _cache(replica.lmcache_url)
    except UnreachableError as error:
        return Facts(name=replica.name, engine=engine, cache=None, problem=str(error))
    return Facts(name=replica.name, engine=engine, cache=cache)


def _engine(url: str, model: str) -> EngineFacts:
    cards = get_object(f"{url}/v1/models").get("data")
    served = {
        str(card.get("id")): card
        for card in (cards if isinstance(cards, list) else [])
        if isinstance(card, dict)
    }
    if model not in served:
        names = ", ".join(sorted(served)) or "no model at all"
        msg = f"{url} serves {names}, not {model}; name the model as its requests do"
        raise UnreachableError(msg)
    card = served[model]
    page = parse(get_text(f"{url}/metrics"))
    longest = card.get("max_model_len") or 0
    if not isinstance(longest, int):
        msg = f"{url}/v1/models answered max_model_len {str(longest)[:80]!r}, which is no number"
        raise UnreachableError(msg)
    return EngineFacts(
        version=str(get_object(f"{url}/version").get("version", "unknown")),
        root=str(card.get("root") or model),
        max_model_len=longest,
        cache_dtype=page.label("vllm:cache_config_info", "cache_dtype") or "unknown",
    )


def _cache(url: str) -> CacheFacts:
    status = get_object(f"{url}/status")
    config = get_object(f"{url}/config")
    environment = _optional(f"{url}/env")
    version = str(get_json(f"{url}/version"))
    try:
        return read_cache(status, config, version=version, environment=environment)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        msg = f"{url} answered /status or /config of another form than LMCache's: {error}"
        raise UnreachableError(msg) from None


def read_cache(
    status: Mapping[str, Any],
    config: Mapping[str, Any],
    *,
    version: str,
    environment: Mapping[str, Any],
) -> CacheFacts:
    """Pick what counts out of an LMCache server's pages ``/status``, ``/config`` and ``/env``."""
    storage = config.get("storage_manager") or {}
    adapters = (storage.get("l2_adapter_config") or {}).get("adapters") or []
    running = (status.get("storage_manager") or {}).get("l2_adapters") or []
    adapter: Mapping[str, Any] = adapters[0] if adapters else {}
    serde, key_path = _serde(str(adapter.get("serde_config") or ""))
    # CUDA engines stand in the one, CPU engines in the other.
    engines = [
        *(status.get("cache_context_meta") or {}).values(),
        *(status.get("non_cuda_context_meta") or {}).values(),
    ]
    return CacheFacts(
        version=version,
        instance=str((config.get("mp") or {}).get("instance_id") or ""),
        healthy=bool(status.get("is_healthy")),
        engines=len(engines),
        expected=int((status.get("kascade_cache") or {}).get("expected_workers") or 0),
        chunk_size=int(status.get("chunk_size") or 0),
        hash_algorithm=str(status.get("hash_algorithm") or ""),
        hash_seed=str(environment.get("PYTHONHASHSEED", "")),
        adapter=str(running[0].get("type") or "") if running else "",
        base_path=str(adapter.get("base_path") or ""),
        tmp_dir=str(adapter.get("relative_tmp_dir") or ""),
        serde=serde,
        key_path=key_path,
        world_size=max((int(engine.get("world_size") or 0) for engine in engines), default=0),
    )


def _serde(written: str) -> tuple[str, str]:
    """Read a serde out of its representation, the only form in which LMCache 0.5.6 shows it.

    >>> _serde("SerdeConfig(type='aesgcm', kwargs={'master_key_path': '/k', 'aes_bits': 256})")
    ('aesgcm/256', '/k')
    >>> _serde("None")
    ('none', '')
    """
    match = _SERDE.search(written)
    if match is None:
        return NO_SERDE, ""
    kind, bits = match.groups()
    path = re.search(r"'master_key_path': '([^']*)'", written)
    return f"{kind}/{bits}" if bits else kind, path.group(1) if path else ""


def _optional(url: str) -> Mapping[str, Any]:
    try:
        return get_object(url)
    except UnreachableError:
        return {}
