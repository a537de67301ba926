"""From pydantic's errors to sentences, and on past them, so that one run shows every error."""

from __future__ import annotations

import copy
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from kascade.config.blocks import ServingConfig
from kascade.errors import ConfigPath, Problem

_MAX_ROUNDS: Final = 8
_MAX_SHOWN: Final = 60
_MAX_ERRORS: Final = 200
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
}
_CODES: Final = {
    "extra_forbidden": "unknown-field",
    "missing": "missing-field",
    "literal_error": "not-allowed",
    "union_tag_invalid": "not-allowed",
    "union_tag_not_found": "missing-kind",
    "too_short": "too-few",
    "too_long": "too-many",
}
"""Names of errors by pydantic's type of error; the others are of the wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedConfig:
    """A raw mapping as a configuration, as far as it goes (see ``LoadedConfig``)."""

    config: ServingConfig | None
    problems: tuple[Problem, ...]
    broken: tuple[ConfigPath, ...]
    origins: Mapping[ConfigPath, tuple[int, ...]]


class _Tracked(list[Any]):
    """A list that remembers where its items stood."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self.origin = list(range(len(items)))

    def drop(self, index: int) -> None:
        del self[index]
        del self.origin[index]


def parse(raw: Mapping[object, object]) -> ParsedConfig:
    """Validate a raw mapping; where it is broken, cut the broken parts out and go on.

    The cut-down configuration serves only to find further errors in the same run.
    """
    try:
        return ParsedConfig(
            config=ServingConfig.model_validate(raw), problems=(), broken=(), origins={}
        )
    except ValidationError as error:
        errors = error.errors()
    data = _track(copy.deepcopy(dict(raw)))
    if len(errors) > _MAX_ERRORS:
        shown = tuple(_problem(data, details) for details in errors[:_MAX_ERRORS])
        rest = f"and {len(errors) - _MAX_ERRORS:,} more errors; is this a deployment file at all?"
        more = Problem(path=(), code="too-many-problems", message=rest)
        return ParsedConfig(config=None, problems=(*shown, more), broken=(), origins={})
    errors = [details for details in errors if not _is_echo(data, details)]
    problems = tuple(_problem(data, details) for details in errors)
    broken: list[ConfigPath] = []
    for _ in range(_MAX_ROUNDS):
        if not _cut(data, errors, broken):
            break
        try:
            config = ServingConfig.model_validate(data)
        except ValidationError as error:
            errors = [details for details in error.errors() if not _is_echo(data, details)]
            continue
        return ParsedConfig(
            config=config, problems=problems, broken=tuple(broken), origins=_origins(data, ())
        )
    return ParsedConfig(config=None, problems=problems, broken=tuple(broken), origins={})


def _track(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _track(item) for key, item in value.items()}
    if isinstance(value, list):
        return _Tracked([_track(item) for item in value])
    return value


def _origins(value: Any, path: ConfigPath) -> dict[ConfigPath, tuple[int, ...]]:
    found: dict[ConfigPath, tuple[int, ...]] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            found |= _origins(item, (*path, str(key)))
    elif isinstance(value, _Tracked):
        if value.origin != list(range(len(value))):
            found[path] = tuple(value.origin)
        for origin, item in zip(value.origin, value, strict=True):
            found |= _origins(item, (*path, origin))
    return found


def _data_path(data: Any, location: tuple[int | str, ...]) -> ConfigPath:
    """Pydantic's location without the steps that are not in the data (names of union members)."""
    path: list[int | str] = []
    here = data
    for position, step in enumerate(location):
        if isinstance(here, dict):
            if step in here:
                here = here[step]
            elif position < len(location) - 1 or step == here.get("kind"):
                continue
            else:
                here = None
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            continue
        path.append(step)
    return tuple(path)


