"""Mooncake traces: what is read, what is rejected and in which words."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kascade.bench.text import TextSource
from kascade.bench.trace import (
    Cut,
    InvalidTraceError,
    parse_trace,
    read_trace,
    trace_workload,
)

SMALL = Path(__file__).parents[2] / "data" / "traces" / "small.jsonl"
GOOD = {"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}
SOURCE = TextSource(seed=1, salt="s", characters_per_token=1.0)


def line(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def test_equal_hash_ids_become_equal_text_and_moments_follow_the_speed() -> None:
    rows = read_trace(SMALL, 10)
    workload = trace_workload(rows, Cut(requests=5, speed=2.0, max_model_len=8192))
    prompts = [SOURCE.prompt(request.blocks) for request in workload.requests]
    assert [len(prompt) for prompt in prompts] == [1200, 1536, 600, 1100, 8187]
    assert prompts[0][:1024] == prompts[1][:1024] == prompts[4][:1024]
    assert prompts[0][1024:] != prompts[1][1024:1200]
    assert prompts[0] == prompts[4][:1200]
    assert prompts[2][:512] == prompts[3][:512]
    assert prompts[2][512:] != prompts[3][512:600]
    assert [r.at_seconds for r in workload.requests] == [0.0, 0.125, 0.125, 0.45, 0.75]
    assert workload.notes == (
        "1 of 5 prompts were cut at their end to fit; the beginning, which caches share, is whole",
    )


def test_caps_bound_inputs_outputs_and_the_number_of_requests() -> None:
    cut = Cut(requests=4, speed=1.0, max_model_len=4096, max_input_tokens=700, max_output_tokens=5)
    requests = trace_workload(read_trace(SMALL, 4), cut).requests
    assert [(r.input_tokens, r.output_tokens) for r in requests] == [
        (700, 5),
        (700, 4),
        (600, 3),
        (700, 5),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1: not JSON; a line is one JSON object with timestamp, input_length"),
        ("[" * 100_000, "line 1: nested too deeply; a line is one flat JSON object"),
        ("[1]", "line 1: a list, not a JSON object with timestamp"),
        ('{"timestamp": 0}', "line 1: input_length, output_length, hash_ids missing"),
        (line(timestamp=-1), "line 1: timestamp is -1, not milliseconds from 0 to 1,000,000,0"),
        (line(timestamp=10**400), f"line 1: timestamp is 1{'0' * 36}..., not milliseconds"),
        (line(timestamp=10**16), "line 1: timestamp is 10000000000000000, not milliseconds"),
        (line(timestamp="now"), 'line 1: timestamp is "now", not milliseconds'),
        (line(timestamp=True), "line 1: timestamp is true, not milliseconds"),
        (line(timestamp=float("nan")), "line 1: timestamp is NaN, not milliseconds"),
        (line(input_length=0), "line 1: input_length is 0, not a number of tokens from 1"),
        (line(input_length=10**9), "line 1: input_length is 1000000000, not a number of tokens"),
        (line(output_length=1.5), "line 1: output_length is 1.5, not a number of tokens"),
        (line(hash_ids="1,2"), 'line 1: hash_ids is "1,2", not a list of integers'),
        (line(hash_ids=[1, "2"]), 'line 1: hash_ids is [1, "2"], not a list of integers'),
        (line(hash_ids=[1]), "line 1: 1 hash_ids for input_length 600; blocks of 512 tokens"),
        (
            f"{line(timestamp=9)}\n{line(timestamp=5)}",
            "line 2: timestamp is 5, after 9; sort the lines by it",
        ),
        ("", "no request in it; a line is a JSON object with timestamp"),
    ],
)
def test_a_malformed_line_is_a_sentence(text: str, words: str) -> None:
    with pytest.raises(InvalidTraceError) as caught:
        parse_trace(text.splitlines(), "x.jsonl")
    message = str(caught.value)
    assert message.startswith("x.jsonl: the trace cannot be replayed\n")
    assert words in message


def test_all_mistakes_come_at_once_up_to_ten() -> None:
    with pytest.raises(InvalidTraceError) as caught:
        parse_trace([line(input_length=0, output_length=0)] * 20, "x.jsonl")
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  the rest was not read"


def test_a_file_that_is_not_there_or_not_text_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.jsonl", 1)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidTraceError, match="it is not UTF-8 text"):
        read_trace(tmp_path / "bytes.jsonl", 1)


@pytest.mark.parametrize("name", ["mooncake_conversation.jsonl", "mooncake_synthetic.jsonl"])
def test_the_published_traces_are_read_and_written_out(name: str) -> None:
    if "KASCADE_DATA" not in os.environ:
        pytest.skip("KASCADE_DATA names no folder with the published traces")
    path = Path(os.environ["KASCADE_DATA"], "traces", name)
    rows = read_trace(path, 200)
    cut = Cut(requests=200, speed=10.0, max_model_len=8192, max_output_tokens=16)
    requests = trace_workload(rows, cut).requests
    assert len(requests) == 200
    for request in requests:
        assert len(SOURCE.prompt(request.blocks)) == request.input_tokens <= 8191
