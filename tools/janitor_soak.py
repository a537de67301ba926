"""Runs the janitor against writers on a real directory, and checks what it must never do.

    python -m tools.janitor_soak --minutes 10

It fills a folder with files of mixed age, starts the program as its pod does, and writers that
publish files by renaming, rewrite old ones and evict some, as engines do. Everything is deleted at
the end.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import queue
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import psutil

from kascade.programs.janitor import listing
from kascade.programs.janitor.report import Report
from kascade.programs.janitor.settings import JanitorSettings
from kascade.programs.verify.client import UnreachableError, get_text
from kascade.programs.verify.metrics import Page, parse
from tools.servers import free_ports

MARKER: Final = ".kascade-volume"
PREFIX: Final = ".tmp-"
_DAY: Final = 86_400
_SMALLEST, _LARGEST = 1024, 16 * 1024
_GRACE_SECONDS: Final = 30
_LEAST_ROUNDS: Final = 4
_LEAST_CHECKED: Final = 100
_PATIENCE: Final = 5
"""Times as long as it shall last until a machine that is busy otherwise has done so many rounds."""

PROGRAMS: Final = Path(listing.__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the writers have in common.

    Attributes:
        stop: Set when they shall end.
        lost: What must not have happened, in words.
        checked: Fresh files that were looked for and found.
    """

    stop: Event
    lost: multiprocessing.Queue[str]
    checked: Synchronized[int]


class SoakError(Exception):
    """Something that must never happen, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What happens to the directory.

    Attributes:
        files: How many there are at the start.
        writers: Processes that write.
        files_per_second: What each of them writes.
        seconds: How long.
        fresh_seconds: Younger files must survive.
        interval_seconds: Pause between the janitor's rounds.
    """

    files: int
    writers: int
    files_per_second: float
    seconds: float
    fresh_seconds: float
    interval_seconds: float


@dataclass(slots=True, kw_only=True)
class Result:
    """What was measured.

    Attributes:
        listed_per_second: Files that one pass lists, with the pauses it makes.
        deleted_per_second: Files that the first round deleted after its listing.
        over_high: Most bytes seen above the high mark, once the first round was over.
        burst: Bytes that all writers together write between the ends of two rounds, at most.
        peak_rss_mib: Of the watcher and its round together.
        checked: Fresh files that were looked for and found.
    """

    high_bytes: int = 0
    listed_per_second: float = 0.0
    deleted_per_second: float = 0.0
    rounds: int = 0
    longest_round_seconds: float = 0.0
    deleted_files: int = 0
    dead_directories: int = 0
    over_high: int = 0
    burst: int = 0
    peak_rss_mib: float = 0.0
    checked: int = 0
    errors: dict[str, int] = field(default_factory=dict)


def fill(folder: Path, files: int) -> int:
    """Make files of mixed age and size, sparse ones; return their bytes."""
    chance = random.Random(0)  # noqa: S311 - not for secrets
    now, total = time.time(), 0
    (folder / MARKER).touch()
    for number in range(files):
        path = folder / f"model@0x01000100@0@{number:064x}.data"
        size = chance.randint(_SMALLEST, _LARGEST)
        with path.open("wb") as file:
            file.truncate(size)
        written = now - chance.uniform(_DAY, 7 * _DAY)
        os.utime(path, (written, written))
        total += size
    return total


# --- Writers --------------------------------------------------------------------------------------


