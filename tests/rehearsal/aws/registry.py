"""CloudFormation's registry schemas, as cfn-lint carries them, and what they say about a resource.

Runs in the emulator's interpreter. AWS rejects what a schema rejects before it calls a service, so
the rehearsal does the same for every type of our templates, whoever plays the service.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError, best_match

Properties = Mapping[str, Any]
Pointer = tuple[str, ...]

MOST_FAULTS = 5
LONGEST_FAULT = 300


class RegistryError(Exception):
    """A type that no schema describes, or one whose schema cannot be read."""


class ResourceSchema:
    """The schema of one type.

    Attributes:
        type_name: Such as ``AWS::EKS::Addon``.
        create_only: Properties that cannot change during a resource's life.
        read_only: Properties that only the service sets.
    """

    def __init__(self, type_name: str, document: Mapping[str, Any]) -> None:
        self.type_name = type_name
        self._document = document
        self.create_only = [_pointer(text) for text in document.get("createOnlyProperties", ())]
        self.read_only = [_pointer(text) for text in document.get("readOnlyProperties", ())]

    @cached_property
    def _validator(self) -> Any:
        body = {key: value for key, value in self._document.items() if key in _SCHEMA_PARTS}
        return _Validator({"type": "object", **_in_python(body)})

    def faults(self, properties: Properties) -> list[str]:
        """Say what AWS would reject, the first few in a stable order; nothing if all is well."""
        read_only = [
            f"{'/'.join(found)}: is read-only"
            for pointer in self.read_only
            for found in _present(properties, pointer)
        ]
        # Of alternatives, none of which fits, the one that comes closest is worth naming.
        found = (best_match([error]) for error in self._validator.iter_errors(properties))
        errors: list[ValidationError] = sorted(
            found, key=lambda error: [str(part) for part in error.absolute_path]
        )
        said = [
            f"{'/'.join(str(part) for part in e.absolute_path) or 'properties'}: {e.message}"
            for e in errors
        ]
        return [fault[:LONGEST_FAULT] for fault in [*read_only, *said][:MOST_FAULTS]]

    def replacing(self, old: Properties, new: Properties) -> list[str]:
        """Name the createOnly properties that differ, each of which makes another resource."""
        return sorted(
            "/".join(pointer)
            for pointer in self.create_only
            if list(_values(old, pointer)) != list(_values(new, pointer))
        )

    def has(self, name: str) -> bool:
        """Say whether the type has such a property, which `Fn::GetAtt` could then ask for."""
        return name in self._document["properties"]

    def own_identity(self, properties: Properties) -> Pointer | None:
        """Return the values that make a resource unique, where the template gives them all."""
        candidates = [self._document.get("primaryIdentifier", ())]
        candidates += self._document.get("additionalIdentifiers", ())
        for candidate in candidates:
            values = [value for text in candidate for value in _values(properties, _pointer(text))]
            if values and len(values) == len(candidate):
                return tuple(str(value) for value in values)
        return None


class Registry:
    """All schemas of one region."""

    def __init__(self, folder: Path, region: str) -> None:
        """Open cfn-lint's ``data/schemas`` folder."""
        self._folder = folder
        self._region = region
        self._index = json.loads((folder / "providers" / f"{region}.json").read_text())
        self._schemas: dict[str, ResourceSchema] = {}

    def schema(self, type_name: str) -> ResourceSchema:
        """Return a type's schema.

        Raises:
            RegistryError: The region has no such type.
        """
        if type_name not in self._index:
            message = f"The registry of {self._region} has no type {type_name}."
            raise RegistryError(message)
        if type_name not in self._schemas:
            file = self._folder / "resources" / f"{self._index[type_name]}.json"
            self._schemas[type_name] = ResourceSchema(type_name, json.loads(file.read_text()))
        return self._schemas[type_name]


