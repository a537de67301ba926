"""A likely cause, and how observations of two replicas are put beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .facts import NO_SERDE, CacheFacts, Facts
from .reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One likely cause.

    Attributes:
        kind: A short name, for tests and for people who search.
        what: What is wrong.
        writer: What was seen on the replica that computed.
        reader: What was seen on the replica that was asked.
        change: What to change.
    """

    kind: str
    what: str
    writer: str
    reader: str
    change: str


def differing(
    reading: Reading, show: Callable[[Facts], str], *, kind: str, what: str, change: str
) -> Iterator[Cause]:
    """Yield a cause where two replicas show different values of one setting."""
    if show(reading.writer) != show(reading.reader):
        yield both(reading, kind=kind, what=what, show=show, change=change)


def both(
    reading: Reading, *, kind: str, what: str, show: Callable[[Facts], str], change: str
) -> Cause:
    """Write a cause whose observations are the same question asked of both replicas."""
    return Cause(
        kind=kind,
        what=what,
        writer=show(reading.writer),
        reader=show(reading.reader),
        change=change,
    )


def of(facts: Facts, show: Callable[[CacheFacts], str]) -> str:
    """Show something of a replica's LMCache server, which may have given no answer."""
    return show(facts.cache) if facts.cache is not None else "no answer"


def key(facts: Facts, text: str) -> str:
    """Add how a replica encrypts its blocks, and where its key is."""
    if facts.cache is None or facts.cache.serde == NO_SERDE:
        return text
    return f"{text}; {facts.cache.serde} with the key in {facts.cache.key_path}"


def arrived(reading: Reading) -> str:
    """Say how much of the prompt the writer's LMCache server stored."""
    if reading.stored is None:
        return "its LMCache server told nothing"
    return f"{reading.stored.completed} of {reading.chunks} chunks stored"


def found(reading: Reading) -> str:
    """Say how much of the prompt the reader's LMCache server looked for, found and loaded."""
    if reading.fetched is None:
        return "its LMCache server told nothing"
    done = reading.fetched
    return f"{done.looked_up} chunks looked up in L2, {done.begun} found, {done.loaded} loaded"
