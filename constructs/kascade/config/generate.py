"""``python -m kascade.config.generate``: the JSON Schema and the commented reference file."""

from __future__ import annotations

import argparse
import json
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kascade.config.blocks import ServingConfig

_WIDTH = 98
_HEADER = """\
# yaml-language-server: $schema=schema.json
# Every field of a deployment file with its default and meaning. Generated from the models by
# `make schema`; do not edit. Lines that are commented out show what a list's item looks like.
"""


def schema_text() -> str:
    """The JSON Schema that editors use, as text."""
    schema = ServingConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Kascade deployment"
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def reference_text() -> str:
    """The commented reference file: loadable, every field present."""
    return _HEADER + "".join(f"{line}\n" for line in _block(ServingConfig, 0))


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Write schema.json and reference.yaml.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("config"))
    folder = parser.parse_args().folder
    (folder / "schema.json").write_text(schema_text(), encoding="utf-8")
    (folder / "reference.yaml").write_text(reference_text(), encoding="utf-8")


def _block(block: type[BaseModel], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, field in block.model_fields.items():
        if depth == 0:
            yield ""
        yield from _comment(field, indent)
        members = _blocks(field.annotation)
        if not members:
            yield f"{indent}{name}: {_value(field)}"
        elif _is_list(field.annotation):
            yield from _list(name, field, members[0], depth)
        elif field.default is None:
            yield f"{indent}{name}: null"
            lines = _block(members[0], depth + 1)
            yield from (f"{indent}  # {line[len(indent) + 2 :]}" for line in lines)
        else:
            yield f"{indent}{name}:"
            yield from _block(members[0], depth + 1)
            for other in members[1:]:
                kind = other.model_fields["kind"].default
                note = f"`kind: {kind}` instead of all this: {_first_line(other)}"
                yield from (f"{indent}  # {line}" for line in textwrap.wrap(note, _WIDTH - 4))
                if len(other.model_fields) > 1:
                    # Two levels deeper than it stands: the width of the comment sign.
                    deep = _block(other, depth + 3)
                    yield from (f"{indent}  #   {line[len(indent) + 6 :]}" for line in deep)


def _list(name: str, field: FieldInfo, item: type[BaseModel], depth: int) -> Iterator[str]:
    indent = "  " * depth
    lines = list(_block(item, depth + 2))
    # A dash takes the place of two spaces on the item's first field, below its comment.
    first = next(i for i, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}  - {lines[first].lstrip()}"
    if field.is_required():
        yield f"{indent}{name}:"
        yield from lines
    else:
        yield f"{indent}{name}: []"
        yield from (f"{indent}  # {line[len(indent) + 2 :]}" for line in lines)


def _comment(field: FieldInfo, indent: str) -> Iterator[str]:
    text = field.description or ""
    choices = [c for c in _literals(field.annotation) if c is not None]
    if len(choices) > 1:
        text = f"{text} One of: {', '.join(map(str, choices))}."
    if field.is_required():
        text = f"{text} Required."
    yield from (f"{indent}# {line}" for line in textwrap.wrap(text, _WIDTH - len(indent) - 2))


def _value(field: FieldInfo) -> str:
    # An example also where one of several fields is needed, and this the usual one.
    wants_example = field.examples and (field.is_required() or field.default is None)
    value = field.examples[0] if field.examples and wants_example else field.default
    value = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).split("\n")[0]


def _first_line(block: type[BaseModel]) -> str:
    return (block.__doc__ or "").strip().split("\n")[0]


def _members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return tuple(m for arg in get_args(annotation) for m in _members(arg))
    return (annotation,)


def _is_list(annotation: Any) -> bool:
    return any(get_origin(member) is tuple for member in _members(annotation))


def _blocks(annotation: Any) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    for member in _members(annotation):
        inner = get_args(member)[0] if get_origin(member) is tuple else member
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found.append(inner)
    return found


def _literals(annotation: Any) -> list[object]:
    found: list[object] = []
    for member in _members(annotation):
        inner = get_args(member)[0] if get_origin(member) is tuple else member
        if str(get_origin(inner)) == "typing.Literal":
            found += get_args(inner)
    return found


if __name__ == "__main__":
    main()
