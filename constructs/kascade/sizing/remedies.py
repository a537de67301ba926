"""Advice that was tried: a change counts only if the plan of it lacks the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from kascade.catalog.instances import INSTANCES, OFFERED_IN, InstanceType
from kascade.catalog.regions import REGIONS
from kascade.config.blocks import InstanceGroupConfig, ServingConfig
from kascade.errors import ConfigPath, Problem, Remedy, format_path

MAX_TRIES: Final = 60
"""Plans that one run makes for the sake of advice. A plan takes some 6 ms, and a configuration
without a problem that has remedies makes none."""

MAX_NAMED: Final = 3
"""Remedies that one sentence names."""

Found = Sequence[Problem]
Planned = Callable[[ServingConfig], tuple[Found, Found]]
"""Plans a configuration and returns its problems and its warnings, without advice."""


def setting(path: ConfigPath, value: object) -> Remedy:
    """Set one field."""
    return settings({path: value})


def settings(values: dict[ConfigPath, object]) -> Remedy:
    """Set several fields together."""

    def change(config: ServingConfig) -> ServingConfig:
        for path, value in values.items():
            config = _with(config, path, value)
        return config

    words = " and ".join(
        f"leave {format_path(path)} out" if value is None else f"set {format_path(path)} to {value}"
        for path, value in values.items()
    )
    return Remedy(words=words, change=change)


def other_types(
    config: ServingConfig,
    index: int,
    group: InstanceGroupConfig,
    *,
    fits: Callable[[InstanceType], bool],
) -> tuple[Remedy, ...]:
    """Give a group another type, the cheapest first."""
    path = ("instance_groups", index, "instance_type")
    return tuple(setting(path, kind.name) for kind in on_offer(config, group) if fits(kind))


def on_offer(config: ServingConfig, group: InstanceGroupConfig) -> list[InstanceType]:
    """Return the other types that the region has for a group of one type, the cheapest first."""
    if group.types_field != "instance_type":
        return []
    offered = [
        kind
        for kind in INSTANCES.values()
        if kind.name != group.instance_type
        and (config.region not in REGIONS or config.region in OFFERED_IN.get(kind.name, ()))
    ]
    offered.sort(key=lambda kind: (kind.usd_per_hour is None, kind.usd_per_hour or 0, kind.name))
    return offered


def advised(
    problems: Iterable[Problem], *, config: ServingConfig, before: Found, plan: Planned
) -> Iterator[Problem]:
    """Add to each problem what cures it; a problem that nothing tried cures gets no advice.

    Args:
        problems: Problems or warnings of the configuration.
        config: The configuration.
        before: All its problems.
        plan: Plans a changed one.
    """
    tries = MAX_TRIES
    for problem in problems:
        named: list[str] = []
        for family in problem.remedies:
            for remedy in family:
                if tries <= 0 or len(named) == MAX_NAMED:
                    break
                tries -= 1
                if cures(remedy, problem, config=config, before=before, plan=plan):
                    named.append(remedy.words)
                    break
        if named:
            words = ", or ".join(named)
            message = f"{problem.message}. {words[0].upper()}{words[1:]}"
            yield replace(problem, message=message, remedies=())
        else:
            yield replace(problem, remedies=())


def cures(
    remedy: Remedy, problem: Problem, *, config: ServingConfig, before: Found, plan: Planned
) -> bool:
    """Say whether a changed configuration lacks the problem and has no new one instead."""
    try:
        changed = remedy.change(config)
        changed = ServingConfig.model_validate(changed.model_dump(exclude_unset=True))
    except ValidationError:
        return False
    problems, warnings = plan(changed)
    same = any((p.code, p.path) == (problem.code, problem.path) for p in (*problems, *warnings))
    return not same and {p.path for p in problems} <= {p.path for p in before}


def _with(node: Any, path: ConfigPath, value: object) -> Any:
    head, *rest = path
    if isinstance(node, tuple):
        assert isinstance(head, int)  # noqa: S101  (paths lead through what is there)
        items = list(node)
        items[head] = _with(node[head], tuple(rest), value) if rest else value
        return tuple(items)
    inner = _with(getattr(node, str(head)), tuple(rest), value) if rest else value
    return node.model_copy(update={str(head): inner})
