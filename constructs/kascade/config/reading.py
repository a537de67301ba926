"""Text and YAML from files that anybody may have written."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Final

import yaml

from kascade.errors import ConfigPath, Problem

MAX_FILE_BYTES: Final = 1_000_000
_MAX_SCALAR: Final = 300
"""Characters of one value; the longest that is meant to be there, an ARN, has about 150."""

_MAX_SHOWN: Final = 60
"""Characters of a value that a sentence repeats: the file may be one of somebody's secrets."""

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
"""YAML 1.1 would read 010 as eight and 1:30 as ninety."""

_MAX_NODES: Final = 20_000
"""Far above any real file; an alias bomb ends here instead of filling the memory."""


class UnreadableError(Exception):
    """The file cannot be taken for a mapping at all."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_text(
    path: Path,
    what: str,
    *,
    shown: str = "",
    base: str = "the current folder",
    max_bytes: int = MAX_FILE_BYTES,
) -> str:
    """Read a small text file.

    Args:
        path: The file.
        what: What it should be, for the sentences.
        shown: How the sentences name the file; without it, as ``path``.
        base: What a relative path counts from, likewise.
        max_bytes: More than this is rejected.

    Raises:
        UnreadableError: It cannot be read, with one sentence that says why.
    """
    name = shown or str(path)
    try:
        if path.is_dir():
            msg = f"{name} is a folder; name the {what} in it"
            raise UnreadableError(msg)
        if path.is_fifo() and path.parts[:2] not in {("/", "dev"), ("/", "proc")}:
            other = "" if shown else ", or /dev/stdin"
            msg = f"{name} is a pipe that may never end; name a file{other}"
            raise UnreadableError(msg)
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            msg = f"{name} has more than {max_bytes:,} bytes; this is no {what}"
            raise UnreadableError(msg)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        msg = f"there is no {what} {name}; check the path (it counts from {base})"
        raise UnreadableError(msg) from None
    except UnicodeDecodeError as error:
        msg = f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise UnreadableError(msg) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{name} cannot be read: {reason}"
        raise UnreadableError(msg) from None


def read_json_beside(
    folder: Path, name: str, what: str, *, max_bytes: int = MAX_FILE_BYTES
) -> object:
    """Read a JSON file that a configuration names by a path relative to itself.

    Args:
        folder: The folder of the configuration file.
        name: The path, as the configuration gives it. Sentences name the file so, without the
            folder, which differs from machine to machine.
        what: What it should be, for the sentences.
        max_bytes: More than this is rejected.

    Raises:
        UnreadableError: It cannot be read or is no JSON, with one sentence that says why.
    """
    shown = str(Path(name))
    text = read_text(
        folder / name,
        what,
        shown=shown,
        base="the folder of the configuration file",
        max_bytes=max_bytes,
    )
    try:
        content: object = json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"{shown} is not valid JSON: {error.msg} in its line {error.lineno}"
        raise UnreadableError(msg) from None
    except RecursionError:
        msg = f"{shown} is nested too deeply for a {what}"
        raise UnreadableError(msg) from None
    except ValueError as error:
        msg = f"{shown} cannot be read as JSON: {error}"
        raise UnreadableError(msg) from None
    return content


def parse_yaml(text: str) -> tuple[dict[object, object], dict[ConfigPath, int], list[Problem]]:
    """Take a YAML mapping apart.

    Returns:
        Its values, the line of each path, and what is wrong with single values.

    Raises:
        UnreadableError: It is no mapping at all.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = _cut(getattr(error, "problem", None) or str(error), 2 * _MAX_SHOWN)
        line = mark.line + 1 if mark is not None else None
        msg = f"this is not valid YAML: {what}; look at the indentation and quotes just before"
        raise UnreadableError(msg, line) from None
    except RecursionError:
        msg = "the YAML is nested too deeply; a configuration has four levels"
        raise UnreadableError(msg) from None
    if node is None:
        msg = "the file is empty; begin with `name:`, `region:` and `zones:`"
        raise UnreadableError(msg)
    reader = _NodeReader()
    value = reader.read(node, ())
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else f"the single value {_shown(value)}"
        msg = f"the file holds {kind}; it must be a mapping of fields such as `name: kascade`"
        raise UnreadableError(msg, node.start_mark.line + 1)
    return value, reader.lines, reader.problems


