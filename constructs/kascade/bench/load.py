"""Sends the load with aiperf, which runs in an environment of its own, and reads its records.

Everything about a request is decided before: aiperf gets finished bodies with their moments and
does what has to be exact, which is sending in time and reading the clock at every token.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kascade.errors import KascadeError
from kascade.programs.verify.client import TENANT_HEADER

VERSION: Final = "0.13.0"
"""The release whose flags and records this module knows."""

OPENER: Final = "opener"
"""Session of a request that opens connections and is not counted."""

_SLACK_SECONDS: Final = 120.0
"""For starting and closing the load generator, seconds on an idle machine."""

_MS: Final = 1000
_NS: Final = 1_000_000_000


class LoadError(KascadeError):
    """The load generator is missing, another release, or gave no records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request ready to be sent.

    Attributes:
        session: Names its session.
        at_seconds: Moment from the start, or None: after the previous one of its session.
        pause_seconds: Time after the previous answer.
        payload: The body, as it goes out.
    """

    session: str
    at_seconds: float | None
    pause_seconds: float | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What became of one request.

    Attributes:
        phase: When it was sent, such as ``cold`` or ``load``.
        session: Session of the workload.
        turn: Place in the session.
        start_seconds: When it was sent, from the phase's first request on.
        ttft_seconds: From sending to the first token, or None where none came.
        itl_seconds: Mean time between tokens, or None with fewer than two.
        longest_gap_seconds: Longest time between two pieces of the answer.
        e2e_seconds: From sending to the last token.
        input_tokens: As the engine counted them.
        output_tokens: As the engine counted them.
        error: Why it failed, or None.
    """

    phase: str
    session: str
    turn: int
    start_seconds: float
    ttft_seconds: float | None
    itl_seconds: float | None
    longest_gap_seconds: float | None
    e2e_seconds: float | None
    input_tokens: int
    output_tokens: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """aiperf and how it is to be used.

    Attributes:
        program: Its command.
        model: What requests call the model.
        request_timeout_seconds: When a request is given up.
        scratch: A folder for its files.
        tenant: Whose requests they are, where the engine keeps tenants apart.
    """

    program: Path
    model: str
    request_timeout_seconds: float
    scratch: Path
    tenant: str | None = None

    def send(
        self,
        phase: str,
        urls: Sequence[str],
        requests: Sequence[Request],
        progress: Callable[[str], None],
    ) -> tuple[Sample, ...]:
        """Send all requests and return what became of them, in the order they were given.

        Raises:
            LoadError: aiperf did not run or left no record.
        """
        folder = self.scratch / phase
        folder.mkdir(parents=True)
        (folder / "requests.jsonl").write_text("".join(_line(request) for request in requests))
        _write_tokenizer(folder / "tokenizer")
        argv = self._argv(folder, urls)
        last = max(request.at_seconds or 0.0 for request in requests)
        pauses = sum(request.pause_seconds or 0.0 for request in requests)
        limit = last + pauses + self.request_timeout_seconds * _longest_session(requests)
        _run(
            argv,
            folder,
            limit + _SLACK_SECONDS,
            lambda done: progress(_count(phase, done, requests)),
        )
        return samples(phase, requests, folder / "out" / "profile_export.jsonl", folder / "log.txt")

    def _argv(self, folder: Path, urls: Sequence[str]) -> list[str]:
        argv = [str(self.program), "profile", "--model", self.model]
        argv += ["--tokenizer", str(folder / "tokenizer"), "--use-server-token-count"]
        for url in urls:
            argv += ["--url", url]
        argv += ["--endpoint-type", "completions", "--streaming"]
        argv += ["--custom-dataset-type", "mooncake_trace", "--fixed-schedule"]
        argv += ["--input-file", str(folder / "requests.jsonl")]
        argv += ["--request-timeout-seconds", f"{self.request_timeout_seconds:g}"]
        if self.tenant is not None:
            argv += ["--header", f"{TENANT_HEADER}:{self.tenant}"]
        argv += ["--no-server-metrics", "--no-gpu-telemetry", "--ui", "none"]
        return [*argv, "--artifact-dir", str(folder / "out")]


def _longest_session(requests: Sequence[Request]) -> int:
    counts: dict[str, int] = {}
    for request in requests:
        counts[request.session] = counts.get(request.session, 0) + 1
    return max(counts.values())