def _in_python(node: Any) -> Any:
    r"""Write patterns as Python does: `re` lacks Unicode's classes, ``\p{L}`` and the like.

    The nearest class is somewhat wider, so such a pattern may pass what AWS rejects.
    """
    if isinstance(node, list):
        return [_in_python(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    written = {key: _in_python(value) for key, value in node.items()}
    if isinstance(pattern := written.get("pattern"), str):
        written["pattern"] = _without_classes(pattern)
    if "patternProperties" in written:
        written["patternProperties"] = {
            _without_classes(key): value for key, value in written["patternProperties"].items()
        }
    return written


def _without_classes(pattern: str) -> str:
    nearest = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s"}
    for theirs, ours in nearest.items():
        pattern = pattern.replace(theirs, ours)
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"The pattern {pattern} has no form in Python yet ({error}); see registry.py."
        raise RegistryError(message) from None
    return pattern


def _pointer(text: str) -> Pointer:
    return tuple(text.removeprefix("/properties/").split("/"))


def _present(node: Any, pointer: Pointer, trail: Pointer = ()) -> Iterator[Pointer]:
    """Find the places that a pointer, whose ``*`` stands for any element, leads to."""
    if not pointer:
        yield trail
    elif pointer[0] == "*" and isinstance(node, list):
        for index, item in enumerate(node):
            yield from _present(item, pointer[1:], (*trail, str(index)))
    elif isinstance(node, Mapping) and pointer[0] in node:
        yield from _present(node[pointer[0]], pointer[1:], (*trail, pointer[0]))


def _values(node: Any, pointer: Pointer) -> Iterator[Any]:
    for place in _present(node, pointer):
        value = node
        for step in place:
            value = value[int(step)] if isinstance(value, list) else value[step]
        yield value


# cfn-lint's schemas say four things that JSON Schema has no word for.


def _exactly_one(_: Any, names: list[str], item: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(item, dict) and len(names_in(names, item)) != 1:
        yield ValidationError(f"needs exactly one of {names}, has {names_in(names, item)}")


def _at_least_one(_: Any, names: list[str], item: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(item, dict) and not names_in(names, item):
        yield ValidationError(f"needs one of {names}")


def _not_together(
    _: Any, rules: Mapping[str, list[str]], item: Any, __: Any
) -> Iterator[ValidationError]:
    if isinstance(item, dict):
        for name, others in rules.items():
            if name in item and (found := names_in(others, item)):
                yield ValidationError(f"{name} cannot stand beside {found}")


def _enum_in_any_case(_: Any, allowed: list[Any], item: Any, __: Any) -> Iterator[ValidationError]:
    if str(item).lower() not in {str(value).lower() for value in allowed}:
        yield ValidationError(f"{item!r} is not one of {allowed}")


def _pattern(_: Any, pattern: str, item: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(item, str) and not re.search(pattern, item):
        yield ValidationError(f"{item!r} does not match {pattern!r}")


def _enum(_: Any, allowed: list[Any], item: Any, __: Any) -> Iterator[ValidationError]:
    if str(item) not in {str(value) for value in allowed}:
        yield ValidationError(f"{item!r} is not one of {allowed}")


def names_in(names: list[str], item: Mapping[str, Any]) -> list[str]:
    """Return those of the names that the mapping has."""
    return [name for name in names if name in item]


def _is_integer(_: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | str) and re.fullmatch(r"-?\d+", str(value)) is not None


def _is_boolean(_: Any, value: Any) -> bool:
    return isinstance(value, bool) or str(value).lower() in {"true", "false"}


def _is_string(_: Any, value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _is_number(_: Any, value: Any) -> bool:
    return _is_integer(_, value) or isinstance(value, float)


_KEYWORDS: dict[str, Callable[..., Any]] = {
    "dependentExcluded": _not_together,
    "enumCaseInsensitive": _enum_in_any_case,
    "requiredOr": _at_least_one,
    "requiredXor": _exactly_one,
}


_SCHEMA_PARTS = {
    "additionalProperties",
    "allOf",
    "anyOf",
    "definitions",
    "dependentRequired",
    "oneOf",
    "patternProperties",
    "properties",
    "required",
    *_KEYWORDS,
}


def _after(convert: Callable[[Any], Any], keyword: str) -> Callable[..., Any]:
    """Let a keyword of JSON Schema see a scalar as what the schema takes it for."""
    original = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def check(validator: Any, bound: Any, item: Any, schema: Any) -> Any:
        scalar = isinstance(item, str | int | float | bool)
        return original(validator, bound, convert(item) if scalar else item, schema) or ()

    return check


def _number(text: Any) -> Any:
    return int(text) if _is_integer(None, text) else text


# CloudFormation takes every scalar for text, and text for whatever scalar the schema wants.
_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    {
        **{name: _after(_number, name) for name in ("minimum", "maximum")},
        **{name: _after(str, name) for name in ("minLength", "maxLength")},
        "enum": _enum,
        "pattern": _pattern,
        **_KEYWORDS,
    },
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": _is_integer,
            "boolean": _is_boolean,
            "string": _is_string,
            "number": _is_number,
        }
    ),
)
