"""What an argument is, and what it should be: a sentence instead of a traceback of jsii."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aws_cdk as cdk

from kascade.errors import KascadeError

_MAX_SHOWN: Final = 60
_LIST_TOKEN: Final = "#{Token["  # noqa: S105 - how the CDK writes a list that it does not know yet
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Kind:
    """What an argument may be.

    Attributes:
        advice: What a sentence says is to be given instead.
        holds: Whether a value is of the kind.
        takes_tokens: Whether a value that only CloudFormation knows will do.
        each: What every member is, where it is a list or a mapping.
    """

    advice: str
    holds: Callable[[Any], bool]
    takes_tokens: bool = False
    each: Kind | None = None


def is_token(value: object) -> bool:
    """Whether only CloudFormation, or the end of the synth, knows the value."""
    if isinstance(value, str):
        return value.startswith(_LIST_TOKEN) or cdk.Token.is_unresolved(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.isfinite(value) and cdk.Token.is_unresolved(value)
    return _has(value, "resolve") and _has(value, "creation_stack")


def is_list_token(value: str) -> bool:
    """Whether it is no member of a list but a list whose length the CDK does not know."""
    return value.startswith(_LIST_TOKEN)


def shown(value: object) -> str:
    """Write a value as a person would know it again, on one line."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)[:_MAX_SHOWN]
    if isinstance(value, list | tuple | dict | set | frozenset):
        simple = all(isinstance(member, int | float | str) for member in value)
        return repr(value)[:_MAX_SHOWN] if simple else f"a {type(value).__name__}"
    return f"an object of type {type(value).__name__}"


def _has(value: object, name: str) -> bool:
    try:
        return hasattr(value, name)
    except RuntimeError:  # jsii's: the property is there, and rejects
        return True


def an(kinds: type | tuple[type, ...], advice: str) -> Kind:
    """An instance of a class."""
    return Kind(f"give {advice}", lambda value: isinstance(value, kinds))


def having(advice: str, *names: str) -> Kind:
    """What has these properties: an interface of the CDK, which Python cannot ask for."""
    return Kind(
        f"give {advice}",
        lambda value: not isinstance(value, str | type) and all(_has(value, n) for n in names),
    )


def one_of(*values: str | int) -> Kind:
    """One of a few values, not what merely equals one, as True equals 1."""
    known = {(type(value), value) for value in values}
    return Kind(
        f"allowed: {' or '.join(map(repr, values))}",
        lambda value: isinstance(value, str | int) and (type(value), value) in known,
    )


def optional(kind: Kind) -> Kind:
    """Of a kind, or None."""
    return dataclasses.replace(kind, holds=lambda value: value is None or kind.holds(value))


def listed(kind: Kind, advice: str) -> Kind:
    """A list or a tuple: a string would fall into letters, and a set has no order."""
    return Kind(f"give {advice}", lambda value: isinstance(value, list | tuple), each=kind)


def mapped(kind: Kind, advice: str) -> Kind:
    """A mapping."""
    return Kind(f"give {advice}", lambda value: isinstance(value, Mapping), each=kind)


WHOLE: Final = Kind(
    "give a whole number such as 2",
    lambda value: isinstance(value, int) and not isinstance(value, bool),
)
WORD: Final = Kind("give a string", lambda value: isinstance(value, str))
TEXT: Final = dataclasses.replace(WORD, takes_tokens=True)


def wrong(what: str, value: Any, kind: Kind) -> list[str]:
    """Say what is wrong with an argument: with its kind, or with that of each of its members."""
    if is_token(value) and not (kind.takes_tokens and kind.holds(value)):
        known_later = "is a token, whose value only CloudFormation knows, and is checked at synth"
        return [f"{what} {known_later}; {kind.advice}, such as one of the app's context"]
    if not kind.holds(value):
        return [f"{what} is {shown(value)}; {kind.advice}"]
    if kind.each is None or value is None:
        return []
    members = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [
        text for place, member in members for text in wrong(f"{what}[{place!r}]", member, kind.each)
    ]


def sift(
    values: Mapping[str, Any],
    kinds: Mapping[str, Kind],
    neutral: Mapping[str, Any],
    place: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """Part what is of its kind from what is not.

    Args:
        values: By name.
        kinds: What each of them should be.
        neutral: What stands in for a wrong one, so that the checks of the others go on.
        place: Stands before a name in a sentence.

    Returns:
        The values, of which each is of its kind, and a sentence for each that was not.
    """
    sound = dict(values)
    found: list[str] = []
    for name, kind in kinds.items():
        texts = wrong(f"{place}{name}", values[name], kind)
        found += texts
        if texts:
            sound[name] = _members(values[name], kind, neutral.get(name))
    return sound, found


def _members(value: Any, kind: Kind, neutral: Any) -> Any:
    """The members that are right, or what stands in where there are none to be asked."""
    each = kind.each
    if each is None or is_token(value) or not kind.holds(value):
        return neutral
    if isinstance(value, Mapping):
        return {name: member for name, member in value.items() if not wrong("", member, each)}
    return [member for member in value if not wrong("", member, each)]


def sift_fields(
    thing: _Value, kinds: Mapping[str, Kind], neutral: Mapping[str, Any], place: str = ""
) -> tuple[_Value, list[str]]:
    """Do the same with the fields of a value; a field's default stands in unless one is given."""
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(thing):  # type: ignore[arg-type]
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    values = {name: getattr(thing, name) for name in kinds}
    sound, found = sift(values, kinds, {**defaults, **neutral}, place)
    # What nothing was wrong with stays the thing itself.
    return (dataclasses.replace(thing, **sound) if found else thing), found  # type: ignore[type-var]


def repeated(values: Sequence[_Value]) -> Collection[_Value]:
    """What stands more than once, in order, each once."""
    return [value for value in dict.fromkeys(values) if values.count(value) > 1]


def refuse(where: str, found: Sequence[str]) -> None:
    """Raise everything that was found at once.

    Raises:
        KascadeError: Something was found.
    """
    if found:
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        raise KascadeError("\n".join([f"{where}: {count}", *(f"  {text}" for text in found)]))
