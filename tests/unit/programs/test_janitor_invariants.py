"""What holds for any directory, whatever is in it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kascade.programs.janitor.pods import UnknownPodsError
from kascade.programs.janitor.report import Order
from tests.unit.programs.shared_directory import FRESH, MARKER, Shared, settings

FRESH_AGES = st.integers(-1000, FRESH - 60)
OLD_AGES = st.integers(FRESH + 60, 1_000_000)
AGES = st.one_of(FRESH_AGES, OLD_AGES)


@dataclass(frozen=True)
class Temp:
    pod: str
    alive: bool
    age: int
    files: int


FILES = st.lists(st.tuples(AGES, st.integers(0, 400)), max_size=25)
TEMPS = st.lists(
    st.builds(
        Temp,
        pod=st.sampled_from("abcdef"),
        alive=st.booleans(),
        age=AGES,
        files=st.integers(0, 2),
    ),
    max_size=4,
    unique_by=lambda temp: temp.pod,
)
MARKS = st.tuples(st.integers(0, 2000), st.integers(1, 2000)).map(lambda m: (m[0], m[0] + m[1]))
BYSTANDERS = st.sampled_from(
    ["notes.txt", "data", ".data.part", "x.data.tmp", ".tmp", "tmp-a", MARKER + ".bak"]
)


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    files=FILES,
    temps=TEMPS,
    marks=MARKS,
    bystanders=st.sets(BYSTANDERS),
    limit=st.integers(1, 30),
    known=st.booleans(),
)
def test_a_round_keeps_to_its_rules(  # noqa: PLR0913, PLR0917
    files: list[tuple[int, int]],
    temps: list[Temp],
    marks: tuple[int, int],
    bystanders: set[str],
    limit: int,
    known: bool,
) -> None:
    low, high = marks
    with tempfile.TemporaryDirectory() as folder:
        shared = Shared(Path(folder))
        made = {
            f"{number:03}.data": (-seconds, size) for number, (seconds, size) in enumerate(files)
        }
        for name, (seconds, size) in made.items():
            shared.file(name, size, -seconds)
        for temp in temps:
            shared.temp(temp.pod, temp.age, *map(str, range(temp.files)))
        for name in bystanders:
            shared.file(name, 5000)
        living = frozenset(temp.pod for temp in temps if temp.alive)

        def ask() -> frozenset[str]:
            if not known:
                raise UnknownPodsError
            return living

        shared.living = ask
        report = shared.round(limit=limit, low_bytes=low, high_bytes=high)
        left = shared.names()

        # The marker, bystanders and fresh files stay.
        assert (Path(folder) / MARKER).exists()
        assert bystanders <= left
        fresh = {name for name, (then, _) in made.items() if -then < FRESH}
        assert fresh <= left
        # Directories of living and unknown pods stay, with what is in them.
        for temp in temps:
            dead = known and not temp.alive and temp.age > FRESH
            own = Path(folder) / f".tmp-{temp.pod}"
            assert own.exists() is not dead
            assert dead or len(list(own.iterdir())) == temp.files
        # Nothing is deleted below the high mark; above it, everything down to the low one.
        total = sum(size for _, size in made.values())
        gone = made.keys() - left
        rest = sum(size for name, (_, size) in made.items() if name in left)
        if total <= high:
            assert gone == set()
        else:
            assert rest <= low or left & made.keys() == fresh
        # The oldest go first, and none too many.
        kept = [made[name][0] for name in left & made.keys() - fresh]
        assert all(made[name][0] <= then for name in gone for then in kept)
        if gone:
            youngest = max(gone, key=lambda name: (made[name][0], name))
            same = [made[name][1] for name in gone if made[name][0] == made[youngest][0]]
            assert rest + max(same) > low
        # What it reports is what is there.
        assert (report.files, report.used_bytes) == (len(made) - len(gone), rest)
        assert report.deleted_files["mark"] == len(gone)
        assert report.deleted_bytes["mark"] == total - rest
        assert report.done
        again = shared.round(limit=limit, low_bytes=low, high_bytes=high)
        assert again.deleted_files["mark"] == 0 or rest > high


@hypothesis_settings(max_examples=30, deadline=None)
@given(files=FILES, marks=MARKS)
def test_two_at_once_delete_no_more_than_one(
    files: list[tuple[int, int]], marks: tuple[int, int]
) -> None:
    """The second one has listed everything before the first one deletes."""
    low, high = marks
    left: list[set[str]] = []
    for together in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            shared = Shared(Path(folder))
            # One thousandth of a second each, so that no two are of one age.
            for number, (seconds, size) in enumerate(files):
                shared.file(f"{number:03}.data", size, seconds + number / 1000)
            shared.temp("dead")
            other = Shared(Path(folder))

            def meanwhile(other: Shared = other, together: bool = together) -> frozenset[str]:
                if together:
                    other.round(low_bytes=low, high_bytes=high)
                return frozenset({"alive"})

            shared.living = meanwhile
            report = shared.round(low_bytes=low, high_bytes=high)
            left.append(shared.names())
            assert not any(report.errors.values())
    assert left[0] == left[1]


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_every_file_is_read_once_in_as_many_rounds_as_there_are_parts(
    tmp_path: Path, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kascade.programs.janitor import probing

    shared, read = Shared(tmp_path), []
    for number in range(50):
        shared.file(f"{number}.data")
    monkeypatch.setattr(probing, "is_unreadable", lambda _, name: read.append(name))
    for part in range(parts):
        shared.round(Order(part=part, parts=parts, probes=1000), high_bytes=10**6)
    assert sorted(read) == sorted(f"{number}.data" for number in range(50))
    assert settings(tmp_path).probes == 200
