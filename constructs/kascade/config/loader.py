"""The one place that reads a file."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from kascade.catalog.models import ModelFacts, facts_from_hf_config
from kascade.config.checks import check_config
from kascade.config.lock import Lock, check_lock, lock_path, parse_lock
from kascade.config.messages import parse
from kascade.config.model import ServingConfig
from kascade.errors import ConfigPath, InvalidConfigError, Problem

_MAX_FILE_BYTES: Final = 1_000_000
_MAX_SCALAR: Final = 300
"""Characters of one value; the longest that is meant to be there, an ARN, has about 150."""

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
"""YAML 1.1 would read 010 as eight and 1:30 as ninety."""

_MAX_NODES: Final = 20_000
"""Far above any real file; an alias bomb ends here instead of filling the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """What one file holds.

    Attributes:
        source: File name as it was given.
        config: The configuration, or None where the file is too broken to go on. When
            ``problems`` is not empty this is the file without its broken parts, good only for
            finding further mistakes.
        local_models: Facts read from the ``config_json`` files, by model name.
        problems: Every mistake found so far.
        lines: Line of each path.
        broken: Paths that ``config`` lacks because of a problem.
        origins: For each list that lost items, the original index of those that are left.
    """

    source: str
    config: ServingConfig | None
    local_models: Mapping[str, ModelFacts]
    problems: tuple[Problem, ...]
    lines: Mapping[ConfigPath, int]
    broken: tuple[ConfigPath, ...]
    origins: Mapping[ConfigPath, tuple[int, ...]]

    def add(self, found: Iterable[Problem]) -> LoadedConfig:
        """Return this with further problems, those left out that follow from a broken part."""
        kept = list(self.problems)
        for problem in found:
            moved = replace(problem, path=self._original(problem.path))
            if any(self._is_broken(path) for path in (moved.path, *moved.also_reads)):
                continue
            if all((moved.path, moved.message) != (other.path, other.message) for other in kept):
                kept.append(moved)
        kept = [p if p.line is not None else replace(p, line=self._line(p.path)) for p in kept]
        return replace(self, problems=tuple(sorted(kept, key=lambda p: p.line or 0)))

    def _original(self, path: ConfigPath) -> ConfigPath:
        steps: list[str | int] = []
        for step in path:
            origin = self.origins.get(tuple(steps))
            steps.append(origin[step] if origin and isinstance(step, int) else step)
        return tuple(steps)

    def _is_broken(self, path: ConfigPath) -> bool:
        return any(
            path[: len(lost)] == lost or lost[: len(path)] == path for lost in self.broken if path
        )

    def _line(self, path: ConfigPath) -> int | None:
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def read_config(path: Path) -> LoadedConfig:
    """Read a YAML file and everything it names, and collect every mistake in it.

    Args:
        path: The file.

    Returns:
        The configuration and its problems. Nothing is raised for a mistake in the file.
    """
    source = str(path)
    try:
        text = _read_text(path, "configuration file")
        raw, lines, doubles = _parse_yaml(text)
    except _UnreadableError as error:
        problem = Problem(path=(), message=str(error), line=error.line)
        return LoadedConfig(
            source=source,
            config=None,
            local_models={},
            problems=(problem,),
            lines={},
            broken=(),
            origins={},
        )
    parsed = parse(raw)
    loaded = LoadedConfig(
        source=source,
        config=parsed.config,
        local_models={},
        problems=(),
        lines=lines,
        broken=(),
        origins=parsed.origins,
    )
    unreadable = {problem.path for problem in doubles}
    others = (problem for problem in parsed.problems if problem.path not in unreadable)
    loaded = replace(loaded, origins={}).add((*doubles, *others))
    loaded = replace(loaded, broken=parsed.broken, origins=parsed.origins)
    if parsed.config is None:
        return loaded
    local_models, model_problems = _read_model_files(parsed.config, path.parent)
    loaded = loaded.add((*model_problems, *check_config(parsed.config)))
    loaded = loaded.add(_read_lock_problems(parsed.config, lock_path(path)))
    unknown = tuple(problem.path for problem in model_problems)
    return replace(loaded, local_models=local_models, broken=(*loaded.broken, *unknown))


def read_lock(path: Path) -> Lock:
    """Read a lock file; empty where there is none.

    Raises:
        InvalidConfigError: It is there but no lock.
    """
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        content, _, doubles = _parse_yaml(_read_text(path, "lock file"))
        if doubles:
            raise _UnreadableError(doubles[0].message, doubles[0].line)
        return parse_lock(content)
    except (_UnreadableError, ValueError) as error:
        message = f"this is no lock of a deployment: {error}. Restore it from the repository"
        raise InvalidConfigError(str(path), [Problem(path=(), message=message)]) from None


def _read_lock_problems(config: ServingConfig, path: Path) -> list[Problem]:
    try:
        return list(check_lock(config, read_lock(path), str(path)))
    except InvalidConfigError as error:
        (problem,) = error.problems
        # No line, which would be one of the configuration.
        return [replace(problem, message=f"{path}: {problem.message}", line=0)]


def load_config(path: Path) -> ServingConfig:
    """Read a YAML file and return it validated.

    Mistakes that only sizing can see, such as a model too large for its GPUs, are found by
    :func:`kascade.plan_file` or :func:`kascade.plan_serving`.

    Args:
        path: The file.

    Raises:
        InvalidConfigError: With every mistake in the file.
    """
    loaded = read_config(path)
    if loaded.problems or loaded.config is None:
        raise InvalidConfigError(loaded.source, loaded.problems)
    return loaded.config