def _shown(value: object) -> str:
    return repr(_cut(value) if isinstance(value, str) else value)


def _cut(text: str, most: int = _MAX_SHOWN) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


class _NodeReader:
    """Turns YAML nodes into plain values and remembers lines; sees duplicate keys."""

    def __init__(self) -> None:
        self.lines: dict[ConfigPath, int] = {}
        self.problems: list[Problem] = []
        self._open: set[int] = set()
        self._count = 0
        self._constructor = yaml.constructor.SafeConstructor()

    def read(self, node: yaml.Node, path: ConfigPath) -> object:
        self._count += 1
        if id(node) in self._open:
            msg = "an alias refers to a block that contains it; write the block out"
            raise UnreadableError(msg, node.start_mark.line + 1)
        if self._count > _MAX_NODES or len(path) > 20:  # noqa: PLR2004  (real files have 4 levels)
            msg = "aliases blow the file up or it is nested too deeply; write the blocks out"
            raise UnreadableError(msg, node.start_mark.line + 1)
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._open.add(id(node))
        try:
            return self._value(node, path)
        finally:
            self._open.discard(id(node))

    def _value(self, node: yaml.Node, path: ConfigPath) -> object:
        if isinstance(node, yaml.MappingNode):
            self._expect_tag(node, path, "map")
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._expect_tag(node, path, "seq")
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: ConfigPath) -> object:
        text = str(node.value)
        kind = node.tag.rpartition(":")[2]
        if len(text) > _MAX_SCALAR:
            message = f"the value has {len(text):,} characters; no field needs that"
            self._refuse(node, path, "value-too-long", message)
            return text[:_MAX_SCALAR]
        if _UNPRINTABLE.search(text):
            message = f"the value {_shown(text)} holds a control character; remove it"
            self._refuse(node, path, "control-character", message)
            return _UNPRINTABLE.sub("?", text)
        if kind == "timestamp":
            return text
        if kind == "int" and not _DECIMAL.fullmatch(text):
            msg = (
                f"the number {_shown(text)} is not plain decimal, and YAML would read it otherwise"
            )
            message = f"{msg}; write it in digits, or in quotes if it is text"
            self._refuse(node, path, "not-decimal", message)
            return text
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            what = _cut(getattr(error, "problem", None) or str(error), 2 * _MAX_SHOWN)
            message = f"the value {_shown(text)} cannot be read: {what}; put it in quotes"
            self._refuse(node, path, "unreadable-value", message)
            return text

    def _expect_tag(self, node: yaml.Node, path: ConfigPath, kind: str) -> None:
        if node.tag != f"tag:yaml.org,2002:{kind}":
            message = f"the tag {node.tag} means nothing here; remove it"
            self._refuse(node, path, "unknown-tag", message)

    def _refuse(self, node: yaml.Node, path: ConfigPath, code: str, message: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append(Problem(path=path, code=code, message=message, line=line))

    def _mapping(self, node: yaml.MappingNode, path: ConfigPath) -> dict[object, object]:
        first: dict[object, int] = {}
        for key_node, _ in node.value:
            key = self._key(key_node)
            line = key_node.start_mark.line + 1
            if key in first:
                msg = (
                    f"the field {_shown(key)} is duplicated (also in line {first[key]}); YAML "
                    "would silently keep the last one, so remove one of them"
                )
                self.problems.append(
                    Problem(path=(*path, str(key)), code="duplicate-field", message=msg, line=line)
                )
            else:
                first[key] = line
        try:
            self._constructor.flatten_mapping(node)
        except yaml.YAMLError as error:
            what = _cut(getattr(error, "problem", None) or str(error), 2 * _MAX_SHOWN)
            message = f"the merge `<<` cannot be done: {what}; write the block out"
            self._refuse(node, path, "unreadable-merge", message)
            return {}
        result: dict[object, object] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            step = key if isinstance(key, str) else str(key)
            self.lines[(*path, step)] = key_node.start_mark.line + 1
            result[key] = self.read(value_node, (*path, step))
        return result

    def _key(self, node: yaml.Node) -> Hashable:
        value = str(node.value) if isinstance(node, yaml.ScalarNode) else None
        if value is None or len(value) > _MAX_SCALAR or _UNPRINTABLE.search(value):
            msg = "a field name must be plain text, not a list, a mapping or something unprintable"
            raise UnreadableError(msg, node.start_mark.line + 1)
        return value
