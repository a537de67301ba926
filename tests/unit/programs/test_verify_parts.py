"""Prompts, pages of metrics, listings and the table."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kascade.programs import program_files
from kascade.programs.verify import client
from kascade.programs.verify.causes import Cause
from kascade.programs.verify.client import (
    UnreachableError,
    complete,
    get_json,
    get_object,
    get_text,
)
from kascade.programs.verify.directory import LISTING, look_below, no_directory, read_listing
from kascade.programs.verify.facts import Facts
from kascade.programs.verify.metrics import Page, parse
from kascade.programs.verify.prompt import words
from kascade.programs.verify.reading import (
    EXTERNAL_HITS,
    LOAD_COMPLETED,
    LOAD_SUBMITTED,
    LOCAL_HITS,
    LOOKED_UP,
    PROMPT_TOKENS,
    STORE_COMPLETED,
    STORE_SUBMITTED,
    delta,
)
from kascade.programs.verify.report import FAILED, OK, OPEN, Check, Diagnosis, Report
from kascade.programs.verify.target import Target
from tests.unit.programs.test_verify_diagnosis import A

METRICS = Path(__file__).parents[2] / "data" / "metrics"


def page(name: str) -> Page:
    return parse((METRICS / name).read_text())


def test_prompts_share_no_beginning() -> None:
    every = [words(seed, purpose, 50) for seed in (1, 2) for purpose in ("a", "b")]
    assert len({prompt[:20] for prompt in every}) == 4
    assert words(1, "a", 50) == every[0]
    assert words(1, "a", 60).startswith(every[0])


def test_counters_of_the_real_pages() -> None:
    vllm = page("vllm-0.32.0.txt")
    assert vllm.total(PROMPT_TOKENS) == 26100
    assert vllm.total(EXTERNAL_HITS) == 12288
    assert vllm.total(LOCAL_HITS) == 5888
    assert vllm.label("vllm:cache_config_info", "cache_dtype") == "auto"
    writer = page("lmcache-0.5.6-writer.txt")
    assert (writer.total(STORE_SUBMITTED), writer.total(STORE_COMPLETED)) == (23, 23)
    reader = page("lmcache-0.5.6-reader.txt")
    assert reader.total(LOOKED_UP) >= reader.total(LOAD_SUBMITTED) > 0
    assert reader.total(LOAD_SUBMITTED) == reader.total(LOAD_COMPLETED)


def test_labels_with_commas_braces_and_quotes() -> None:
    found = parse('a{x="1,{2}",y="q\\"q"} 3e2 1700000000\nb NaN\nc{ 1\n# d 4\n')
    assert found.total("a", x="1,{2}") == 300
    assert found.label("a", "y") == 'q\\"q'
    assert found.total("c") == found.total("d") == 0


def test_a_counter_of_a_restarted_server_begins_at_0() -> None:
    before, after = parse("a 10\n"), parse("a 4\n")
    assert delta(before, after, "a") == 4
    assert delta(parse(""), after, "a") == 4


def test_a_folder_is_looked_into_below_the_mount(tmp_path: Path) -> None:
    base = tmp_path / "model" / "tp1"
    (base / ".tmp-pod-a").mkdir(parents=True)
    (base / ".tmp-pod-b").mkdir()
    (base / "x@1.data").touch()
    (base / "note.txt").touch()
    seen = look_below(str(tmp_path))(A)
    assert not isinstance(seen, str)
    assert seen.tmp_dirs == {".tmp-pod-a", ".tmp-pod-b"}
    assert seen.chunks == {"x@1.data"}
    printed = subprocess.run(
        [sys.executable, "-c", LISTING, str(base)], capture_output=True, text=True, check=True
    ).stdout
    listed = read_listing(printed, "there")
    assert (listed.tmp_dirs, len(listed.chunks)) == (seen.tmp_dirs, 1)


def test_a_folder_that_is_not_there_or_is_another_one(tmp_path: Path) -> None:
    assert "is no directory here" in str(look_below(str(tmp_path / "no"))(A))
    nobody = Facts(name="x", engine=A.engine, cache=None)
    for facts in (A, nobody):
        seen = look_below(str(tmp_path))(facts)
        assert not isinstance(seen, str)
        assert not seen.tmp_dirs
    with pytest.raises(ValueError, match="listing"):
        read_listing(json.dumps({"tmp": []}), "there")


def test_a_tier_without_a_directory_is_not_looked_into(tmp_path: Path) -> None:
    """HyperPod's tiered storage: an empty listing would be taken for a mount that differs."""
    assert A.cache is not None
    managed = replace(
        A, cache=replace(A.cache, adapter="sagemaker-hyperpod", base_path="", tmp_dir="")
    )
    assert "is sagemaker-hyperpod, which has no directory" in str(
        look_below(str(tmp_path))(managed)
    )
    assert "which has no directory" in no_directory(managed)
    assert no_directory(A) == ""
    assert "names no directory" in no_directory(replace(A, cache=None))


