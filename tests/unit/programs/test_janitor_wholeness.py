"""Files that are not a whole object, and the directories that living pods write into."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kascade.programs.janitor.pods import UnknownPodsError
from kascade.programs.janitor.report import Order, Report
from kascade.programs.janitor.round import Round
from kascade.programs.janitor.wholeness import MOST_SHORT
from tests.unit.programs.shared_directory import OLD, Shared, settings

ROOM = {"high_bytes": 10**9, "low_bytes": 10**8}


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def name(number: int, *, rank: str = "0x01000100", group: int = 0) -> str:
    return f"org-SEP-model@{rank}@{group}@{number:064x}.data"


def rounds(shared: Shared, count: int, **changes: int) -> list[Report]:
    """Do rounds, each of which knows what the watcher would have told it."""
    made = [Report()]
    for _ in range(count):
        last = made[-1]
        made.append(shared.round(Order(short=last.short, whole=last.whole), **ROOM | changes))
    return made[1:]


# --- Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, OLD])
def test_an_empty_file_is_gone_in_the_second_round_whatever_its_age(
    shared: Shared, seconds: int
) -> None:
    """Curvine's failure at close, which LMCache publishes."""
    shared.file(name(1), 0, seconds)
    shared.file(name(2), 100, seconds)
    first, second = rounds(shared, 2)
    assert (list(first.short), first.deleted_files["incomplete"]) == ([name(1)], 0)
    assert shared.names() == {name(2)}
    assert (second.short, second.deleted_files["incomplete"], second.files) == ({}, 1, 1)


def test_a_short_file_is_told_by_the_plans_number_from_the_first_round(shared: Shared) -> None:
    shared.file(name(1), 99, 0)
    rounds(shared, 2, object_bytes=100)
    assert shared.names() == set()


def test_whole_objects_of_each_rank_and_group_are_learned(shared: Shared) -> None:
    """A number that is not so costs nothing but a round: what is there says more."""
    for number in range(5):
        shared.file(name(number), 500)
        shared.file(name(number, rank="0x02000200"), 300)
        shared.file(name(number, group=1), 60)
    shared.file(name(8), 300)
    shared.file(name(9, group=1), 59)
    before = shared.names()
    rounds(shared, 4, object_bytes=1000)
    assert before - shared.names() == {name(8), name(9, group=1)}


def test_one_file_of_the_planned_size_proves_the_plan(shared: Shared) -> None:
    """Though most were cut at the same place: the only whole one must not go for too long."""
    shared.file(name(0), 500)
    for number in range(1, 8):
        shared.file(name(number), 400)
    rounds(shared, 3, object_bytes=500)
    assert shared.names() == {name(0)}


def test_sizes_that_have_no_order_teach_nothing(shared: Shared) -> None:
    for number in range(40):
        shared.file(name(number), 100 + number // 3)
    rounds(shared, 3)
    assert len(shared.names()) == 40


def test_a_name_that_is_not_lmcaches_is_judged_by_nothing_but_emptiness(shared: Shared) -> None:
    shared.file("a.data", 1)
    shared.file("b.data", 0)
    rounds(shared, 2, object_bytes=100)
    assert shared.names() == {"a.data"}


def test_a_file_that_was_replaced_between_two_rounds_stays(shared: Shared) -> None:
    shared.file(name(1), 0, OLD)
    (first,) = rounds(shared, 1)
    shared.file(name(1), 0, OLD - 5)
    second = shared.round(Order(short=first.short, whole=first.whole), **ROOM)
    assert (shared.names(), list(second.short)) == ({name(1)}, [name(1)])


def test_what_is_deleted_as_short_is_not_counted_again_above_the_mark(shared: Shared) -> None:
    for number in range(10):
        shared.file(name(number), 100, OLD + number)
    shared.file(name(77), 40, OLD + 99)
    *_, last = rounds(shared, 2, object_bytes=100, high_bytes=700, low_bytes=500)
    assert last.used_bytes == sum(path.stat().st_size for path in shared.path.glob("*.data")) == 500
    assert last.files == 5


def test_more_short_files_than_it_remembers_go_round_by_round(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kascade.programs.janitor import wholeness

    assert MOST_SHORT >= 1000
    monkeypatch.setattr(wholeness, "MOST_SHORT", 5)
    for number in range(12):
        shared.file(name(number), 0)
    rounds(shared, 8)
    assert shared.names() == set()


# --- Directories ----------------------------------------------------------------------------------


def test_an_idle_pods_directory_never_looks_old(shared: Shared) -> None:
    """On Curvine it would expire, and the pod's server would never store again."""
    own = shared.temp("alive", OLD, "half")
    report = shared.round()
    assert time.time() - own.stat().st_mtime < 60
    assert [path.name for path in own.iterdir()] == ["half"]
    assert report.kept_directories == {"renewed": 1, "made": 0}
    assert shared.round().kept_directories == {"renewed": 0, "made": 0}, "it is fresh now"


def test_a_directory_that_is_gone_is_made_again_and_its_pod_can_write(shared: Shared) -> None:
    report = shared.round()
    own = shared.path / ".tmp-alive"
    assert own.stat().st_mode & 0o777 == 0o755
    assert report.kept_directories == {"renewed": 0, "made": 1}
    assert report.temp_directories == 1


def test_nothing_is_made_for_pods_that_nobody_knows(shared: Shared) -> None:
    def ask() -> frozenset[str]:
        raise UnknownPodsError

    shared.living = ask
    own = shared.temp("alive", OLD)
    report = shared.round()
    assert report.kept_directories == {"renewed": 0, "made": 0}
    assert time.time() - own.stat().st_mtime > OLD / 2
    opened = os.open(shared.path, os.O_RDONLY)
    try:
        Round(opened, settings(shared.path, selector=""), Order(), living=ask).run()
    finally:
        os.close(opened)


def test_a_link_in_place_of_a_pods_directory_is_not_followed(
    shared: Shared, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (shared.path / ".tmp-alive").symlink_to(outside)
    before = outside.stat().st_mtime_ns
    report = shared.round()
    assert outside.stat().st_mtime_ns == before
    assert report.kept_directories == {"renewed": 0, "made": 0}


def test_a_directory_that_cannot_be_kept_is_counted(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "read-only")

    monkeypatch.setattr(os, "mkdir", refuse)
    report = shared.round()
    assert (report.errors["keep"], report.done) == (1, True)
