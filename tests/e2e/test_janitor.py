"""The janitor of the shared directory, beside real cache servers that write into it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kascade.programs.verify.client import UnreachableError, get_text
from kascade.programs.verify.metrics import Page, parse
from tests.e2e.disk import chunk_files, cut, shared_directory
from tests.e2e.replicas import ask, compute_and_store, hits_of, prometheus, prompt
from tools.local.system import LocalSystem

Measure = Callable[[str, str], None]

TOKENS = 3000
CHUNKS = 11
"""Whole ones of 256 tokens in it."""


def page(system: LocalSystem) -> Page:
    janitor = system.janitor
    port = janitor.pod.container("janitor").ports["m-janitor"]
    return parse(get_text(f"http://{janitor.address}:{port}/metrics"))


def total(system: LocalSystem, name: str, **labels: str) -> float:
    return page(system).total(f"kascade_janitor_{name}", **labels)


def rounds(system: LocalSystem) -> float:
    return total(system, "rounds_total", result="success")


def run(system: LocalSystem, **flags: float | str) -> None:
    """Run it with other settings, and wait for its second round."""
    rendered = system.janitor.pod.container("janitor")
    changed = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    words = [word for word in rendered.argv if word.partition("=")[0] not in changed]
    words += [f"{flag}={value}" for flag, value in changed.items()]
    running = system.janitor.containers["janitor"]
    before = running.restarts
    running.replace(replace(rendered, argv=tuple(words)))

    def settled() -> bool:
        try:
            return running.restarts > before and rounds(system) >= 2
        except UnreachableError:
            return False

    system.wait_for(settled, "the janitor has made two rounds", seconds=30)


@pytest.fixture
def restored(system: LocalSystem) -> Iterator[None]:
    """As rendered again afterwards."""
    yield
    running = system.janitor.containers["janitor"]
    before = running.restarts
    running.replace(system.janitor.pod.container("janitor"))
    system.wait_for(lambda: running.restarts > before and running.started, "it is up", seconds=30)


def test_it_has_been_there_all_along(system: LocalSystem) -> None:
    (plan,) = system.deployment.plan.janitors
    assert system.janitor.containers["janitor"].restarts == 0
    assert rounds(system) >= 1
    assert total(system, "high_bytes") == plan.high_bytes
    assert total(system, "rounds_total", result="stuck") == 0
    assert total(system, "errors_total", kind="unlink") == 0
    # Tests before this one cut files, and it clears those.
    cut_short = total(system, "deleted_files_total", reason="incomplete")
    assert total(system, "deleted_files_total") == cut_short
    query = 'kascade_janitor_low_bytes{model="tiny",cluster="laptop"}'
    system.wait_for(lambda: prometheus(system, query) == plan.low_bytes, query, seconds=20)


@pytest.mark.usefixtures("restored")
def test_it_clears_what_a_dead_pod_left_and_spares_the_living(system: LocalSystem) -> None:
    directory = shared_directory(system)
    dead = directory / ".tmp-tiny-5d8c7b-x2x4z"
    dead.mkdir()
    (dead / "half.data").write_bytes(b"x" * 1000)
    living = [directory / f".tmp-{replica.name}" for replica in system.target.replicas]
    long_ago = time.time() - 86_400
    for path in (dead, *living):
        os.utime(path, (long_ago, long_ago))
    run(system, interval_seconds=0.5)
    assert not dead.exists()
    assert all(path.is_dir() for path in living)
    assert total(system, "deleted_files_total", reason="dead_pod") == 1
    assert total(system, "errors_total") == 0
    for number, replica in enumerate(system.target.replicas):
        compute_and_store(system, replica, prompt(f"after the janitor {number}", 700))


@pytest.mark.usefixtures("restored")
def test_above_its_mark_the_oldest_files_go_and_answers_stay_right(
    system: LocalSystem, measured: Measure
) -> None:
    one, other = system.target.replicas
    old, new = prompt("before the mark", TOKENS), prompt("kept below the mark", TOKENS)
    computed_old = compute_and_store(system, one, old)
    earlier = chunk_files(system)
    computed_new = compute_and_store(system, one, new)
    later = chunk_files(system) - earlier
    assert len(later) == CHUNKS
    everything, low = (sum(f.stat().st_size for f in some) for some in (earlier | later, later))
    run(system, interval_seconds=0.5, fresh_seconds=0, high_bytes=everything - 1, low_bytes=low)
    assert chunk_files(system) == later
    assert total(system, "bytes") == low
    assert total(system, "deleted_files_total", reason="mark") == len(earlier)
    gone, none = hits_of(system, other, old)
    kept, hits = hits_of(system, other, new)
    assert (none, hits) == (0, CHUNKS * system.target.chunk_size)
    assert gone.token_ids == computed_old.token_ids == ask(system, one.engine_url, old).token_ids
    assert kept.token_ids == computed_new.token_ids
    measured(
        "above the janitor's mark",
        f"{len(earlier)} oldest files deleted, {hits:.0f} tokens of the newest prompt from L2, "
        "right answers",
    )


@pytest.mark.usefixtures("restored")
def test_empty_and_short_files_go_within_two_rounds_and_are_written_again(
    system: LocalSystem, measured: Measure
) -> None:
    """They are fresh, and for LMCache they are there."""
    (plan,) = system.deployment.plan.janitors
    one, other = system.target.replicas
    known = chunk_files(system)
    text = prompt("half of it is missing", TOKENS)
    computed = compute_and_store(system, one, text)
    files = chunk_files(system) - known
    whole = {int(plan.object_bytes.value)}
    assert {path.stat().st_size for path in files} == whole, "the plan's number is LMCache's"
    empty, short = sorted(files)[:2]
    empty.write_bytes(b"")
    cut({short})
    run(system, interval_seconds=0.5)
    assert files - chunk_files(system) == {empty, short}
    assert total(system, "deleted_files_total", reason="incomplete") == 2
    assert total(system, "deleted_files_total") == 2
    answer, hits = hits_of(system, other, text)
    assert answer.token_ids == computed.token_ids
    system.wait_for(lambda: files <= chunk_files(system), "they are written again", seconds=30)
    assert {path.stat().st_size for path in files} == whole
    measured("empty and short files", f"gone in 2 rounds, written again, {hits:.0f} tokens hit")


@pytest.mark.usefixtures("restored")
def test_an_engine_whose_directory_is_gone_stores_again(
    system: LocalSystem, measured: Measure
) -> None:
    """As after a quiet day on Curvine."""
    one, _ = system.target.replicas
    own = shared_directory(system) / f".tmp-{one.name}"
    # Without their labels it looks after no pods.
    run(system, interval_seconds=0.5, selector="")
    own.rmdir()
    before = chunk_files(system)
    ask(system, one.engine_url, prompt("without a directory", TOKENS))
    time.sleep(2)
    assert chunk_files(system) == before, "LMCache alone never stores again"
    run(system, interval_seconds=0.5)
    assert own.is_dir()
    assert total(system, "kept_directories_total", how="made") == 1
    compute_and_store(system, one, prompt("with a directory", TOKENS))
    measured("own directory gone", f"made again in a round, {CHUNKS} of {CHUNKS} chunks stored")


def test_the_marker_is_still_there(system: LocalSystem) -> None:
    assert Path(shared_directory(system), ".kascade-volume").exists()