def write(folder: Path, name: str, load: Load, shared: Shared) -> None:
    """Write, rewrite and evict as an engine does; look for every file while it is fresh."""
    chance = random.Random(name)  # noqa: S311 - not for secrets
    own = folder / f"{PREFIX}{name}"
    recent: deque[tuple[float, Path, bool]] = deque()
    pause = 1 / load.files_per_second
    try:
        for number in itertools.count():
            if shared.stop.wait(pause):
                break
            again = number % 10 == 0
            # One in ten is an old file of another's, which this makes a fresh one.
            known = chance.randrange(load.files) if again else None
            rest = f"{known:064x}" if known is not None else f"{name}{number:050x}"
            path = folder / f"model@0x01000100@0@{rest}.data"
            part = own / f"{number}.part"
            size = chance.randint(_SMALLEST, _LARGEST)
            with part.open("wb") as file:
                file.truncate(size)
            begun = time.time()
            part.replace(path)
            recent.append((begun, path, again))
            while recent and time.time() - recent[0][0] > load.fresh_seconds * 0.7:
                published, seen, common = recent.popleft()
                age = time.time() - published
                if not seen.exists() and age < load.fresh_seconds:
                    shared.lost.put(f"{seen.name} is lost, {age:.1f} s old")
                    return
                with shared.checked:
                    shared.checked.value += 1
                # One in ten of its own is evicted by its engine.
                if not common and chance.random() < 0.1:  # noqa: PLR2004
                    seen.unlink(missing_ok=True)
    except OSError as error:
        shared.lost.put(f"{name} cannot write: {error}")


# --- An API server that knows the writers ---------------------------------------------------------


@contextlib.contextmanager
def api(names: list[str]) -> Iterator[str]:
    """List the writers as pods."""
    items = [{"metadata": {"name": name}} for name in names]
    page = json.dumps({"metadata": {}, "items": items}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# --- The run --------------------------------------------------------------------------------------


def soak(folder: Path, load: Load) -> Result:
    """Run it.

    Args:
        folder: An empty folder, which is left as the run leaves it.
        load: What happens to it.

    Raises:
        SoakError: The janitor did what it must not do.
    """
    result = Result()
    total = fill(folder, load.files)
    result.high_bytes = high = int(total * 0.9)
    names = [f"writer-{number}" for number in range(load.writers)]
    for name in names:
        (folder / f"{PREFIX}{name}").mkdir()
    result.listed_per_second = _listing_speed(folder)
    context = multiprocessing.get_context("spawn")
    shared = Shared(stop=context.Event(), lost=context.Queue(), checked=context.Value("q", 0))
    writers = [
        context.Process(target=write, args=(folder, name, load, shared), daemon=True)
        for name in names
    ]
    (port,) = free_ports(1)
    with api(names) as url:
        arguments = {
            "directory": folder,
            "marker": MARKER,
            "high-bytes": high,
            "low-bytes": int(total * 0.8),
            "fresh-seconds": load.fresh_seconds,
            "interval-seconds": load.interval_seconds,
            "namespace": "soak",
            "selector": "app=writer",
            "api-url": url,
            "port": port,
        }
        janitor = subprocess.Popen(
            [sys.executable, "-m", "janitor", *(f"--{k}={v}" for k, v in arguments.items())],
            env={**os.environ, "PYTHONPATH": str(PROGRAMS)},
            stderr=subprocess.DEVNULL,
        )
        for writer in writers:
            writer.start()
        try:
            _watch(folder, load, janitor, f"http://127.0.0.1:{port}/metrics", shared, result)
        finally:
            shared.stop.set()
            for writer in writers:
                writer.join(_GRACE_SECONDS)
            begun = time.monotonic()
            janitor.terminate()
            janitor.wait(_GRACE_SECONDS)
    if time.monotonic() - begun > 2 + load.interval_seconds:
        msg = f"the janitor took {time.monotonic() - begun:.1f} s to end"
        raise SoakError(msg)
    _nothing_lost(shared)
    _judge(result, [name for name in names if not (folder / f"{PREFIX}{name}").is_dir()])
    return result


def _listing_speed(folder: Path) -> float:
    """Files a second of one pass, as a round makes it."""
    settings = JanitorSettings(directory=str(folder), marker=MARKER, high_bytes=2, low_bytes=1)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    report = Report()
    begun = time.monotonic()
    try:
        found = listing.list_directory(
            opened, settings, report=report, pace=listing.Pace(settings, lambda: None)
        )
    finally:
        os.close(opened)
    return found.files / (time.monotonic() - begun)


def _watch(  # noqa: PLR0913, PLR0917
    folder: Path,
    load: Load,
    janitor: subprocess.Popen[bytes],
    url: str,
    shared: Shared,
    result: Result,
) -> None:
    process = psutil.Process(janitor.pid)
    begun, number, next_dead, first = time.monotonic(), 0, 0.0, True
    rate = load.writers * load.files_per_second * _LARGEST
    while (
        (passed := time.monotonic() - begun) < load.seconds
        or result.rounds < _LEAST_ROUNDS
        or result.checked < _LEAST_CHECKED
    ):
        if passed > _PATIENCE * load.seconds:
            msg = f"{result.rounds} rounds and {result.checked} looks in {passed:.0f} s"
            raise SoakError(msg)
        time.sleep(0.5)
        if janitor.poll() is not None:
            msg = f"the janitor ended with {janitor.returncode}"
            raise SoakError(msg)
        _nothing_lost(shared)
        result.checked = shared.checked.value
        result.peak_rss_mib = max(result.peak_rss_mib, _memory(process) / 2**20)
        try:
            page = parse(get_text(url))
        except UnreachableError:
            continue
        rounds = int(page.total("kascade_janitor_rounds_total", result="success"))
        if rounds == 0:
            continue
        seconds = page.total("kascade_janitor_round_seconds")
        if first:
            first = False
            deleted = page.total("kascade_janitor_deleted_files_total", reason="mark")
            listed = load.files / result.listed_per_second
            result.deleted_per_second = deleted / max(0.001, seconds - listed)
        result.longest_round_seconds = max(result.longest_round_seconds, seconds)
        # Written between the end of a listing and the end of the next round's deletions.
        longest = load.interval_seconds + 2 * result.longest_round_seconds
        result.burst = int(rate * longest)
        _take(page, result)
        now = _bytes(folder)
        result.over_high = max(result.over_high, now - result.high_bytes)
        if time.monotonic() > next_dead:
            next_dead = time.monotonic() + load.fresh_seconds
            number += 1
            _leave_behind(folder, number)
    result.dead_directories = number - len(list(folder.glob(f"{PREFIX}dead-*")))


def _nothing_lost(shared: Shared) -> None:
    with contextlib.suppress(queue.Empty):
        raise SoakError(shared.lost.get_nowait())


def _bytes(folder: Path) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".data"):
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat().st_size
    return total


