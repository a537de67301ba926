"""One round: races with others, files that cannot be read, a full disk, a wrong directory."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from kascade.programs.janitor import pods, probing
from kascade.programs.janitor import settings as settings_module
from kascade.programs.janitor.mount import WrongDirectoryError, filesystem_at, open_directory
from kascade.programs.janitor.pods import UnknownPodsError, living_pods
from kascade.programs.janitor.report import Order, Report
from kascade.programs.janitor.round import one_round
from tests.unit.programs.shared_directory import MARKER, Shared, age, settings


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


# --- Others are at work too -----------------------------------------------------------------------


def test_a_file_that_is_written_again_is_fresh(shared: Shared) -> None:
    """Between its listing and its deletion."""
    for number in range(11):
        shared.file(f"{number}.data", seconds=20_000 - number)
    shared.temp("dead")

    def meanwhile() -> frozenset[str]:
        shared.file("0.data", seconds=0)
        return frozenset({"alive"})

    shared.living = meanwhile
    report = shared.round()
    assert shared.names() == {"0.data", "7.data", "8.data", "9.data", "10.data"}
    assert report.used_bytes == 500


def test_a_file_that_vanishes_counts_as_gone(shared: Shared) -> None:
    for number in range(11):
        shared.file(f"{number}.data", seconds=20_000 - number)
    shared.temp("dead")

    def meanwhile() -> frozenset[str]:
        for number in range(3):
            (shared.path / f"{number}.data").unlink()
        return frozenset({"alive"})

    shared.living = meanwhile
    report = shared.round()
    assert shared.names() == {f"{number}.data" for number in range(6, 11)}
    assert report.deleted_files["mark"] == 3
    assert not any(report.errors.values())


def test_what_cannot_be_deleted_is_counted_and_given_up(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        shared.file(f"{number}.data")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "unlink", refuse)
    report = shared.round()
    assert report.errors["unlink"] == 100
    assert report.files == 300


def test_a_link_leads_nowhere(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").touch()
    (outside / "x.data").write_bytes(b"x" * 5000)
    for link in (shared.path / ".tmp-dead", shared.path / "x.data"):
        link.symlink_to(outside if link.name != "x.data" else outside / "x.data")
        age(link, 10_000)
    inner = shared.temp("gone")
    (inner / "link").symlink_to(outside)
    age(inner, 10_000)
    report = shared.round(high_bytes=100, low_bytes=50)
    assert sorted(path.name for path in outside.iterdir()) == ["precious", "x.data"]
    assert shared.names() == {".tmp-dead", "x.data"}
    assert report.files == 0


# --- Pods -----------------------------------------------------------------------------------------


def test_a_pod_that_starts_meanwhile_is_not_taken_for_dead(shared: Shared) -> None:
    """Pods are asked for after the directories were seen."""
    seen: list[set[str]] = []
    shared.temp("early")

    def ask() -> frozenset[str]:
        seen.append(shared.names())
        shared.temp("late")
        return frozenset({"early", "late"})

    shared.living = ask
    shared.round()
    assert seen == [{".tmp-early"}]
    assert shared.names() == {".tmp-early", ".tmp-late"}


def test_without_an_answer_no_directory_goes(shared: Shared) -> None:
    shared.temp("dead", 10_000, "half")

    def ask() -> frozenset[str]:
        message = "no answer"
        raise UnknownPodsError(message)

    shared.living = ask
    report = shared.round()
    assert shared.names() == {".tmp-dead"}
    assert report.errors["api"] == 1
    assert report.done


def test_a_dead_pods_directory_goes_with_its_files(shared: Shared) -> None:
    shared.temp("dead", 10_000, "one", "two")
    report = shared.round()
    assert shared.names() == set()
    assert (report.deleted_files["dead_pod"], report.deleted_bytes["dead_pod"]) == (2, 8)
    assert report.temp_directories == 1, "that of the pod that lives"


class Api:
    """An API server of two pages, which notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.pages: list[object] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.asked.append(parse_qs(urlsplit(self.path).query))
                api.headers.append(dict(self.headers))
                assert urlsplit(self.path).path == "/api/v1/namespaces/serving/pods"
                page = api.pages.pop(0)
                self.send_response(200 if isinstance(page, dict) else 403)
                self.end_headers()
                self.wfile.write(json.dumps(page).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.server.shutdown()
    made.server.server_close()


def page(*names: str, following: str = "") -> dict[str, object]:
    return {
        "metadata": {"continue": following},
        "items": [{"metadata": {"name": name}} for name in names],
    }


def test_all_pages_of_pods_are_read(api: Api, tmp_path: Path) -> None:
    api.pages = [page("a", "b", following="more"), page("c")]
    assert living_pods(settings(tmp_path, api_url=api.url)) == {"a", "b", "c"}
    first, second = api.asked
    assert first["labelSelector"] == ["app=engine"]
    assert first["fieldSelector"] == ["status.phase!=Succeeded,status.phase!=Failed"]
    assert second["continue"] == ["more"]
    assert "PartialObjectMetadataList" in api.headers[0]["Accept"]
    assert "Authorization" not in api.headers[0]


@pytest.mark.parametrize("answer", [page(), {"kind": "Status"}, "Forbidden", {"items": [{}]}])
def test_an_answer_without_pods_is_none(api: Api, tmp_path: Path, answer: object) -> None:
    api.pages = [answer]
    with pytest.raises(UnknownPodsError):
        living_pods(settings(tmp_path, api_url=api.url))


def test_nobody_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(UnknownPodsError, match="does not list pods"):
        living_pods(settings(tmp_path, api_url="http://127.0.0.1:9"))


def test_inside_a_pod_it_uses_the_accounts_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("secret")
    monkeypatch.setattr(pods, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    request = pods._request(settings(tmp_path), "")
    assert request.full_url.startswith("https://[fd00::1]:443/api/v1/namespaces/serving/pods?")
    assert request.get_header("Authorization") == "Bearer secret"


# --- Files that cannot be read --------------------------------------------------------------------


def test_an_io_error_of_the_kernel_is_recognised() -> None:
    """Nothing is mapped at address 0 of a process, and reading there is EIO."""
    own = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert probing.is_unreadable(own, "mem")
        assert not probing.is_unreadable(own, "status")
    finally:
        os.close(own)


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that cannot be read."""
    names: set[str] = set()
    real = probing.is_unreadable
    monkeypatch.setattr(probing, "is_unreadable", lambda fd, name: real(fd, name) or name in names)
    return names


def test_a_file_is_deleted_when_it_is_unreadable_twice(
    shared: Shared, unreadable: set[str]
) -> None:
    shared.file("bad.data")
    shared.file("good.data")
    unreadable.add("bad.data")
    first = shared.round(Order(probes=10))
    assert first.unreadable == ["bad.data"]
    assert shared.names() == {"bad.data", "good.data"}
    waiting = shared.round(Order(probes=10, known=("bad.data",)))
    assert (waiting.unreadable, waiting.cleared) == ([], [])
    last = shared.round(Order(ripe=("bad.data", "vanished.data")))
    assert shared.names() == {"good.data"}
    assert last.deleted_files["unreadable"] == 1
    assert sorted(last.cleared) == ["bad.data", "vanished.data"]


def test_a_file_that_can_be_read_again_stays(shared: Shared) -> None:
    shared.file("healed.data")
    report = shared.round(Order(ripe=("healed.data",)))
    assert shared.names() == {"healed.data"}
    assert report.cleared == ["healed.data"]


def test_fresh_files_are_not_read(shared: Shared, unreadable: set[str]) -> None:
    shared.file("bad.data", seconds=10)
    unreadable.add("bad.data")
    assert shared.round(Order(probes=10)).probed_files == 0


def test_a_round_reads_no_longer_than_its_time(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        shared.file(f"{number}.data", 1)
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr(probing, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert shared.round(Order(probes=1000)).probed_files == 3


# --- A full disk ----------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    said = SimpleNamespace(f_blocks=100, f_bavail=1)
    monkeypatch.setattr(os, "fstatvfs", lambda _: said)
    return said


def test_a_full_disk_costs_a_little_at_the_second_time(
    shared: Shared, disk: SimpleNamespace
) -> None:
    for number in range(40):
        shared.file(f"{number}.data", 20, seconds=20_000 - number)
    first = shared.round(disk_full_at=0.97)
    assert (first.disk_full, len(shared.names())) == (True, 40)
    second = shared.round(Order(disk_was_full=True), disk_full_at=0.97)
    assert second.deleted_files["disk"] == 2
    assert "0.data" not in shared.names()
    disk.f_bavail = 10
    third = shared.round(Order(disk_was_full=True), disk_full_at=0.97)
    assert (third.disk_full, third.deleted_files["disk"]) == (False, 0)


def test_a_full_disk_never_empties_the_directory(shared: Shared, disk: SimpleNamespace) -> None:
    assert disk.f_bavail == 1
    for number in range(20):
        shared.file(f"{number}.data", 20)
    for _ in range(60):
        shared.round(Order(disk_was_full=True), disk_full_at=0.97)
    assert sum(path.stat().st_size for path in shared.path.glob("*.data")) == 240


@pytest.mark.parametrize(("blocks", "free"), [(0, 0), (10, 11)])
def test_impossible_sizes_are_no_full_disk(
    shared: Shared, disk: SimpleNamespace, blocks: int, free: int
) -> None:
    disk.f_blocks, disk.f_bavail = blocks, free
    assert not shared.round(disk_full_at=0.5).disk_full


# --- The right directory --------------------------------------------------------------------------


def test_without_its_marker_a_directory_is_not_touched(shared: Shared) -> None:
    for number in range(20):
        shared.file(f"{number}.data")
    (shared.path / MARKER).unlink()
    report = one_round(settings(shared.path), Order(), lambda _: None)
    assert report.refused == f"{shared.path} has no {MARKER}"
    assert report.errors["guard"] == 1
    assert len(shared.names()) == 20


def test_a_folder_is_no_mount(shared: Shared) -> None:
    for number in range(20):
        shared.file(f"{number}.data")
    report = one_round(settings(shared.path, filesystem="fuse"), Order(), lambda _: None)
    assert report.refused == f"{shared.path} is no mount, not fuse"
    assert len(shared.names()) == 20


def test_a_mount_of_another_kind_is_refused() -> None:
    with pytest.raises(WrongDirectoryError, match="/proc is proc, not fuse"):
        open_directory("/proc", filesystem="fuse", marker="stat")
    os.close(open_directory("/proc", filesystem="proc", marker="stat"))


def test_the_last_mount_hides_those_before() -> None:
    lines = [f"1 0 0:{n} / /mnt rw - {kind} x rw" for n, kind in enumerate(("ext4", "fuse"))]
    assert filesystem_at("/mnt", "\n".join(lines)) == "fuse"


def test_a_mount_without_a_server_fails_the_round(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(os, "scandir", gone)
    report = one_round(settings(shared.path), Order(), lambda _: None)
    assert "Transport endpoint" in report.refused
    assert report.errors["mount"] == 1


# --- The command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--high-bytes=5", "--low-bytes=5"], "--low-bytes=5 is not below --high-bytes=5"),
        (["--high-bytes=5", "--low-bytes=1", "--marker=x.data"], "looks like something that is"),
        (["--high-bytes=5", "--low-bytes=1", "--suffix="], "cannot be empty"),
        (["--high-bytes=5"], "--low-bytes"),
    ],
)
def test_wrong_flags_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--directory=/d", "--marker=.m", *flags]
    with pytest.raises(SystemExit):
        settings_module.settings(given)
    assert said in capsys.readouterr().err


def test_what_is_told_is_what_is_read() -> None:
    report = Report(files=3, unreadable=["a"])
    assert Report.read(report.line()) == report
    order = Order(ripe=("a",), known=("b",), part=3, disk_was_full=True)
    assert Order.read(order.line()) == order
