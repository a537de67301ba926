"""A replica without an engine: our middleware, and behind it an app that tells what reached it.

Started by test_tenant_gateways.py, once a replica: the environment is what an engine's would be.

    python -m tests.contract.salted_stub PORT
"""

import asyncio
import json
import sys
from typing import Any

import uvicorn

from kascade.programs.tenancy import TenantSalt

TOKENS = [1, 2, 3, 4]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer as vLLM would, with the salt as the text of a completion."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    path = scope["path"]
    given = json.loads(body or b"{}")
    if path == "/v1/completions" and given.get("stream"):
        await stream(send, given)
        return
    answers: dict[str, Any] = {
        "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model"}]},
        "/v1/completions": {"choices": [{"index": 0, "text": given.get("cache_salt")}]},
        "/v1/chat/completions": {"choices": [{"index": 0, "text": given.get("cache_salt")}]},
        "/v1/completions/render": [{"token_ids": TOKENS}],
        "/v1/chat/completions/render": {"token_ids": TOKENS},
    }
    await answer(send, 200, json.dumps(answers.get(path, {})).encode())


async def stream(send: Any, given: Any) -> None:
    """Send three events, a second apart."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(3):
        if number:
            await asyncio.sleep(1)
        event = json.dumps({"choices": [{"text": given["cache_salt"]}], "number": number})
        piece = f"data: {event}\n\n".encode()
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def answer(send: Any, status: int, body: bytes) -> None:
    """Send a whole answer."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(TenantSalt(app), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