def check(verdict: str) -> Check:
    return Check(name="a > b: x", measured="1", wanted="2", verdict=verdict)


def test_the_exit_code_follows_the_checks() -> None:
    def report(*verdicts: str) -> Report:
        checks = tuple(map(check, verdicts))
        return Report(engine="m", seed=1, prompt_tokens=9, checks=checks)

    assert report(OK, OPEN).exit_code == 0
    assert report(OK, FAILED).exit_code == 1
    assert "all 1 checks passed" in report(OK, OPEN).render()
    assert "1 of 2 checks failed" in report(OK, FAILED, OPEN).render()


def test_causes_follow_the_table_and_are_told_once() -> None:
    def diagnosis(writer: str, reader: str, seen: tuple[str, str]) -> Diagnosis:
        cause = Cause(kind="kind", what="w " * 60, writer=seen[0], reader=seen[1], change="do it")
        return Diagnosis(writer=writer, reader=reader, causes=(cause,))

    text = Report(
        engine="m",
        seed=1,
        prompt_tokens=9,
        checks=(check(FAILED),),
        diagnoses=(diagnosis("a", "b", ("1", "2")), diagnosis("b", "a", ("2", "1"))),
    ).render()
    assert "Why b did not answer from what a computed:" in text
    assert "      a: 1\n      b: 2\n      to change: do it\n" in text
    assert "And a did not answer from what b computed likewise." in text
    assert max(map(len, text.splitlines())) <= 100


def test_every_file_of_the_program_travels() -> None:
    files = program_files("verify")
    assert {"__init__.py", "__main__.py", "target.py"} <= files.keys()
    # The API server takes no more than 1 MiB, and CloudFormation's request holds it as well.
    assert sum(map(len, files.values())) < 100_000


def test_a_server_that_says_nothing_ends_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(UnreachableError, match=r"did not answer within 0\.2 s"):
            get_text(f"{url}/metrics", seconds=0.2)
        with pytest.raises(UnreachableError, match=r"did not answer within 0\.2 s"):
            complete(url, model="m", prompt="p", tokens=1, seconds=0.2)
        assert time.monotonic() - started < 5


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@contextlib.contextmanager
def answering(first: bytes, drip: bytes = b"") -> Iterator[str]:
    """Send an answer to the first request, and drops of more every 50 ms, for 1.5 s."""

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(first)
            for _ in range(30 if drip else 0):
                try:
                    connection.sendall(drip)
                except OSError:
                    return
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (HEAD, b": nothing yet\n\n"),
        (HEAD, b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"HTTP/1.1 ", b"2"),
        (b"HTTP/1.1 503 No\r\n\r\n", b"x"),
    ],
)
def test_a_server_that_drips_ends_at_the_deadline(first: bytes, drip: bytes) -> None:
    with answering(first, drip) as url:
        started = time.monotonic()
        with pytest.raises(UnreachableError, match=r"did not answer within 0\.3 s"):
            complete(url, model="m", prompt="p", tokens=1, seconds=0.3)
        assert time.monotonic() - started < 1
    with answering(first, drip) as url:
        started = time.monotonic()
        with pytest.raises(UnreachableError, match=r"did not answer within 0\.3 s"):
            get_text(url, seconds=0.3)
        assert time.monotonic() - started < 1


