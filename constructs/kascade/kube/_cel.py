"""Values and JSON patches as CEL text, for policies that change pods at admission."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def cel(value: object) -> str:
    """Write a value as a CEL literal.

    Kubernetes wants the values of one map or list to be of one type; ``dyn`` says that they are
    not. Strings are JSON's, whose escapes CEL knows.

    >>> print(cel({"name": "shm", "emptyDir": {"medium": "Memory"}}))
    {"name": dyn("shm"), "emptyDir": dyn({"medium": "Memory"})}
    >>> cel(["a", "b"]), cel({"port": 80}), cel([{"a": 1, "b": True}])
    ('["a", "b"]', '{"port": 80}', '[{"a": dyn(1), "b": dyn(true)}]')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return json.dumps(value)
        case Mapping():
            written = _alike(list(value.values()))
            return (
                "{" + ", ".join(f"{cel(k)}: {v}" for k, v in zip(value, written, strict=True)) + "}"
            )
        case Sequence():
            return "[" + ", ".join(_alike(value)) + "]"
        case _:
            msg = f"CEL has no literal for {value!r}"
            raise TypeError(msg)


def _alike(values: Sequence[object]) -> list[str]:
    """Write values of one type as they are, and all of them as ``dyn`` where types differ."""
    plain = all(isinstance(v, str) for v in values) or len(values) == 1
    return [cel(v) if plain else f"dyn({cel(v)})" for v in values]


def add(path: str, value: object) -> str:
    """Write the operation that adds a value at a path, which is CEL itself."""
    return f'JSONPatch{{op: "add", path: {path}, value: {cel(value)}}}'


def unless(condition: str, *operations: str) -> str:
    """Write a list of operations that is empty when the condition holds."""
    return f"({condition} ? [] : [{', '.join(operations)}])"


def pointer(key: str) -> str:
    """Write a key as one step of a JSON pointer.

    >>> pointer("kascade.dev/engine")
    'kascade.dev~1engine'
    """
    return key.replace("~", "~0").replace("/", "~1")
