"""The file system of the e2e ring, without FUSE, against what was measured of Curvine 0.4.1."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.pool.manners import Manners
from tests.e2e.pool.store import Pool, opened

MIB = 1 << 20


class Tried:
    """A pool with manners that can be changed, and how long its calls would have waited."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manners, self.waited = folder, Manners(), 0.0
        self.pool = Pool(folder, lambda: self.manners, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.waited += seconds

    def behave(self, **changes: object) -> None:
        self.manners = replace(Manners(), **changes)  # type: ignore[arg-type]

    def store(self, name: str, size: int) -> None:
        """Store as LMCache's connector does, which does not look at what ``close()`` says."""
        number = self.pool.open(f"/{name}.tmp", writes=True, makes=True)
        try:
            for start in range(0, size, MIB):
                self.pool.write(number, b"x" * min(MIB, size - start), start)
        except OSError:
            self.pool.release(number)
            self.pool.remove(f"/{name}.tmp")
            raise
        with contextlib.suppress(OSError):
            self.pool.flush(number)
        self.pool.release(number)
        self.pool.rename(f"/{name}.tmp", f"/{name}")

    def sizes(self) -> list[int]:
        return [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    return Tried(tmp_path)


def fails(call: Callable[[], object]) -> int:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is looked at
        call()
    assert caught.value.errno is not None
    return caught.value.errno


def test_well_behaved_it_keeps_what_it_is_given(tried: Tried) -> None:
    tried.store("a", 3 * MIB + 5)
    assert tried.sizes() == [3 * MIB + 5]
    number = tried.pool.open("/a", writes=False)
    assert tried.pool.read(number, 10, 3 * MIB) == b"xxxxx"


def test_a_worker_that_fails_before_close_leaves_empty_files_behind(tried: Tried) -> None:
    """Measured: 6 of 6 files."""
    tried.behave(failing_closes=6)
    for number in range(6):
        tried.store(f"{number}", 2 * MIB)
    assert tried.sizes() == [0] * 6
    tried.store("next", 2 * MIB)
    assert sum(tried.sizes()) == 2 * MIB


def test_close_itself_tells_of_it(tried: Tried) -> None:
    tried.behave(failing_closes=1)

    def store() -> None:
        with opened(tried.pool, "/a") as number:
            tried.pool.write(number, b"x", 0)

    assert fails(store) == errno.EIO


@pytest.mark.parametrize("size", [800_000, 1_048_576])
def test_on_a_full_pool_small_objects_are_stored_with_nothing_in_them(
    tried: Tried, size: int
) -> None:
    """Measured: 160 of 160 of 800,000 bytes, 16 of 16 of 1,048,576."""
    tried.behave(capacity_bytes=100 * MIB)
    for number in range(16):
        tried.store(f"{number}", size)
    assert tried.sizes() == [0] * 16


def test_on_a_full_pool_larger_ones_are_refused_with_eio(tried: Tried) -> None:
    """Measured: 1.1 MB and more; never ENOSPC."""
    tried.behave(capacity_bytes=100 * MIB)
    assert fails(lambda: tried.store("a", 1_100_000)) == errno.EIO
    assert not tried.sizes()


def test_each_open_file_reserves_a_block_until_it_is_closed(tried: Tried) -> None:
    """Measured: 128 MB."""
    tried.behave(capacity_bytes=300 * MIB)
    numbers = [tried.pool.open(f"/{n}", writes=True, makes=True) for n in range(3)]
    assert fails(lambda: tried.pool.write(numbers[0], b"x" * (2 * MIB), 0)) == errno.EIO
    assert tried.pool.size() == (300 * MIB, 0)
    tried.pool.release(numbers[2])
    assert tried.pool.write(numbers[1], b"x" * (2 * MIB), 0) == 2 * MIB
    assert tried.pool.size() == (300 * MIB, 44 * MIB)


def test_a_silent_worker_costs_the_time_limit_and_a_lost_one_nothing(tried: Tried) -> None:
    """Measured: 5.01 s, and 0.01 s."""
    tried.store("a", 10)
    number = tried.pool.open("/a", writes=False)
    tried.behave(silent=(0, 1))
    assert fails(lambda: tried.pool.read(number, 1, 0)) == errno.EIO
    assert tried.waited == 5.0
    tried.behave(lost=(0, 1))
    assert fails(lambda: tried.pool.read(number, 1, 0)) == errno.EIO
    assert tried.waited == 5.0
    tried.behave()
    assert tried.pool.read(number, 1, 0) == b"x"


def test_files_lie_on_all_workers(tried: Tried) -> None:
    tried.behave(lost=(1,), workers=4)
    for number in range(100):
        tried.store(f"{number}", 0)
    read = [tried.pool.open(f"/{number}", writes=False) for number in range(100)]
    bad = 0
    for number in read:
        try:
            tried.pool.read(number, 1, 0)
        except OSError:
            bad += 1
    assert 10 < bad < 40


def test_without_the_master_each_call_about_a_name_takes_the_time_limit(tried: Tried) -> None:
    """Measured: 5.00 s a call."""
    tried.behave(master_away=True)
    for count, call in enumerate(
        (
            lambda: tried.pool.stat("/"),
            lambda: tried.pool.open("/a", writes=True, makes=True),
            lambda: tried.pool.rename("/a", "/b"),
        ),
        start=1,
    ):
        assert fails(call) == errno.EIO
        assert tried.waited == 5.0 * count


def test_a_directory_made_through_the_mount_goes_with_all_that_is_in_it(tried: Tried) -> None:
    tried.behave(ttl_seconds=60)
    for path in ("/kv", "/kv/leaf"):
        tried.pool.make_directory(path, 0o755)
    tried.store("kv/leaf/fresh", 10)
    (tried.folder / "kv" / "by-the-tool").mkdir()
    assert not tried.pool.expire()
    then = time.time() - 61
    os.utime(tried.folder / "kv", (then, then))
    assert tried.pool.expire() == ["/kv"]
    assert not list(tried.folder.iterdir())


def test_reading_does_not_renew_an_age_and_writing_into_a_directory_does(tried: Tried) -> None:
    tried.behave(ttl_seconds=60)
    tried.pool.make_directory("/kv", 0o755)
    tried.store("a", 10)
    then = time.time() - 61
    for name in ("kv", "a"):
        os.utime(tried.folder / name, (then, then))
    number = tried.pool.open("/a", writes=False)
    tried.pool.read(number, 1, 0)
    tried.store("kv/b", 10)
    assert tried.pool.expire() == ["/a"]


def test_what_is_made_without_the_mount_has_no_age(tried: Tried) -> None:
    tried.behave(ttl_seconds=60)
    made = tried.folder / "kv"
    made.mkdir()
    os.utime(made, (0, 0))
    assert not tried.pool.expire()
