"""What becomes of a load generator that does not do its work, and of its records."""

import json
import time
from pathlib import Path

import pytest

from kascade.bench import load
from kascade.bench.load import OPENER, Generator, LoadError, Request, Sample, samples

PAYLOAD = {"model": "m", "prompt": "p", "max_tokens": 4}
REQUESTS = [
    Request(session=OPENER, at_seconds=0.0, pause_seconds=None, payload=PAYLOAD),
    Request(session="a", at_seconds=1.0, pause_seconds=None, payload=PAYLOAD),
    Request(session="a", at_seconds=None, pause_seconds=0.5, payload=PAYLOAD),
    Request(session="b", at_seconds=2.0, pause_seconds=None, payload=PAYLOAD),
]


def generator(tmp_path: Path, script: str) -> Generator:
    program = tmp_path / "aiperf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Generator(
        program=program, model="m", request_timeout_seconds=0.1, scratch=tmp_path / "scratch"
    )


def test_one_that_stops_is_quoted(tmp_path: Path) -> None:
    broken = generator(tmp_path, "echo starting; echo no such flag >&2; exit 2")
    with pytest.raises(LoadError) as caught:
        broken.send("cold", ["http://127.0.0.1:9"], REQUESTS, print)
    assert str(caught.value).splitlines() == [
        "the load generator sent nothing; its last words:",
        "  starting",
        "  no such flag",
    ]


def test_one_that_hangs_is_ended_with_all_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough, on a busy machine too, for a shell to begin.
    monkeypatch.setattr(load, "_SLACK_SECONDS", 3.0)
    hanging = generator(tmp_path, f"sleep 600 & echo $! > {tmp_path / 'child'}; wait")
    begin = time.monotonic()
    with pytest.raises(LoadError):
        hanging.send("cold", ["http://127.0.0.1:9"], REQUESTS, lambda _: None)
    assert time.monotonic() - begin < 60
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_one_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    missing = Generator(
        program=tmp_path / "none", model="m", request_timeout_seconds=1, scratch=tmp_path / "s"
    )
    with pytest.raises(LoadError, match="none cannot be started: No such file"):
        missing.send("cold", ["http://127.0.0.1:9"], REQUESTS, print)


def test_shots_become_lines_with_moments_and_pauses_in_milliseconds(tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        generator(tmp_path, "exit 0").send("cold", ["http://127.0.0.1:9"], REQUESTS, print)
    lines = (tmp_path / "scratch" / "cold" / "requests.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(r["session_id"], r.get("timestamp"), r.get("delay")) for r in rows] == [
        (OPENER, 0.0, None),
        ("a", 1000.0, None),
        ("a", None, 500.0),
        ("b", 2000.0, None),
    ]
    assert all(row["payload"] == PAYLOAD for row in rows)


def test_records_are_matched_to_shots_and_what_is_missing_failed(tmp_path: Path) -> None:
    second = 1_000_000_000
    rows = [
        {
            "metadata": {"conversation_id": "a", "turn_index": 0, "request_start_ns": 5 * second},
            "metrics": {
                "time_to_first_token": {"value": 250.0},
                "inter_token_latency": {"value": 20.0},
                "inter_chunk_latency": {"value": [10.0, 30.0]},
                "request_latency": {"value": 310.0},
                "input_sequence_length": {"value": 1},
                "output_sequence_length": {"value": 4},
            },
        },
        {
            "metadata": {"conversation_id": "a", "turn_index": 1, "request_start_ns": 6 * second},
            "metrics": {},
            "error": {"type": "TimeoutError", "message": "no\n answer"},
        },
    ]
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = samples("load", REQUESTS, records, tmp_path / "log.txt")
    assert found[1] == Sample(
        phase="load",
        session="a",
        turn=0,
        start_seconds=0.0,
        ttft_seconds=0.25,
        itl_seconds=0.02,
        longest_gap_seconds=0.03,
        e2e_seconds=0.31,
        input_tokens=1,
        output_tokens=4,
        error=None,
    )
    assert (found[2].start_seconds, found[2].error) == (1.0, "no answer")
    assert found[3].error == "not sent, or not answered before the run's time was up"
