"""What is asked: requests with their prompts as blocks and the moments they arrive.

Nothing here knows a tokenizer or a clock. A workload follows from its settings alone, so two runs
with equal settings ask for the same lengths at the same moments.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kascade.bench.text import Block

SYNTHETIC: Final = ("shared-prefix", "multi-turn", "rag")
TRACE: Final = "trace"
NAMES: Final = (*SYNTHETIC, TRACE)
ARRIVALS: Final = ("poisson", "constant")
"""A trace brings its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One request as it is meant.

    Attributes:
        session: Requests of one session follow each other; a lone request is its own session.
        turn: Place in its session, from 0.
        at_seconds: Arrival after the start of the load, of a session's first request.
        pause_seconds: Time after the previous answer, of all its others.
        blocks: The prompt.
        output_tokens: How many tokens to answer with.
    """

    session: str
    turn: int
    at_seconds: float | None
    pause_seconds: float | None
    blocks: tuple[Block, ...]
    output_tokens: int

    @property
    def input_tokens(self) -> int:
        """Wanted length of the prompt."""
        return sum(block.tokens for block in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All requests of a run, sessions in the order of their arrival.

    Attributes:
        notes: What was cut or left out, for the report.
    """

    name: str
    requests: tuple[Planned, ...]
    notes: tuple[str, ...] = ()

    def digest(self) -> str:
        """Name what is asked and when; equal for runs that can be compared."""
        rows = [
            [r.session, r.turn, r.at_seconds, r.pause_seconds, r.output_tokens]
            + [[b.key, b.tokens] for b in r.blocks]
            for r in self.requests
        ]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]

    def longest(self, count: int) -> tuple[Planned, ...]:
        """Return the request with the longest prompt of each of the longest sessions."""
        best: dict[str, Planned] = {}
        for request in self.requests:
            known = best.get(request.session)
            if known is None or request.input_tokens > known.input_tokens:
                best[request.session] = request
        ranked = sorted(best.values(), key=lambda r: (-r.input_tokens, r.session))
        return tuple(ranked[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """BenchSettings of the workloads that are made up here.

    Attributes:
        requests: How many in all.
        groups: Shared beginnings in use: system prompts or documents.
        turns: Turns of a conversation.
        prefix_tokens: Length of a shared beginning: a system prompt or a document.
        question_tokens: Length of what is new in each request.
        output_tokens: Length of each answer.
        pause_seconds: A person's time between an answer and the next question.
        rate: Arrivals a second, of requests or of conversations.
        arrivals: ``poisson`` or ``constant``.
        seed: Of arrivals, choices and texts.
    """

    requests: int
    groups: int
    turns: int
    prefix_tokens: int
    question_tokens: int
    output_tokens: int
    pause_seconds: float
    rate: float
    arrivals: str
    seed: int


def make(name: str, shape: Shape) -> Workload:
    """Return the synthetic workload of that name.

    * ``shared-prefix``: every request begins with one of ``groups`` system prompts.
    * ``rag``: likewise with documents, but a popular one is asked about more often (1/rank).
    * ``multi-turn``: conversations of ``turns`` turns; each repeats all that was said before. The
      answers in a prompt are made up beforehand, so that every run sends the same text.
    """
    if name == "multi-turn":
        return Workload(name=name, requests=_conversations(shape))
    draw = random.Random(f"{shape.seed}/{name}")  # noqa: S311  (a workload, not secrets)
    weights = [1 / rank if name == "rag" else 1 for rank in range(1, shape.groups + 1)]
    moments = arrivals(shape.arrivals, shape.rate, shape.requests, shape.seed)
    requests = []
    for number, moment in enumerate(moments):
        (group,) = draw.choices(range(shape.groups), weights)
        prefix = Block(key=f"{name}/{group}", tokens=shape.prefix_tokens)
        question = Block(key=f"{name}/question/{number}", tokens=shape.question_tokens)
        requests.append(
            Planned(
                session=f"r{number:05d}",
                turn=0,
                at_seconds=moment,
                pause_seconds=None,
                blocks=(prefix, question),
                output_tokens=shape.output_tokens,
            )
        )
    return Workload(name=name, requests=tuple(requests))


def _conversations(shape: Shape) -> tuple[Planned, ...]:
    count = -(-shape.requests // shape.turns)
    requests: list[Planned] = []
    for number, moment in enumerate(arrivals(shape.arrivals, shape.rate, count, shape.seed)):
        said = [Block(key=f"system/{number % shape.groups}", tokens=shape.prefix_tokens)]
        for turn in range(min(shape.turns, shape.requests - len(requests))):
            said.append(Block(key=f"talk/{number}/{turn}/question", tokens=shape.question_tokens))
            requests.append(
                Planned(
                    session=f"c{number:05d}",
                    turn=turn,
                    at_seconds=None if turn else moment,
                    pause_seconds=shape.pause_seconds if turn else None,
                    blocks=tuple(said),
                    output_tokens=shape.output_tokens,
                )
            )
            said.append(Block(key=f"talk/{number}/{turn}/answer", tokens=shape.output_tokens))
    return tuple(requests)


def arrivals(kind: str, rate: float, count: int, seed: int) -> Sequence[float]:
    """Return when each of ``count`` arrivals happens, in seconds; the first at once.

    >>> arrivals("constant", 2.0, 3, seed=0)
    [0.0, 0.5, 1.0]
    >>> arrivals("poisson", 2.0, 3, seed=0) == arrivals("poisson", 2.0, 3, seed=0)
    True
    """
    if kind == "constant":
        return [number / rate for number in range(count)]
    draw = random.Random(f"{seed}/arrivals")  # noqa: S311
    moments = [0.0]
    while len(moments) < count:
        moments.append(moments[-1] + draw.expovariate(rate))
    # To the microsecond, so that JSON and digest do not hang on the last bit.
    return [round(moment, 6) for moment in moments[:count]]