def _take(page: Page, result: Result) -> None:
    result.rounds = int(page.total("kascade_janitor_rounds_total", result="success"))
    result.deleted_files = int(page.total("kascade_janitor_deleted_files_total", reason="mark"))
    result.errors = {
        kind: int(page.total("kascade_janitor_errors_total", kind=kind))
        for kind in ("guard", "mount", "stat", "unlink", "api")
    }
    result.errors |= {
        how: int(page.total("kascade_janitor_rounds_total", result=how))
        for how in ("failed", "stuck")
    }


def _leave_behind(folder: Path, number: int) -> None:
    """Make the directory of a pod that was killed while it wrote."""
    dead = folder / f"{PREFIX}dead-{number}"
    dead.mkdir()
    (dead / "half.part").write_bytes(b"x" * 100)
    long_ago = time.time() - _DAY
    os.utime(dead, (long_ago, long_ago))


def _memory(process: psutil.Process) -> int:
    total = 0
    for one in [process, *process.children()]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total


def _judge(result: Result, lost: list[str]) -> None:
    if lost:
        msg = f"directories of living pods are gone: {', '.join(lost)}"
        raise SoakError(msg)
    if result.over_high > result.burst:
        msg = f"{result.over_high} bytes above the high mark, a burst is {result.burst}"
        raise SoakError(msg)
    if not result.dead_directories:
        msg = "no directory of a dead pod was deleted"
        raise SoakError(msg)
    if any(result.errors.values()):
        msg = f"errors: {result.errors}"
        raise SoakError(msg)


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--files-per-second", type=float, default=50, help="of each writer")
    parser.add_argument("--folder", type=Path, default=Path(".kascade/soak"))
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    load = Load(
        files=given.files,
        writers=given.writers,
        files_per_second=given.files_per_second,
        seconds=given.minutes * 60,
        fresh_seconds=60,
        interval_seconds=10,
    )
    try:
        result = soak(given.folder, load)
    except SoakError as error:
        print(f"FAILED: {error}")
        return 1
    finally:
        shutil.rmtree(given.folder)
    for name in Result.__slots__:
        print(f"{name:<22} {getattr(result, name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
