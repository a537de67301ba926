"""Where one engine's replicas, their caches and their router answer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


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
    """

    engine: str
    model: str
    chunk_size: int
    replicas: tuple[Replica, ...]
    router_url: str | None = None
    router_metrics_url: str | None = None
    cache_directory: str | None = None

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
            ValueError: The text is no such description; the message says why.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            replicas = tuple(Replica(**replica) for replica in fields.pop("replicas"))
            return cls(**fields, replicas=replicas)
        except (TypeError, KeyError, AttributeError) as error:
            msg = f"it does not describe a running engine: {error}"
            raise ValueError(msg) from None

    @classmethod
    def read(cls, path: Path) -> Target:
        """Read a file of that form; see ``from_json``."""
        return cls.from_json(path.read_text())
