"""Calls to AWS over the wire: paged to the end, tried again, and bounded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from kascade.preflight.account import Account, CannotLookError

Reply = tuple[int, dict[str, Any]]
Respond = Callable[[str, dict[str, Any]], Reply]


class Server:
    """Speaks AWS's JSON protocol on the loopback."""

    def __init__(self) -> None:
        self.respond: Respond = lambda *_: (200, {})
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.requests += 1
                length = int(self.headers["Content-Length"])
                operation = self.headers["X-Amz-Target"].rpartition(".")[2]
                body = json.loads(self.rfile.read(length) or b"{}")
                status, answer = outer.respond(operation, body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    url = f"http://127.0.0.1:{found.http.server_port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    yield found
    found.http.shutdown()
    found.http.server_close()


@pytest.fixture
def account() -> Account:
    return Account(boto3.session.Session(), region="us-west-2")


def _ask(account: Account, **more: Any) -> list[Any]:
    return account.items(
        "service-quotas", "ListServiceQuotas", "Quotas", ServiceCode="sagemaker", **more
    )


def _page(_: str, body: dict[str, Any]) -> Reply:
    number = int(body.get("NextToken", "0"))
    answer: dict[str, Any] = {"Quotas": [{"QuotaName": f"quota {number}"}]}
    if number < 29:
        answer["NextToken"] = str(number + 1)
    return 200, answer


def test_thirty_pages_are_read_to_the_last(server: Server, account: Account) -> None:
    server.respond = _page
    assert [one["QuotaName"] for one in _ask(account)] == [f"quota {n}" for n in range(30)]


def test_reading_ends_with_what_was_wanted(server: Server, account: Account) -> None:
    server.respond = _page
    assert len(_ask(account, enough=lambda found: len(found) >= 3)) == 3
    assert server.requests == 3


def test_throttling_is_tried_again_and_then_said(
    server: Server, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    throttled: Reply = (400, {"__type": "TooManyRequestsException", "message": "slow down"})
    answers = [throttled, throttled, (200, {"Quotas": [{"QuotaName": "it"}]})]
    server.respond = lambda *_: answers.pop(0)
    assert len(_ask(account)) == 1
    server.respond = lambda *_: throttled
    before = server.requests
    with pytest.raises(CannotLookError, match="none of 4 attempts"):
        account.items("service-quotas", "ListServices", "Services")
    assert server.requests - before == 4


def test_who_asks_for_the_same_gets_the_same_answer(server: Server, account: Account) -> None:
    def slowly(operation: str, body: dict[str, Any]) -> Reply:
        time.sleep(0.1)
        return _page(operation, {**body, "NextToken": "29"})

    server.respond = slowly
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda _: _ask(account), range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert server.requests == 1


def test_an_answer_that_is_none_of_aws(server: Server, account: Account) -> None:
    server.respond = lambda *_: (200, {"Quotas": "many"})
    with pytest.raises((CannotLookError, TypeError, AttributeError)):
        [quota["QuotaName"] for quota in _ask(account)]


def test_botocores_own_stub_sees_the_same_calls(server: Server, account: Account) -> None:
    client = account._client("lambda")
    limits = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
    with Stubber(client) as stub:
        stub.add_response("get_account_settings", {"AccountLimit": limits}, {})
        assert account.call("lambda", "GetAccountSettings") == {"AccountLimit": limits}
        stub.assert_no_pending_responses()
    with Stubber(client) as stub:
        stub.add_client_error("list_functions", "AccessDeniedException", http_status_code=403)
        with pytest.raises(CannotLookError) as refused:
            account.items("lambda", "ListFunctions", "Functions")
    assert refused.value.right == "lambda:ListFunctions"
    assert server.requests == 0
