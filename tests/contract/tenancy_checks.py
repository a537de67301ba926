"""Loads the rendered middleware into vLLM's own server and asks it, as tenants and as nobody.

Runs in the engine environment (`make engine-env`), which holds vLLM and nothing of ours:

    .venv-engine/bin/python -m tests.contract.tenancy_checks < job.json > results.json

A job is what one engine's container was rendered with: {"argv": [...], "env": {...}, "packages":
{NAME: {FILE: TEXT}}, "package": NAME}, the last being the one that is asked about. The app, its
routes, its layers and its request classes are vLLM's; in place of the engine stands a recorder. No
engine is started.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}

Document = dict[str, Any]

TURN = [{"role": "user", "content": "hello"}]
PROMPTS: dict[str, Document] = {
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
    "/v1/chat/completions/batch": {"messages": [TURN]},
}
"""What a path wants instead of messages."""


def body_for(path: str) -> Document:
    """Return a body as a client might send it, with a salt of the client's own."""
    prompt = PROMPTS.get(path, {"messages": TURN})
    return {"model": "m", "max_tokens": 4, "cache_salt": "mallory", **prompt}


TEAPOT = 418


class Recorder:
    """Stands where vLLM's serving classes stand: notes each request's salt, answers 418."""

    def __init__(self) -> None:
        self.salts: list[str | None] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from vllm.entrypoints.serve.engine.protocol import ErrorInfo, ErrorResponse

        async def answer(request: Any, *_: Any) -> Any:
            self.salts.append(request.cache_salt)
            if getattr(request, "stream", False):
                return pieces()
            return ErrorResponse(error=ErrorInfo(message="noted", type="Noted", code=TEAPOT))

        return answer


async def pieces() -> AsyncIterator[str]:
    """Stream something."""
    for number in range(3):
        yield f"data: {number}\n\n"


def routes(app: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and class of the body of every route."""
    for route in app.routes:
        for method in sorted(getattr(route, "methods", None) or ["GET"]):
            field = getattr(route, "body_field", None)
            yield method, route.path, field.field_info.annotation if field else None


def run(job: Document) -> Document:
    """Build the app as `vllm serve` does, and ask it."""
    from starlette.testclient import TestClient
    from vllm.entrypoints.generate.base.protocol import validate_cache_salt
    from vllm.entrypoints.launchers.app import build_app
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(job["argv"])
    app = build_app(parsed, ("generate",))
    recorder = Recorder()
    for name in ("completion", "chat", "chat_batch", "responses"):
        setattr(app.state, f"openai_serving_{name}", recorder)
    app.state.anthropic_serving_messages = recorder
    paths = __import__(f"{job['package']}.paths", fromlist=["SALTED"])
    header = os.environ.get("KASCADE_TENANT_HEADER")
    tenants = os.environ["KASCADE_TENANTS"].split(",")
    for tenant in tenants:
        validate_cache_salt(tenant)
    # An exception of the recorder's side would be an error of this file.
    client = TestClient(app, raise_server_exceptions=True)

    def ask(path: str, *named: str, body: Any = None, **more: Any) -> Document:
        """Ask once; say the status and which salts arrived."""
        recorder.salts.clear()
        given = body_for(path) if body is None else body
        content = given if isinstance(given, (bytes, Iterator)) else json.dumps(given).encode()
        headers = [("content-type", "application/json")]
        headers += [(header, name) for name in named] if header else []
        answer = client.post(path, content=content, headers=headers, **more)
        return {"status": answer.status_code, "salts": list(recorder.salts), "text": answer.text}

    plain = body_for("/v1/completions")
    whole = json.dumps(plain).encode()
    twice = whole[:-1] + b', "cache_salt": "eve"}'
    known = paths.SALTED | paths.OPEN
    every = list(routes(app))
    models = {path: model for method, path, model in every if (method, path) in paths.SALTED}
    return {
        "outermost": [layer.cls.__name__ for layer in app.user_middleware[:2]],
        "missing": sorted(set(known) - {(m, p) for m, p, _ in every}),
        "salted_fields": {p: "cache_salt" in m.model_fields for p, m in models.items()},
        "as_each": {
            path: {tenant: ask(path, tenant) for tenant in tenants} for _, path in paths.SALTED
        },
        "as_nobody": {path: ask(path) for _, path in paths.SALTED},
        "as_unknown": ask("/v1/completions", "zoe"),
        "as_two": ask("/v1/completions", *tenants[:2]),
        "in_pieces": ask("/v1/completions", tenants[0], body=iter([whole[:9], whole[9:]])),
        "twice": ask("/v1/completions", tenants[0], body=twice),
        "streamed": ask("/v1/completions", tenants[0], body={**plain, "stream": True}),
        "no_json": ask("/v1/completions", tenants[0], body=b"{"),
        "closed": {
            f"{method} {path}": client.request(
                method, path.replace("{response_id}", "x"), json={}, headers={}
            ).status_code
            for method, path, _ in every
            if (method, path) not in known
        },
        "health": client.get("/version").status_code,
    }


def main() -> None:
    """Read the job, print the results and nothing else."""
    job = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for name, files in job["packages"].items():
            package = Path(folder, name)
            package.mkdir()
            for file, text in files.items():
                (package / file).write_text(text)
        # As PYTHONPATH does in the pod.
        sys.path.insert(0, folder)
        os.environ |= job["env"]
        results = run(job)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
