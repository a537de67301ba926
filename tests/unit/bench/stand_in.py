"""Plays aiperf: takes its arguments and requests, sends them in turn, leaves its records.

It keeps no moments and measures roughly; tests/contract runs the real one.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> int:
    value = dict(pairwise(argv))
    urls = [argv[place + 1] for place, word in enumerate(argv) if word == "--url"]
    records = Path(value["--artifact-dir"], "profile_export.jsonl")
    records.parent.mkdir(parents=True)
    turns: dict[str, int] = {}
    with records.open("w") as out:
        for number, line in enumerate(Path(value["--input-file"]).read_text().splitlines()):
            request = json.loads(line)
            session = request["session_id"]
            metadata: dict[str, Any] = {
                "conversation_id": session,
                "turn_index": turns.get(session, 0),
            }
            turns[session] = turns.get(session, 0) + 1
            headers = dict([value["--header"].split(":")]) if "--header" in value else {}
            row = send(urls[number % len(urls)], request["payload"], metadata, headers)
            out.write(json.dumps(row) + "\n")
    return 0


def send(
    url: str, payload: dict[str, Any], metadata: dict[str, Any], headers: dict[str, str]
) -> dict[str, Any]:
    metadata["request_start_ns"] = time.time_ns()
    begin, first = time.perf_counter(), 0.0
    usage: dict[str, int] = {}
    request = urllib.request.Request(  # noqa: S310
        f"{url}/v1/completions",
        json.dumps(payload).encode(),
        {"Content-Type": "application/json", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            for line in answer:
                if line.startswith(b"data: {"):
                    first = first or time.perf_counter()
                    usage = json.loads(line[6:]).get("usage") or usage
    except urllib.error.HTTPError as error:
        return {"metadata": metadata, "metrics": {}, "error": {"message": error.read().decode()}}
    end = time.perf_counter()
    count = usage["completion_tokens"]
    metrics = {
        "time_to_first_token": 1000 * (first - begin),
        "request_latency": 1000 * (end - begin),
        "inter_token_latency": 1000 * (end - first) / max(1, count - 1),
        "input_sequence_length": usage["prompt_tokens"],
        "output_sequence_length": count,
    }
    return {"metadata": metadata, "metrics": {k: {"value": v} for k, v in metrics.items()}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