def _count(phase: str, done: int, requests: Sequence[Request]) -> str:
    return f"{phase}: {done} of {len(requests)} requests answered"


def _line(request: Request) -> str:
    row: dict[str, Any] = {"session_id": request.session, "payload": dict(request.payload)}
    row["output_length"] = request.payload["max_tokens"]
    if request.at_seconds is not None:
        row["timestamp"] = round(request.at_seconds * _MS, 3)
    else:
        row["delay"] = round((request.pause_seconds or 0.0) * _MS, 3)
    return json.dumps(row) + "\n"


def _write_tokenizer(folder: Path) -> None:
    """Write one for show: aiperf loads a tokenizer even when the engine counts the tokens."""
    folder.mkdir()
    model = {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    (folder / "tokenizer.json").write_text(json.dumps({**whole, "model": model}))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind))


def _run(argv: list[str], folder: Path, limit_seconds: float, tell: Callable[[int], None]) -> None:
    # Offline mode would make aiperf look for the tokenizer's folder in a hub's cache.
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
    records, end = folder / "out" / "profile_export.jsonl", time.monotonic() + limit_seconds
    with (folder / "log.txt").open("wb") as log:
        try:
            process = subprocess.Popen(  # noqa: S603
                argv,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            msg = f"the load generator {argv[0]} cannot be started: {error.strerror or error}"
            raise LoadError(msg) from None
        try:
            while process.poll() is None:
                try:
                    process.wait(timeout=min(5.0, max(0.1, end - time.monotonic())))
                except subprocess.TimeoutExpired:
                    tell(_lines(records))
                if time.monotonic() > end:
                    return
        finally:
            _end(process)


def _lines(records: Path) -> int:
    return records.read_bytes().count(b"\n") if records.exists() else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its workers; they share its process group and nothing else does."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def samples(
    phase: str, requests: Sequence[Request], records: Path, log: Path
) -> tuple[Sample, ...]:
    """Read aiperf's records; a request that has none failed.

    Raises:
        LoadError: There is no record at all.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    if records.exists():
        for line in records.read_text().splitlines():
            row = json.loads(line)
            found[row["metadata"]["conversation_id"], row["metadata"]["turn_index"]] = row
    if not found:
        tail = [line for line in _text(log).splitlines() if line.strip()][-8:]
        msg = "\n".join(
            ["the load generator sent nothing; its last words:", *(f"  {line}" for line in tail)]
        )
        raise LoadError(msg)
    counted = [row for (session, _), row in found.items() if session != OPENER]
    first = min(row["metadata"]["request_start_ns"] for row in counted or found.values())
    turns: dict[str, int] = {}
    result = []
    for request in requests:
        turn = turns.get(request.session, 0)
        turns[request.session] = turn + 1
        result.append(
            _sample(phase, request.session, turn, found.get((request.session, turn)), first)
        )
    return tuple(result)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _sample(phase: str, session: str, turn: int, row: dict[str, Any] | None, first: int) -> Sample:
    metrics: dict[str, Any] = row["metrics"] if row else {}
    gaps = metrics.get("inter_chunk_latency", {}).get("value") or []
    start = (row["metadata"]["request_start_ns"] - first) / _NS if row else 0.0
    return Sample(
        phase=phase,
        session=session,
        turn=turn,
        start_seconds=round(start, 6),
        ttft_seconds=_seconds(metrics, "time_to_first_token"),
        itl_seconds=_seconds(metrics, "inter_token_latency"),
        longest_gap_seconds=round(max(gaps) / _MS, 6) if gaps else None,
        e2e_seconds=_seconds(metrics, "request_latency"),
        input_tokens=int(metrics.get("input_sequence_length", {}).get("value", 0)),
        output_tokens=int(metrics.get("output_sequence_length", {}).get("value", 0)),
        error=_error(row),
    )


def _seconds(metrics: Mapping[str, Any], name: str) -> float | None:
    value = metrics.get(name, {}).get("value")
    return None if value is None else round(value / _MS, 6)


def _error(row: dict[str, Any] | None) -> str | None:
    if row is None:
        return "not sent, or not answered before the run's time was up"
    if (error := row.get("error")) is not None:
        return " ".join(str(error.get("message") or error.get("type") or error).split())[:300]
    if row["metadata"].get("was_cancelled"):
        return "cancelled"
    if "time_to_first_token" not in row["metrics"]:
        return "answered without a token"
    return None
