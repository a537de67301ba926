"""Where one engine's replicas, their caches and their router answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .client import split_server

_NEEDED: Final = ("engine", "model", "chunk_size", "replicas")
_URLS: Final = ("router_url", "router_metrics_url")
_OPTIONAL: Final = (*_URLS, "cache_directory", "tenant", "control_tenant")
_OF_A_REPLICA: Final = ("name", "engine_url", "lmcache_url")
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod of an engine.

    Attributes:
        name: The pod's name.
        engine_url: vLLM's API and metrics, without a path.
        lmcache_url: The LMCache server's HTTP port, without a path.
    """

    name: str
    engine_url: str
    lmcache_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One engine as a client meets it.

    Attributes:
        engine: Name of the engine in the plan.
        model: What a request calls the model.
        chunk_size: Tokens of one cached chunk, as planned.
        replicas: In the order of their names.
        router_url: The router's API, without a path.
        router_metrics_url: Where the router's metrics are, or None where they are out of reach.
        cache_directory: L2 as this program can list it, or None where it cannot.
        tenant: As whom requests are sent, where the engine keeps tenants apart.
        control_tenant: Another tenant, which must find nothing of what the first one stored.
    """

    engine: str
    model: str
    chunk_size: int
    replicas: tuple[Replica, ...]
    router_url: str | None = None
    router_metrics_url: str | None = None
    cache_directory: str | None = None
    tenant: str | None = None
    control_tenant: str | None = None

    def to_json(self) -> str:
        """Write it so that ``from_json`` reads it back.

        >>> target = Target(engine="a", model="m", chunk_size=256, replicas=())
        >>> Target.from_json(target.to_json()) == target
        True
        """
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Target:
        """Read what ``to_json`` wrote.

        Raises:
            ValueError: The text is no such description; the message names every error.
        """
        try:
            fields = json.loads(text)
        except RecursionError:
            msg = "it is nested too deeply; it has to be one JSON object"
            raise ValueError(msg) from None
        except ValueError as error:
            msg = f"it is no JSON ({error}); it has to be one JSON object"
            raise ValueError(msg) from None
        if not isinstance(fields, dict):
            msg = f"it is {_shown(fields)}; it has to be one JSON object"
            raise ValueError(msg)
        mistakes = [*_mistakes(fields)]
        if mistakes:
            msg = f"it does not describe a running engine: {'; '.join(mistakes)}"
            raise ValueError(msg)
        replicas = tuple(Replica(**replica) for replica in fields.pop("replicas"))
        return cls(**fields, replicas=replicas)

    @classmethod
    def read(cls, path: Path) -> Target:
        """Read a file of that form; see ``from_json``."""
        return cls.from_json(path.read_text())


def _mistakes(fields: dict[str, Any]) -> Iterator[str]:
    yield from _names(fields, _NEEDED, _OPTIONAL, "")
    for name in ("engine", "model"):
        if name in fields and not _is_text(fields[name]):
            yield f"{name} is {_shown(fields[name])} and has to be a text that is not empty"
    size = fields.get("chunk_size", 1)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        yield f"chunk_size is {_shown(size)} and has to be a whole number from 1"
    for name in _OPTIONAL:
        value = fields.get(name)
        if value is not None and not _is_text(value):
            yield f"{name} is {_shown(value)} and has to be a text that is not empty, or null"
        elif value is not None and name in _URLS:
            yield from _address(name, value)
    replicas = fields.get("replicas", [])
    if isinstance(replicas, list):
        yield from _of_replicas(replicas)
    else:
        yield f"replicas is {_shown(replicas)} and has to be a list of objects"


def _of_replicas(replicas: list[Any]) -> Iterator[str]:
    names: dict[str, str] = {}
    urls: dict[str, str] = {}
    for index, replica in enumerate(replicas):
        where = f"replicas[{index}]"
        if not isinstance(replica, dict):
            yield f"{where} is {_shown(replica)} and has to be an object"
            continue
        yield from _names(replica, _OF_A_REPLICA, (), f"{where}.")
        for field in _OF_A_REPLICA:
            if field not in replica:
                continue
            name, value = f"{where}.{field}", replica[field]
            if not _is_text(value):
                yield f"{name} is {_shown(value)} and has to be a text that is not empty"
                continue
            if field != "name":
                yield from _address(name, value)
            known = names if field == "name" else urls
            other = known.setdefault(value.rstrip("/"), name)
            if other != name:
                yield f"{name} is {_shown(value)} like {other}; give each its own"


def _names(
    fields: dict[str, Any], needed: tuple[str, ...], optional: tuple[str, ...], where: str
) -> Iterator[str]:
    for name in needed:
        if name not in fields:
            yield f"{where}{name} is missing; add it"
    for name in fields:
        if name not in {*needed, *optional}:
            allowed = ", ".join([*needed, *optional])
            yield f"{_shown(f'{where}{name}')} is no field; remove it or use one of {allowed}"


def _address(name: str, url: str) -> Iterator[str]:
    try:
        split_server(url)
        if any(mark in url for mark in "?#@"):
            msg = "write it without a query, a fragment and a user"
            raise ValueError(msg)
    except ValueError as error:
        yield f"{name} is {_shown(url)}, no address of a server: {error}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _shown(value: object) -> str:
    """Write a value as JSON does, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