def test_a_page_without_end_or_cut_short_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LARGEST_PAGE", 1 << 20)
    monkeypatch.setattr(client, "_LONGEST_LINE", 1 << 10)
    with (
        answering(HEAD + b"x" * (1 << 20) + b"yz") as url,
        pytest.raises(UnreachableError, match="answered more than 1 MiB"),
    ):
        get_text(url, seconds=5)
    with (
        answering(HEAD + b"x" * (1 << 11)) as url,
        pytest.raises(UnreachableError, match="answered a line of more than"),
    ):
        complete(url, model="m", prompt="p", tokens=1, seconds=5)
    with (
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx") as url,
        pytest.raises(UnreachableError, match="does not answer: IncompleteRead"),
    ):
        get_text(url, seconds=5)
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    )
    with answering(chunked) as url:
        assert get_text(url, seconds=5) == "abcd"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://a", "has to look like http://host:port"),
        ("nothing", "has to look like http://host:port"),
        ("http://127.0.0.1:1/x", "does not answer"),
        ("http://127.0.0.1:99999", "its port has to be a whole number from 1 to 65535"),
        ("http://127.0.0.1:0", "its port has to be"),
        ("http://127.0.0.1:abc", "its port has to be"),
        ("http://[::1", "is no address of a server"),
        ("http://a b", "a space or a control character"),
        ("http://a\0b", "a space or a control character"),
        ("http://127.0.0.1:80/x\0", "a space or a control character"),
        ("http://a..b:80", "does not answer"),
        ("http://127.0.0.1:1/\u00e4", "does not answer"),
    ],
)
def test_what_is_no_server_is_a_sentence(url: str, words: str) -> None:
    with pytest.raises(UnreachableError, match=words):
        get_json(url, seconds=1)


ONE = {"name": "a", "engine_url": "http://127.0.0.1:1", "lmcache_url": "http://127.0.0.1:2"}
TWO = {"name": "b", "engine_url": "http://127.0.0.1:3", "lmcache_url": "https://b"}
TARGET = {"engine": "e", "model": "m", "chunk_size": 256, "replicas": [TWO, ONE]}


def test_a_target_keeps_the_order_of_its_replicas() -> None:
    target = Target.from_json(json.dumps(TARGET | {"router_url": None, "cache_directory": "/c"}))
    assert [replica.name for replica in target.replicas] == ["b", "a"]
    assert Target.from_json(target.to_json()) == target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no", ["it is no JSON"]),
        ("[" * 200_000, ["nested too deeply"]),
        ("[1]", ["it is [1]; it has to be one JSON object"]),
        ("{}", [f"{n} is missing" for n in ("engine", "model", "chunk_size", "replicas")]),
        (
            json.dumps(TARGET | {"engine": "", "model": 3, "chunk_size": True, "more": 1}),
            ['engine is "" and', "model is 3 and", "chunk_size is true and", '"more" is no field'],
        ),
        (json.dumps(TARGET | {"chunk_size": 0}), ["chunk_size is 0 and"]),
        (json.dumps(TARGET | {"chunk_size": 2.0}), ["chunk_size is 2.0 and"]),
        (json.dumps(TARGET | {"router_url": "http://h?a=1"}), ["without a query"]),
        (json.dumps(TARGET | {"replicas": {}}), ["replicas is {} and"]),
        (
            json.dumps(TARGET | {"replicas": [1, {"name": "x", "port": 2}]}),
            [
                "replicas[0] is 1 and",
                "replicas[1].engine_url is missing",
                "replicas[1].lmcache_url is missing",
                '"replicas[1].port" is no field',
            ],
        ),
        (
            json.dumps(TARGET | {"replicas": [ONE, {**ONE, "engine_url": "http://h:99999"}]}),
            [
                'replicas[1].name is "a" like replicas[0].name',
                'replicas[1].engine_url is "http://h:99999", no address of a server',
                'replicas[1].lmcache_url is "http://127.0.0.1:2" like replicas[0].lmcache_url',
            ],
        ),
        (
            json.dumps(TARGET | {"router_url": 1, "router_metrics_url": "x", "cache_directory": 2}),
            ["router_url is 1 and", 'router_metrics_url is "x", no', "cache_directory is 2 and"],
        ),
    ],
)
def test_every_mistake_in_a_target_is_named(text: str, words: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        Target.from_json(text)
    said = str(caught.value)
    assert all(word in said for word in words), said


def test_json_that_is_no_object_is_a_sentence() -> None:
    length = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    with (
        answering(length + b"[1]") as url,
        pytest.raises(UnreachableError, match="answered something other than a JSON object"),
    ):
        get_object(url, seconds=5)
    for event, said in (
        (b"[1]", "other than a JSON object"),
        (b"{no", "other than a JSON object"),
        (b'{"choices": [1]}', "of another form"),
        (b'{"usage": [1]}', "of another form"),
        (b'{"choices": [{"token_ids": 3}]}', "of another form"),
    ):
        with (
            answering(HEAD + b"data: " + event + b"\n\n") as url,
            pytest.raises(UnreachableError, match=said),
        ):
            complete(url, model="m", prompt="p", tokens=1, seconds=5)
