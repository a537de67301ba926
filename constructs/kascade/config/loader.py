"""A configuration and all that it names, from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kascade.catalog.models import ModelFacts, facts_from_hf_config
from kascade.config.blocks import ServingConfig
from kascade.config.dependencies import DependenciesChart, read_dependencies_chart
from kascade.config.lock import Lock, check_lock, lock_path, parse_lock
from kascade.config.messages import parse
from kascade.config.reading import UnreadableError, parse_yaml, read_json_beside, read_text
from kascade.config.zone_offerings import MAX_FILE_BYTES as MAX_OFFERINGS_BYTES
from kascade.config.zone_offerings import ZoneOfferings, parse_zone_offerings
from kascade.errors import ConfigPath, InvalidConfigError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """What one file holds.

    Attributes:
        source: File name as it was given.
        config: The configuration, or None where the file is too broken to go on. When
            ``problems`` is not empty this is the file without its broken parts, good only for
            finding further errors.
        local_models: Facts read from the ``config_json`` files, by model name.
        zone_offerings: What the file of that name says, or None.
        problems: Every error found so far.
        lines: Line of each path.
        broken: Paths that ``config`` lacks because of a problem.
        origins: For each list that lost items, the original index of those that are left.
        dependencies_chart: AWS's chart of HyperPod's dependencies, where one is named and of use.
    """

    source: str
    config: ServingConfig | None
    local_models: Mapping[str, ModelFacts]
    problems: tuple[Problem, ...]
    lines: Mapping[ConfigPath, int]
    broken: tuple[ConfigPath, ...]
    origins: Mapping[ConfigPath, tuple[int, ...]]
    zone_offerings: ZoneOfferings | None = None
    dependencies_chart: DependenciesChart | None = None

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


def read_config(path: Path, *, check: Callable[[ServingConfig], Iterable[Problem]]) -> LoadedConfig:
    """Read a YAML file and everything it names, and collect every error in it.

    Args:
        path: The file.
        check: Finds what its fields say against each other.

    Returns:
        The configuration and its problems. Nothing is raised for an error in the file.
    """
    source = str(path)
    try:
        text = read_text(path, "configuration file")
        raw, lines, doubles = parse_yaml(text)
    except UnreadableError as error:
        problem = Problem(path=(), code="unreadable-file", message=str(error), line=error.line)
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
    zone_offerings, offering_problems = _read_zone_offerings(parsed.config, path.parent)
    chart, chart_problems = read_dependencies_chart(parsed.config, path.parent)
    file_problems = (*model_problems, *offering_problems)
    loaded = loaded.add((*file_problems, *chart_problems, *check(parsed.config)))
    loaded = loaded.add(_read_lock_problems(parsed.config, lock_path(path)))
    return replace(
        loaded,
        local_models=local_models,
        zone_offerings=zone_offerings,
        dependencies_chart=chart,
        broken=(*loaded.broken, *(problem.path for problem in file_problems)),
    )


def read_lock(path: Path) -> Lock:
    """Read a lock file; empty where there is none.

    Raises:
        InvalidConfigError: It is there but no lock.
    """
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        text = read_text(path, "lock file")
        if not text.strip():
            raise UnreadableError("it is empty")
        content, _, doubles = parse_yaml(text)
        if doubles:
            raise UnreadableError(doubles[0].message, doubles[0].line)
        return parse_lock(content)
    except (UnreadableError, ValueError) as error:
        line = getattr(error, "line", None)
        place = "" if line is None else f"line {line}: "
        message = f"this is no lock of a deployment: {place}{error}. Restore it from the repository"
        raise InvalidConfigError(
            str(path), [Problem(path=(), code="lock-file", message=message)]
        ) from None


def _read_lock_problems(config: ServingConfig, path: Path) -> list[Problem]:
    try:
        return list(check_lock(config, read_lock(path), str(path)))
    except InvalidConfigError as error:
        (problem,) = error.problems
        # No line, which would be one of the configuration.
        return [replace(problem, message=f"{path}: {problem.message}", line=0)]


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
            content = read_json_beside(folder, model.config_json, "Hugging Face config.json")
            if not isinstance(content, dict):
                msg = f"{model.config_json} holds no JSON object; give a Hugging Face config.json"
                raise UnreadableError(msg)
            facts[model.name] = facts_from_hf_config(model.model, content)
        except (UnreadableError, ValueError) as error:
            problems.append(Problem(path=path, code="config-json", message=str(error)))
    return facts, problems


def _read_zone_offerings(
    config: ServingConfig, folder: Path
) -> tuple[ZoneOfferings | None, list[Problem]]:
    name = config.zone_offerings
    if name is None:
        return None, []
    try:
        if Path(name).is_absolute():
            msg = (
                f"{name!r} is an absolute path, which another machine does not have; keep the file "
                "beside this one and give its path from here"
            )
            raise UnreadableError(msg)
        content = read_json_beside(
            folder, name, "list of instance type offerings", max_bytes=MAX_OFFERINGS_BYTES
        )
        return parse_zone_offerings(content, source=name, region=config.region), []
    except (UnreadableError, ValueError) as error:
        return None, [
            Problem(path=("zone_offerings",), code="zone-offerings-file", message=str(error))
        ]
