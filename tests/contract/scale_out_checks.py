"""Loads the rendered middleware into vLLM's own server, and asks what `--enable-scale-out` opens.

Runs in the engine environment (`make engine-env`), which holds vLLM and nothing of ours:

    .venv-engine/bin/python -m tests.contract.scale_out_checks < job.json > results.json

A job is {"argv": [...], "env": {...}, "package": NAME, "files": {NAME: TEXT}}. No engine starts.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}

FLAG = "--enable-scale-out"
Document = dict[str, Any]


def statuses(argv: list[str]) -> dict[str, int]:
    """Ask every path that takes a POST, with a body that none of them takes."""
    from starlette.testclient import TestClient
    from vllm.entrypoints.launchers.app import build_app
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(argv)
    app = build_app(parsed, ("generate",))
    client = TestClient(app, raise_server_exceptions=False)
    paths = {
        getattr(route, "path", "")
        for route in app.routes
        if "POST" in (getattr(route, "methods", None) or ())
    }
    return {path: client.post(path, json={}).status_code for path in sorted(paths)}


def main() -> None:
    """Read the job, print the results and nothing else."""
    job = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        package = Path(folder, job["package"])
        package.mkdir()
        for name, text in job["files"].items():
            (package / name).write_text(text)
        sys.path.insert(0, folder)
        os.environ |= job["env"]
        argv: list[str] = job["argv"]
        open_ = [word for word in argv if not word.startswith("--middleware=")]
        results = {
            "as rendered": statuses(argv),
            "without the middleware": statuses(open_),
            "without the flag": statuses([word for word in open_ if word != FLAG]),
        }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