def _original(data: Any, path: ConfigPath) -> ConfigPath:
    steps: list[int | str] = []
    here = data
    for step in path:
        tracked = isinstance(here, _Tracked) and isinstance(step, int)
        steps.append(here.origin[step] if tracked else step)
        here = _step(here, step)
    return tuple(steps)


def _step(here: Any, step: int | str) -> Any:
    if isinstance(here, dict):
        return here.get(step)
    if isinstance(here, list) and isinstance(step, int) and step < len(here):
        return here[step]
    return None


def _get(data: Any, path: ConfigPath) -> Any:
    for step in path:
        data = _step(data, step)
    return data


def _cut(data: Any, errors: list[ErrorDetails], broken: list[ConfigPath]) -> bool:
    """Take out what the errors name; return whether anything changed.

    A broken field that is required gets its example, so that the rest of its block can still be
    looked at; a broken optional field gets its default, and a broken item leaves its list.
    """
    targets: dict[ConfigPath, FieldInfo | None] = {}
    for details in errors:
        path = _data_path(data, details["loc"])
        # Unknown fields harm nothing else; all other repairs may have consequences.
        if details["type"] != "extra_forbidden":
            broken.append(_original(data, path))
        targets[path] = _field(data, path)
    changed = False
    for path in sorted(targets, key=_backwards, reverse=True):
        if not path:
            return False
        owner, step, field = _get(data, path[:-1]), path[-1], targets[path]
        if isinstance(owner, dict) and field is not None and field.is_required():
            owner[step] = _track(example_of(field))
            changed = True
        elif isinstance(owner, dict) and step in owner:
            del owner[step]
            changed = True
        elif isinstance(owner, _Tracked) and isinstance(step, int) and step < len(owner):
            owner.drop(step)
            changed = True
    return changed


def example_of(field: FieldInfo) -> Any:
    """A value that a required field takes: its example, or a block of its own fields' examples."""
    if field.examples:
        return copy.deepcopy(field.examples[0])
    block = _choose(next(iter(get_args(field.annotation)), field.annotation), None)
    item = {
        name: example_of(inner) for name, inner in block.model_fields.items() if inner.is_required()
    }
    return [item] if get_origin(field.annotation) is tuple else item


def _backwards(path: ConfigPath) -> tuple[tuple[int, int | str], ...]:
    return tuple((0, step) if isinstance(step, int) else (1, step) for step in path)


def _problem(data: Any, details: ErrorDetails) -> Problem:
    path = _data_path(data, details["loc"])
    return Problem(path=path, code=_code(details), message=_sentence(data, path, details))


