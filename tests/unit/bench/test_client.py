"""Pages and answers that come late, in drops, in part, or without end."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kascade.bench import client
from kascade.bench.client import UnreachableError, fetch

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer one connection, whose client may leave before the end."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            try:
                answer(connection)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/metrics"
        thread.join()


def drip(connection: socket.socket) -> None:
    connection.sendall(HEAD % 1000)
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def test_an_answer_in_drops_has_the_time_of_any_answer() -> None:
    begin = time.monotonic()
    with server(drip) as url, pytest.raises(UnreachableError) as caught:
        fetch(url, timeout_seconds=0.3)
    assert str(caught.value) == f"{url} did not answer within 0.3 s"
    assert time.monotonic() - begin < 5


def test_silence_is_the_same_sentence() -> None:
    with server(lambda _: time.sleep(0.6)) as url, pytest.raises(UnreachableError) as caught:
        fetch(url, timeout_seconds=0.2)
    assert str(caught.value) == f"{url} did not answer within 0.2 s"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (HEAD % 10 + b"short", "did not answer: IncompleteRead"),
        (HEAD % 200 + b"x" * 200, "did not answer: it sent more than 0 MiB"),
    ],
)
def test_an_answer_that_is_cut_or_too_long_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, words: str
) -> None:
    monkeypatch.setattr(client, "_MAX_BYTES", 100)
    with server(lambda c: c.sendall(sent)) as url, pytest.raises(UnreachableError, match=words):
        fetch(url)


def refuse_in_drops(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 250\r\n\r\n")
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def test_an_error_in_drops_is_quoted_as_far_as_it_came() -> None:
    begin = time.monotonic()
    with server(refuse_in_drops) as url, pytest.raises(UnreachableError, match="answered 500: xx"):
        fetch(url, timeout_seconds=0.3)
    assert time.monotonic() - begin < 5


def test_a_whole_answer_is_its_text() -> None:
    with server(lambda c: c.sendall(HEAD % 4 + "aé\n".encode())) as url:
        assert fetch(url) == "aé\n"