class _UnreadableError(Exception):
    """The file cannot be taken for a mapping at all."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def _read_text(path: Path, what: str, *, base: str = "the current folder") -> str:
    try:
        if path.is_dir():
            msg = f"{path} is a folder; name the {what} in it"
            raise _UnreadableError(msg)
        if path.is_fifo() and path.parts[:2] not in {("/", "dev"), ("/", "proc")}:
            msg = f"{path} is a pipe that may never end; name a file, or /dev/stdin"
            raise _UnreadableError(msg)
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            msg = f"{path} has more than {_MAX_FILE_BYTES:,} bytes; this is no {what}"
            raise _UnreadableError(msg)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        msg = f"there is no {what} {path}; check the path (it counts from {base})"
        raise _UnreadableError(msg) from None
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise _UnreadableError(msg) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{path} cannot be read: {reason}"
        raise _UnreadableError(msg) from None


def _parse_yaml(text: str) -> tuple[dict[object, object], dict[ConfigPath, int], list[Problem]]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        line = mark.line + 1 if mark is not None else None
        msg = f"this is not valid YAML: {what}; look at the indentation and quotes just before"
        raise _UnreadableError(msg, line) from None
    except RecursionError:
        msg = "the YAML is nested too deeply; a configuration has four levels"
        raise _UnreadableError(msg) from None
    if node is None:
        msg = "the file is empty; begin with `name:`, `region:` and `zones:`"
        raise _UnreadableError(msg)
    reader = _NodeReader()
    value = reader.read(node, ())
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else f"the single value {value!r}"
        msg = f"the file holds {kind}; it must be a mapping of fields such as `name: kascade`"
        raise _UnreadableError(msg, node.start_mark.line + 1)
    return value, reader.lines, reader.problems


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
            raise _UnreadableError(msg, node.start_mark.line + 1)
        if self._count > _MAX_NODES or len(path) > 20:  # noqa: PLR2004  (real files have 4 levels)
            msg = "aliases blow the file up or it is nested too deeply; write the blocks out"
            raise _UnreadableError(msg, node.start_mark.line + 1)
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
            self._refuse(node, path, f"the value has {len(text):,} characters; no field needs that")
            return text[:_MAX_SCALAR]
        if _UNPRINTABLE.search(text):
            self._refuse(node, path, f"the value {text!r} holds a control character; remove it")
            return _UNPRINTABLE.sub("?", text)
        if kind == "timestamp":
            return text
        if kind == "int" and not _DECIMAL.fullmatch(text):
            msg = f"the number {text!r} is not plain decimal, and YAML would read it otherwise"
            self._refuse(node, path, f"{msg}; write it in digits, or in quotes if it is text")
            return text
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            what = getattr(error, "problem", None) or str(error)
            self._refuse(node, path, f"the value {text!r} cannot be read: {what}; put it in quotes")
            return text

    def _expect_tag(self, node: yaml.Node, path: ConfigPath, kind: str) -> None:
        if node.tag != f"tag:yaml.org,2002:{kind}":
            self._refuse(node, path, f"the tag {node.tag} means nothing here; remove it")

    def _refuse(self, node: yaml.Node, path: ConfigPath, message: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append(Problem(path=path, message=message, line=line))

    def _mapping(self, node: yaml.MappingNode, path: ConfigPath) -> dict[object, object]:
        first: dict[object, int] = {}
        for key_node, _ in node.value:
            key = self._key(key_node)
            line = key_node.start_mark.line + 1
            if key in first:
                msg = (
                    f"the field {key!r} stands twice (also in line {first[key]}); YAML would "
                    "silently keep the last one, so remove one of them"
                )
                self.problems.append(Problem(path=(*path, str(key)), message=msg, line=line))
            else:
                first[key] = line
        try:
            self._constructor.flatten_mapping(node)
        except yaml.YAMLError as error:
            what = getattr(error, "problem", None) or str(error)
            self._refuse(node, path, f"the merge `<<` cannot be done: {what}; write the block out")
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
            raise _UnreadableError(msg, node.start_mark.line + 1)
        return value


def _read_model_files(
    config: ServingConfig, folder: Path
) -> tuple[dict[str, ModelFacts], list[Problem]]:
    facts: dict[str, ModelFacts] = {}
    problems: list[Problem] = []
    for index, model in enumerate(config.models):
        if model.config_json is None:
            continue
        path = ("models", index, "config_json")
        try:
            text = _read_text(
                folder / model.config_json,
                "Hugging Face config.json",
                base="the folder of the configuration file",
            )
            content = json.loads(text)
            if not isinstance(content, dict):
                msg = f"{model.config_json} holds no JSON object; give a Hugging Face config.json"
                raise _UnreadableError(msg)
            facts[model.name] = facts_from_hf_config(model.model, content)
        except json.JSONDecodeError as error:
            msg = f"{model.config_json} is not valid JSON: {error.msg} in its line {error.lineno}"
            problems.append(Problem(path=path, message=msg))
        except RecursionError:
            msg = f"{model.config_json} is nested too deeply for a Hugging Face config.json"
            problems.append(Problem(path=path, message=msg))
        except (_UnreadableError, ValueError) as error:
            problems.append(Problem(path=path, message=str(error)))
    return facts, problems