def _code(details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "value_error":
        return str(getattr(details["ctx"]["error"], "code", "wrong-value"))
    if kind in _BOUNDS:
        return "out-of-range"
    return _CODES.get(kind, "wrong-type")


def _is_echo(data: Any, details: ErrorDetails) -> bool:
    """Whether a list is called too short only because its items are broken themselves."""
    if details["type"] != "too_short":
        return False
    given = _get(data, _data_path(data, details["loc"]))
    # Pydantic counts the items that are sound.
    sound = details.get("ctx", {}).get("actual_length", 0)
    return isinstance(given, list) and len(given) > sound


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _sentence(data: Any, path: ConfigPath, details: ErrorDetails) -> str:  # noqa: C901, PLR0911, PLR0912
    kind, given = details["type"], details["input"]
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_field(data, path)
    if kind == "missing":
        return f"this field is required: {_description(data, path)}"
    if kind == "value_error":
        return str(context["error"])
    if kind in {"literal_error", "union_tag_invalid"}:
        if kind == "union_tag_invalid":
            return f"got kind {context['tag']!r}; allowed: {context['expected_tags']}"
        got = "nothing" if given is None else _shown(given)
        return f"got {got}; allowed: {context['expected']}"
    if kind == "union_tag_not_found":
        allowed = ", ".join(repr(known) for known in _kinds(path))
        return f"this block must begin with `kind:`; allowed: {allowed}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"got {_shown(given)}; it must be {words} {context[key]}. {_description(data, path)}"
    if kind == "too_short":
        return (
            f"got {context['actual_length']}; at least {context['min_length']} are needed. "
            f"{_description(data, path)}"
        )
    if kind == "too_long":
        return (
            f"got {context['actual_length']}; at most {context['max_length']} are allowed, so take "
            "some out"
        )
    if kind.startswith("int_"):
        return f"must be a whole number, got {_shown(given)}{_kind_of(given)}"
    if kind.startswith("float_") or kind == "finite_number":
        return f"must be a number, got {_shown(given)}{_kind_of(given)}"
    if kind.startswith("bool_"):
        return f"must be true or false, got {_shown(given)}{_kind_of(given)}"
    if kind.startswith("string_"):
        hint = ""
        if isinstance(given, (int, float)):
            hint = "; put it in quotes, YAML reads it as a number or a switch otherwise"
        return f"must be text, got {_shown(given)}{_kind_of(given)}{hint}"
    if kind in {"tuple_type", "list_type"}:
        return f"must be a list (lines that begin with `- `), got {_shown(given)}{_kind_of(given)}"
    if kind.startswith(("model_", "dict_", "dataclass_")):
        wanted = "must be a block of `field: value` lines"
        kinds = _kinds(path)
        if kinds:
            wanted += f" with `kind:` {' or '.join(kinds)}"
        return f"{wanted}, got {_shown(given)}{_kind_of(given)}"
    return f"{details['msg']}, got {_shown(given)}"


def _kind_of(value: Any) -> str:
    names = {
        str: " (text)",
        int: " (a number)",
        float: " (a number)",
        bool: " (a switch)",
        type(None): " (nothing)",
    }
    if isinstance(value, Mapping):
        return " (a block)"
    if isinstance(value, (list, tuple)):
        return " (a list)"
    return names.get(type(value), "")


def _unknown_field(data: Any, path: ConfigPath) -> str:
    block = _block_type(data, path[:-1])
    allowed = list(block.model_fields) if block is not None else []
    near = difflib.get_close_matches(str(path[-1]), allowed, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no such field here.{hint} Allowed: {', '.join(allowed)}"


def _description(data: Any, path: ConfigPath) -> str:
    field = _field(data, path)
    return (field.description or "") if field is not None else ""


def _kinds(path: ConfigPath) -> list[str]:
    """The kinds of an either/or block."""
    field = _field({}, path)
    members = _members(field.annotation) if field is not None else []
    blocks = [m for m in members if "kind" in getattr(m, "model_fields", {})]
    return [str(block.model_fields["kind"].default) for block in blocks]


def _members(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in {Union, types.UnionType}:
        return [m for m in get_args(annotation) if m is not type(None)]
    return [annotation]


def _field(data: Any, path: ConfigPath) -> FieldInfo | None:
    owner = _block_type(data, path[:-1]) if path else None
    if owner is None or not isinstance(path[-1], str):
        return None
    return owner.model_fields.get(path[-1])


def _block_type(data: Any, path: ConfigPath) -> type[BaseModel] | None:
    """The block class that stands at a path."""
    here: Any = ServingConfig
    value = data
    for step in path:
        value = _step(value, step)
        if isinstance(step, int):
            here = next((arg for arg in get_args(here) if arg is not Ellipsis), None)
        elif isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(step)
            here = field.annotation if field is not None else None
        else:
            return None
        here = _choose(here, value)
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _choose(annotation: Any, value: Any) -> Any:
    """The member of a union that the value means, by its ``kind``."""
    members = _members(annotation)
    if len(members) > 1:
        kind = value.get("kind") if isinstance(value, dict) else None
        for member in members:
            field = getattr(member, "model_fields", {}).get("kind")
            if field is not None and kind in typing.get_args(field.annotation):
                return member
    return members[0]
