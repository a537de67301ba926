"""The system under test: what it is, what it counted, and how to make a tier let go."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kascade.bench import client
from kascade.bench.client import UnreachableError
from kascade.bench.pages import Counters, L0Size, Stores, counters, l0_size, stores
from kascade.bench.text import Block, TextSource
from kascade.programs.verify.target import Replica, Target

_SETTLE_SECONDS: Final = 60.0
_REST_SECONDS: Final = 10.0
_SAMPLE_TOKENS: Final = 2000
_FILL_MARGIN: Final = 1.1
"""L0 frees in the order of use; a tenth more than it holds passes over all of it."""

_BELOW_CHUNK: Final = 0.95
"""Filling prompts stay this far below a chunk, since their length is an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A target that was asked what it is.

    Attributes:
        versions: Of vLLM and LMCache, as they say.
        max_model_len: As the engine serves the model.
        characters_per_token: Of the made-up text.
        l0: vLLM's own cache, or None where it does not say.
        fields: Further fields of every request's body.
    """

    target: Target
    versions: Mapping[str, str]
    max_model_len: int
    characters_per_token: float
    l0: L0Size | None
    fields: Mapping[str, Any]

    @property
    def urls(self) -> tuple[str, ...]:
        """Where the load goes: the router, or all replicas in turn where there is none."""
        if self.target.router_url is not None:
            return (self.target.router_url,)
        return tuple(replica.engine_url for replica in self.target.replicas)

    def payload(self, prompt: str, output_tokens: int) -> dict[str, Any]:
        """Return the body of a request."""
        return {
            "model": self.target.model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.fields,
        }

    def counted(self) -> dict[str, Counters]:
        """Read every replica's counters.

        Raises:
            UnreachableError: A page could not be had.
        """
        return {
            replica.name: counters(
                client.fetch(f"{replica.engine_url}/metrics"),
                client.fetch(f"{replica.lmcache_url}/metrics"),
            )
            for replica in self.target.replicas
        }

    def counted_at_rest(self) -> dict[str, Counters]:
        """Read every replica's counters once they stand still; LMCache counts a little later.

        Raises:
            UnreachableError: A page could not be had.
        """
        last = self.counted()
        for _ in client.until(_REST_SECONDS, every_seconds=0.5):
            now = self.counted()
            if now == last:
                break
            last = now
        return last

    def settle(self, replica: Replica) -> bool:
        """Wait until what a replica computed is stored in L1 and L2; say whether it came to that.

        Engines hand over their blocks after the answer, so two equal readings in a row count.
        """
        before: Stores | None = None
        for _ in client.until(_SETTLE_SECONDS, every_seconds=1.0):
            now = stores(client.fetch(f"{replica.lmcache_url}/metrics"))
            if now == before and now.settled:
                return True
            before = now
        return False

    def empty_l0(
        self, replica: Replica, source: TextSource, at_once: int, timeout_seconds: float
    ) -> str:
        """Make a replica's L0 let go of everything while L1 and L2 keep it; say how.

        Raises:
            UnreachableError: It cannot be done; the message says why.
        """
        if client.is_offered(f"{replica.engine_url}/reset_prefix_cache"):
            return "L0 emptied by POST /reset_prefix_cache"
        chunk = self.target.chunk_size
        if self.l0 is None:
            msg = "the engine has no POST /reset_prefix_cache and does not say how large its L0 is"
            raise UnreachableError(msg)
        length = math.floor(chunk * _BELOW_CHUNK / self.l0.block_size) * self.l0.block_size
        if not length:
            msg = (
                f"the engine has no POST /reset_prefix_cache, and a prompt that fills a block of "
                f"{self.l0.block_size} tokens would enter L1 as well (chunks of {chunk})"
            )
            raise UnreachableError(msg)
        # Below one chunk, a prompt takes blocks of L0 but never enters LMCache, whatever its size.
        count = math.ceil(_FILL_MARGIN * self.l0.tokens / length)
        prompts = (source.write(Block(key=f"fill/{i}", tokens=length)) for i in range(count))
        client.complete_all(
            replica.engine_url,
            [self.payload(prompt, 1) for prompt in prompts],
            at_once=at_once,
            timeout_seconds=timeout_seconds,
            tenant=self.target.tenant,
        )
        return f"L0 filled with {count:,} other prompts of {length} tokens, too short for L1"


def find_system(
    target: Target, fields: Mapping[str, Any], report: Callable[[str], None]
) -> System | None:
    """Ask a target what it is; report every part that does not answer as it should.

    Returns:
        The system, or None where anything was reported.
    """
    problems = list(_unreachable(target))
    for problem in problems:
        report(problem)
    if problems:
        return None
    first = target.replicas[0]
    try:
        length = _model_length(target)
        sample = TextSource(seed=0, salt="", characters_per_token=1.0).write(
            Block(key="sample", tokens=_SAMPLE_TOKENS)
        )
        question = {"model": target.model, "prompt": sample, "add_special_tokens": False}
        count = int(client.fetch_json(f"{first.engine_url}/tokenize", question)["count"])
        return System(
            target=target,
            versions={
                "lmcache": _version(f"{first.lmcache_url}/version"),
                "vllm": _version(f"{first.engine_url}/version"),
            },
            max_model_len=length,
            characters_per_token=round(len(sample) / count, 6),
            l0=l0_size(client.fetch(f"{first.engine_url}/metrics")),
            fields=fields,
        )
    except UnreachableError as error:
        report(str(error))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        report(f"{first.engine_url}/tokenize did not count the tokens of a text")
    return None


def _unreachable(target: Target) -> Iterator[str]:
    pages = [f"{replica.engine_url}/health" for replica in target.replicas]
    pages += [f"{replica.engine_url}/metrics" for replica in target.replicas]
    pages += [f"{replica.lmcache_url}/metrics" for replica in target.replicas]
    if target.router_url is not None:
        pages.append(f"{target.router_url}/v1/models")
    for page in pages:
        try:
            client.fetch(page)
        except UnreachableError as error:
            yield str(error)


def _model_length(target: Target) -> int:
    found: list[str] = []
    for model in client.fetch_json(f"{target.replicas[0].engine_url}/v1/models").get("data", []):
        found.append(str(model.get("id")))
        if model.get("id") == target.model and isinstance(model.get("max_model_len"), int):
            return int(model["max_model_len"])
    msg = (
        f"{target.replicas[0].engine_url} serves {', '.join(found) or 'nothing'}, not "
        f"{target.model}: name in the target what requests call the model"
    )
    raise UnreachableError(msg)


def _version(url: str) -> str:
    """LMCache answers a string, vLLM an object."""
    try:
        answer = json.loads(client.fetch(url))
    except (UnreachableError, ValueError):
        return "unknown"
    found = answer.get("version") if isinstance(answer, dict) else answer
    return found if isinstance(found, str) and found else "unknown"
