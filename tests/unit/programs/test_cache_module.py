"""Our module in LMCache's server, beside what the server hands over.

tests/contract/test_cache_module.py gives it to LMCache itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kascade.programs.cache import build_server_modules
from kascade.programs.cache.module import Module, Opening
from kascade.programs.cache.renewing import Renewing


class Processor:
    """Opens blocks, or not."""

    def __init__(self, *results: bool | None) -> None:
        self.results = list(results)

    def submit_deserialize(self, *_: object) -> int:
        return 7

    def query_deserialize_result(self, _: int) -> bool | None:
        return self.results.pop(0)

    def estimate_serialized_size(self, layout: int) -> int:
        return layout + 29


def test_a_load_that_opens_deletes_nothing() -> None:
    gone: list[Any] = []
    opening = Opening(Processor(None, True), gone.extend)
    task = opening.submit_deserialize([], [], ["a", "b"])
    assert [opening.query_deserialize_result(task) for _ in range(2)] == [None, True]
    assert (gone, opening.deleted) == ([], 0)
    assert opening.estimate_serialized_size(1) == 30


def test_all_of_a_load_that_cannot_be_opened_is_gone_before_it_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before: LMCache computes and stores as soon as it knows, and stores nothing that is there."""
    gone: list[Any] = []
    opening = Opening(Processor(None, False), gone.extend)
    keys = ["a", "b"]
    task = opening.submit_deserialize([], [], keys)
    keys.clear()
    assert (opening.query_deserialize_result(task), gone) == (None, [])
    assert opening.query_deserialize_result(task) is False
    assert (gone, opening.deleted) == (["a", "b"], 2)
    assert capsys.readouterr().err == (
        "kascade: a load of 2 blocks could not be opened: deleted, to be stored anew\n"
    )


def test_a_load_ends_even_where_nothing_can_be_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: list[Any]) -> None:
        raise OSError(30, "read-only")

    opening = Opening(Processor(False), refuse)
    assert opening.query_deserialize_result(opening.submit_deserialize([], [], ["a"])) is False
    assert "could not be deleted" in capsys.readouterr().err


class Instruments:
    """Stands in for OpenTelemetry."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: dict[str, Any] = {}
        library = ModuleType("opentelemetry")
        library.metrics = SimpleNamespace(get_meter=lambda _: self, Observation=int)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "opentelemetry", library)

    def create_observable_gauge(self, name: str, *, callbacks: list[Any], description: str) -> None:
        assert description.endswith(".")
        self.read[name] = lambda: callbacks[0](None)[0]

    create_observable_counter = create_observable_gauge


@pytest.fixture
def instruments(monkeypatch: pytest.MonkeyPatch) -> Instruments:
    return Instruments(monkeypatch)


def built(
    *adapters: object, owners: tuple[int, ...] = (1,), opens: bool = True, **config: object
) -> Module:
    storage = SimpleNamespace(l2_adapters=lambda: [(None, adapter) for adapter in adapters])
    return build_server_modules(
        SimpleNamespace(
            server_context=SimpleNamespace(storage_manager=storage),
            mp_config=SimpleNamespace(max_workers=2),
            config={"opens": opens} | config,
            modules=[
                object(),
                *(SimpleNamespace(tracked_instance_count=lambda n=n: n) for n in owners),
            ],
        )
    )


def test_it_counts_the_engines_of_all_ways_of_transfer(instruments: Instruments) -> None:
    module = built(owners=(1, 0, 1), opens=False)
    assert instruments.read["kascade_cache.registered_workers"]() == 2
    assert instruments.read["kascade_cache.expected_workers"]() == 2
    assert module.report_status()["kascade_cache"]["registered_workers"] == 2


def test_it_takes_the_place_of_every_adapters_processor(instruments: Instruments) -> None:
    gone: list[Any] = []
    adapter = SimpleNamespace(_serde=Processor(False), delete=gone.extend)
    module = built(adapter, SimpleNamespace())
    serde: Any = adapter._serde
    serde.query_deserialize_result(serde.submit_deserialize([], [], ["a"]))
    assert (gone, module.deleted) == (["a"], 1)
    assert instruments.read["kascade_cache.unopened_blocks"]() == 1
    module.close()


@pytest.mark.usefixtures("instruments")
@pytest.mark.parametrize("opens", [True, False])
def test_it_says_when_this_lmcache_is_another_one(
    opens: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    built(SimpleNamespace(), opens=opens)
    assert ("stays a hit" in capsys.readouterr().err) is opens


# --- Files that are used --------------------------------------------------------------------------


def test_a_file_that_is_loaded_looks_young_again_but_not_too_often(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    file.touch()
    renewing = Renewing(str(tmp_path), "{}.data".format, every_seconds=600)
    written = []
    for now in (0, 599, 601):
        os.utime(file, (1, 1))
        renewing.renew(["a", "gone"], now)
        written.append(file.stat().st_mtime > 1)
    assert written == [True, False, True]
    assert renewing.renewed == 2


def test_it_remembers_no_more_than_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kascade.programs.cache import renewing as module

    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    for name in "abc":
        (tmp_path / name).touch()
    renewing = Renewing(str(tmp_path), str, every_seconds=600)
    for name in ("a", "b", "a", "c", "a"):
        renewing.renew([name], 1.0)
    assert renewing.renewed == 3


def test_a_mount_that_hangs_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(os, "utime", lambda _: hangs.wait(20))
    renewing = Renewing(str(tmp_path), str, every_seconds=600)
    begun = time.monotonic()
    for _ in range(3000):
        renewing.on_l2_keys_accessed(["a"])
    assert time.monotonic() - begun < 5
    hangs.set()


@pytest.mark.usefixtures("instruments")
def test_without_lmcaches_names_it_says_that_the_oldest_go_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    built(SimpleNamespace(), opens=False, directory="/mnt/kv", renew_seconds=600)
    assert "so the oldest go first" in capsys.readouterr().err
