"""Ids of constructs that are made of somebody else's names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def distinct_ids(prefix: str, names: Mapping[str, str]) -> dict[str, str]:
    """Give each thing an id that no other one of them has.

    A thing whose name no other takes has ``prefix-name``, whatever else is there. Of those with one
    name it is the thing that sorts first; each later one has a hash of itself behind. So the order
    of a configuration says nothing, and a further thing moves another's id only where it has that
    one's name and sorts before it.

    Args:
        prefix: How all the ids begin.
        names: What each thing, such as an ARN, is called; two may be called the same.

    >>> distinct_ids("Key", {"b": "x/y", "c": "z", "a": "x/y"})
    {'b': 'Key-x/y-3e23e816', 'c': 'Key-z', 'a': 'Key-x/y'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for thing in sorted(names):
        name = f"{prefix}-{names[thing]}"
        # The CDK writes an id's slashes so, and compares what it wrote.
        if name.replace("/", "--") in taken:
            name += f"-{hashlib.sha256(thing.encode()).hexdigest()[:8]}"
        taken.add(name.replace("/", "--"))
        found[thing] = name
    return {thing: found[thing] for thing in names}
