"""LMCache's own connector, on rendered arguments, over a file system with Curvine's manners.

Each fault is made, seen without its mend, and seen with it.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kascade.kube.l2.guards import MARKER
from tests.e2e.pool.janitor import Janitor, janitor
from tests.e2e.pool.mount import Mounted, mounted
from tests.e2e.pool.replica import Replica, Replicas, replicas

Measure = Callable[[str, str], None]

CHUNKS = 16


class Pair:
    """Two replicas over one pool; each salt stands for a prompt of its own."""

    def __init__(self, pool: Mounted, argv: list[str], made: Replicas, stack: ExitStack) -> None:
        self.pool, self.argv, self._made, self._stack = pool, argv, made, stack
        self._salt = 0
        (pool.folder / MARKER).touch()
        self.one = self.start("one")
        self.two = self.start("two")

    def start(self, pod: str, **changes: object) -> Replica:
        return self._made.start(pod, **changes)

    def salt(self) -> int:
        self._salt += 1
        return self._salt

    def rendered_workers(self) -> int:
        (adapter,) = [word for word in self.argv if word.startswith("--l2-adapter=")]
        workers: int = json.loads(adapter.partition("=")[2])["num_workers"]
        return workers

    def empty(self) -> list[Path]:
        return [path for path in self.pool.folder.glob("*.data") if not path.stat().st_size]

    def janitor(self, **flags: float) -> Janitor:
        """Let one do two rounds; it goes on until the stack ends."""
        made = self._stack.enter_context(
            janitor(
                self.pool.path, "one", "two", log=self.pool.folder.with_name("janitor.log"), **flags
            )
        )
        wait(lambda: made.rounds() >= 3)
        return made


def wait(until: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def running(curvine_argv: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pool")
    with ExitStack() as stack:
        pool = stack.enter_context(mounted(folder / "fs"))
        made = stack.enter_context(replicas(curvine_argv, pool.path, folder=folder))
        yield Pair(pool, curvine_argv, made, stack)


@pytest.fixture
def pair(running: Pair) -> Iterator[Pair]:
    running.pool.behave()
    yield running
    running.pool.behave()


def test_without_a_fault_one_loads_what_the_other_stored(pair: Pair) -> None:
    salt = pair.salt()
    assert pair.one.store(salt)["stored"]
    found = pair.two.load(salt)
    assert (found["found"], found["loaded"], found["right"]) == (CHUNKS, CHUNKS, CHUNKS)


def test_a_worker_lost_before_close_leaves_hits_that_nobody_can_load(
    pair: Pair, measured: Measure
) -> None:
    """LMCache ignores what ``close()`` says and publishes an empty file."""
    salt = pair.salt()
    pair.pool.behave(failing_closes=6)
    assert pair.one.store(salt)["stored"], "it does not even know"
    pair.pool.behave()
    assert len(pair.empty()) == 6
    for _ in range(2):
        # The name exists, so storing it again changes nothing.
        assert pair.one.store(salt)["stored"]
        found = pair.two.load(salt)
        assert (found["found"], found["loaded"]) == (CHUNKS, CHUNKS - 6)
    pair.janitor()
    assert not pair.empty()
    assert pair.two.load(salt)["found"] == CHUNKS - 6
    assert pair.one.store(salt)["stored"]
    found = pair.two.load(salt)
    assert (found["found"], found["right"]) == (CHUNKS, CHUNKS)
    measured("a worker lost before close()", "6 of 16 files empty, all gone after two rounds")


def test_small_objects_on_a_full_pool_are_such_hits_too(pair: Pair, measured: Measure) -> None:
    """The plan rejects such objects; whatever makes them, they do not stay."""
    small = pair.start("small", chunk_bytes=800_000)
    salt = pair.salt()
    pair.pool.behave(capacity_bytes=1)
    assert small.store(salt)["stored"], "it does not even know"
    pair.pool.behave()
    assert len(pair.empty()) == CHUNKS
    found = small.load(salt)
    assert (found["found"], found["loaded"]) == (CHUNKS, 0)
    # Larger ones are rejected, and nothing is left of them.
    large = pair.salt()
    pair.pool.behave(capacity_bytes=1)
    assert not pair.one.store(large)["stored"]
    pair.pool.behave()
    assert pair.two.load(large)["found"] == 0
    pair.janitor()
    assert not pair.empty()
    assert small.store(salt)["stored"]
    assert small.load(salt)["right"] == CHUNKS
    measured("small objects on a full pool", "16 of 16 empty, all gone after two rounds")


@pytest.mark.parametrize("workers", [16, 128])
def test_a_lost_node_costs_a_prompt_one_time_limit(
    workers: int, pair: Pair, measured: Measure
) -> None:
    """With 16 threads each has several chunks, and waits for one after the other."""
    limit, chunks = 3.0, 128
    rendered = workers == pair.rendered_workers()
    reader = pair.two if rendered else pair.start(f"reader-{workers}", workers=workers)
    salt = pair.salt()
    pair.pool.behave(workers=4)
    assert pair.one.store(salt, chunks)["stored"]
    assert reader.load(salt, chunks)["right"] == chunks
    pair.pool.behave(workers=4, silent=(1,), timeout_seconds=limit)
    found = reader.load(salt, chunks)
    lost = chunks - found["loaded"]
    assert found["found"] == chunks
    assert 15 <= lost <= 50
    assert found["right"] == found["loaded"]
    limits = int(found["seconds"] / limit)
    measured(
        f"a silent node, {lost} of {chunks} chunks, {workers} threads",
        f"{found['seconds']:.1f} s with a time limit of {limit:.0f} s",
    )
    assert limits == 1 if rendered else limits >= 2, found
    # Once the master has given it up.
    pair.pool.behave(workers=4, lost=(1,))
    assert reader.load(salt, chunks)["seconds"] < limit
    pair.pool.behave(workers=2)


def test_without_the_master_stores_fail_and_nothing_half_is_published(pair: Pair) -> None:
    salt = pair.salt()
    pair.pool.behave(master_away=True, timeout_seconds=0.5)
    assert not pair.one.store(salt)["stored"]
    assert pair.two.load(salt)["found"] == 0
    pair.pool.behave()
    assert pair.two.load(salt)["found"] == 0
    assert pair.one.store(salt)["stored"]
    assert pair.two.load(salt)["right"] == CHUNKS


@pytest.mark.parametrize("step", ["open", "write", "close", "rename"])
def test_a_store_killed_at_any_step_leaves_no_false_hit(step: str, pair: Pair) -> None:
    salt = pair.salt()
    doomed = pair.start(f"doomed-{step}")
    pair.pool.behave(stalling=step, timeout_seconds=1)
    doomed.order(do="store", salt=salt, count=CHUNKS)
    if step != "open":
        wait(lambda: any((pair.pool.folder / f".tmp-doomed-{step}").iterdir()))
    time.sleep(0.3)
    doomed.kill()
    time.sleep(1.5)
    pair.pool.behave()
    found = pair.two.load(salt)
    assert found["found"] == found["loaded"] == found["right"]
    assert found["found"] < CHUNKS or step == "rename"
    assert pair.one.store(salt)["stored"]
    assert pair.two.load(salt)["right"] == CHUNKS


def test_a_quiet_day_costs_no_store(pair: Pair, measured: Measure) -> None:
    """The directory that a server made at its start ages like any other."""
    limit = 5.0
    pair.pool.behave(ttl_seconds=limit)
    quiet = pair.start("quiet")
    wait(lambda: not (pair.pool.folder / ".tmp-quiet").exists())
    assert not quiet.store(pair.salt())["stored"]
    with pytest.raises(OSError, match="No such file") as caught:
        (pair.pool.path / ".tmp-quiet").stat()
    assert caught.value.errno == errno.ENOENT
    with janitor(
        pair.pool.path,
        "one",
        "two",
        "quiet",
        log=pair.pool.folder.with_name("janitor.log"),
        fresh_seconds=1,
    ) as made:
        wait(lambda: made.rounds() >= 2)
        for _ in range(2):
            time.sleep(limit + 1)
            assert quiet.store(pair.salt())["stored"]
    measured("quiet for more than the age limit, twice", "stored at once each time")
