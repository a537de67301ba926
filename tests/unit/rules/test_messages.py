"""Every error has its code and place, and all their sentences stand in one reviewed file."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from kascade import InvalidConfigError, Problem, plan_file
from kascade.errors import format_path
from tests.unit.config.builders import base, write
from tests.unit.rules.rows import addons, charts, cluster, existing, files, locks, offerings, values

Rows = Mapping[str, tuple[Any, ...]]
Found = Callable[[str], tuple[Problem, ...]]


def edited(folder: Path, edit: Any) -> Path:
    config = base()
    edit(config)
    return write(folder, config)


def of_existing(folder: Path, edit: Any) -> Path:
    config = yaml.safe_load(existing.CONFIG.read_text())
    edit(config)
    return write(folder, config)


def with_offerings(folder: Path, edit: Any) -> Path:
    offerings.save(folder, offerings.answer({"m7i.xlarge": "ab", "g6e.4xlarge": "a"}))
    return edited(folder, edit)


def unoffered(folder: Path, given: Any) -> Path:
    edit, offered = given
    config = offerings.edited(edit)
    answer = offerings.answer({**offerings.EVERYWHERE, **offered}, region=config["region"])
    offerings.save(folder, answer)
    return write(folder, config)


def unusable(folder: Path, content: Any) -> Path:
    offerings.save(folder, content)
    return write(folder, offerings.edited())


def unreadable(folder: Path, make: Any) -> Path:
    make(folder / "offerings.json")
    return write(folder, offerings.edited())


def unreadable_file(folder: Path, make: Any) -> Path:
    path = folder / "deployment.yaml"
    make(path)
    return path


def scalar(folder: Path, line: str) -> Path:
    return write(folder, yaml.safe_dump(base()).replace("count: 2", line))


TABLES: dict[str, tuple[Rows, Callable[[Path, Any], Path]]] = {
    "file": (files.MISTAKES, edited),
    "whole file": (files.WHOLE_FILES, write),
    "unreadable": (files.UNREADABLE, unreadable_file),
    "scalar": (files.SCALARS, scalar),
    "value": (values.REFUSED, edited),
    "existing": (existing.MISTAKES, of_existing),
    "add-on": (addons.MISTAKES, edited),
    "cluster": (cluster.REFUSED, with_offerings),
    "chart": (charts.MISTAKES, charts.lay_out),
    "not offered": (offerings.UNOFFERED, unoffered),
    "no list": (offerings.UNUSABLE, unusable),
    "no file": (offerings.UNREADABLE, unreadable),
    "locked": (locks.CHANGES, locks.changed),
    "locked step": (locks.STEPS, locks.changed),
    "no lock": (locks.BROKEN, locks.broken),
}
SEVERAL = ("whole file", "scalar", "locked")
"""What is wrong with YAML itself may have consequences, and another region means other zones."""

NAMED = ("locked", "locked step", "no lock", "unreadable")
"""Their sentences name a file as it was given; no other names a folder."""

CASES = [f"{table}: {row}" for table, (rows, _) in TABLES.items() for row in rows]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return a function from a case to its problems, found once."""

    @cache
    def find(case: str) -> tuple[Problem, ...]:
        table, _, row = case.partition(": ")
        rows, lay_out = TABLES[table]
        folder = tmp_path_factory.mktemp("case")
        with pytest.raises(InvalidConfigError) as caught:
            plan_file(lay_out(folder, rows[row][0]))
        found = caught.value.problems
        if table in NAMED:
            return tuple(replace(p, message=p.message.replace(f"{folder}/", "")) for p in found)
        assert str(folder) not in "".join(p.message for p in found)
        return found

    return find


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_has_its_code_at_its_place(case: str, found: Found) -> None:
    table, _, row = case.partition(": ")
    _, path, code, *computed = TABLES[table][0][row]
    problems = found(case)
    hits = [p for p in problems if format_path(p.path) == path and (p.code == code or not code)]
    assert len(hits) == 1, problems
    assert table in SEVERAL or len(problems) == 1, problems
    assert all(number in hits[0].message for number in computed), (hits[0].message, computed)
    # PyYAML's own words on an unprintable character have two lines.
    assert case == "no lock: a NUL" or all(p.message.isprintable() for p in problems), problems


@pytest.mark.snapshot
def test_all_sentences_are_as_reviewed(found: Found, snapshot: SnapshotAssertion) -> None:
    """One page: case, then line, place and sentence of each of its problems."""
    said = "\n".join(line for c in CASES for line in (c, *(f"    {p}" for p in found(c))))
    assert said == snapshot
