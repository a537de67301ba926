"""Mooncake traces: who asked when, how much, and which 512-token blocks prompts have in common."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from kascade.bench.text import Block
from kascade.bench.workloads import TRACE, Planned, Workload
from kascade.errors import KascadeError

BLOCK_TOKENS: Final = 512
"""What one hash id stands for, in the published traces."""

_MAX_MISTAKES: Final = 10
_MAX_TOKENS: Final = 10_000_000
"""Above any model's context; a larger length is a slip."""

_MAX_MS: Final = 10**15
"""Above any moment, also one since 1970; floats below it are exact to a millisecond."""

_FIELDS: Final = ("timestamp", "input_length", "output_length", "hash_ids")


class InvalidTraceError(KascadeError):
    """A trace that cannot be replayed, with its first errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a trace."""

    timestamp_ms: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How much of a trace is replayed and how.

    Attributes:
        requests: The first so many.
        speed: 2 replays in half the time.
        max_model_len: Input and output of a request fit in it together.
        max_input_tokens: A tighter bound on the input, or None.
        max_output_tokens: A bound on the output, or None.
    """

    requests: int
    speed: float
    max_model_len: int
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None


def read_trace(path: Path, limit: int) -> tuple[Row, ...]:
    """Read the first ``limit`` requests.

    Raises:
        InvalidTraceError: A line cannot be used, or the file cannot be read or holds no request.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            return parse_trace(islice(lines, limit), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeError) else error.strerror
        msg = f"{path}: the trace cannot be read: {reason}"
        raise InvalidTraceError(msg) from None


def parse_trace(lines: Iterable[str], source: str) -> tuple[Row, ...]:
    """Read lines; see ``read_trace``."""
    rows: list[Row] = []
    mistakes: list[str] = []
    last = 0.0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        found, row = _parse_line(line)
        if row is not None and row.timestamp_ms < last:
            found = [f"timestamp is {row.timestamp_ms:g}, after {last:g}; sort the lines by it"]
        mistakes += [f"line {number}: {mistake}" for mistake in found]
        if row is not None:
            last = row.timestamp_ms
            rows.append(row)
        if len(mistakes) >= _MAX_MISTAKES:
            mistakes = [*mistakes[:_MAX_MISTAKES], "the rest was not read"]
            break
    if not rows and not mistakes:
        mistakes = ["no request in it; a line is a JSON object with " + ", ".join(_FIELDS)]
    if mistakes:
        raise InvalidTraceError(
            "\n".join([f"{source}: the trace cannot be replayed", *(f"  {m}" for m in mistakes)])
        )
    return tuple(rows)


def _parse_line(line: str) -> tuple[list[str], Row | None]:
    try:
        value = json.loads(line)
    except ValueError:
        return ["not JSON; a line is one JSON object with " + ", ".join(_FIELDS)], None
    except RecursionError:
        return ["nested too deeply; a line is one flat JSON object"], None
    if not isinstance(value, dict):
        return [f"a {type(value).__name__}, not a JSON object with " + ", ".join(_FIELDS)], None
    if missing := [field for field in _FIELDS if field not in value]:
        return [f"{', '.join(missing)} missing; a line has {', '.join(_FIELDS)}"], None
    found = list(_mistakes(value))
    if found:
        return found, None
    row = Row(
        timestamp_ms=float(value["timestamp"]),
        input_length=value["input_length"],
        output_length=value["output_length"],
        hash_ids=tuple(value["hash_ids"]),
    )
    return [], row


def _mistakes(value: dict[str, object]) -> Iterator[str]:
    stamp = value["timestamp"]
    if isinstance(stamp, bool) or not isinstance(stamp, int | float) or not 0 <= stamp <= _MAX_MS:
        yield f"timestamp is {_short(stamp)}, not milliseconds from 0 to {_MAX_MS:,}"
    for name in ("input_length", "output_length"):
        length = value[name]
        if (
            isinstance(length, bool)
            or not isinstance(length, int)
            or not 1 <= length <= _MAX_TOKENS
        ):
            yield f"{name} is {_short(length)}, not a number of tokens from 1 to {_MAX_TOKENS:,}"
    ids = value["hash_ids"]
    if not isinstance(ids, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        yield f"hash_ids is {_short(ids)}, not a list of integers"
        return
    length = value["input_length"]
    if isinstance(length, int) and not isinstance(length, bool) and 1 <= length <= _MAX_TOKENS:
        wanted = -(-length // BLOCK_TOKENS)
        if len(ids) != wanted:
            yield (
                f"{len(ids)} hash_ids for input_length {length}; blocks of {BLOCK_TOKENS} tokens "
                f"make that {wanted}"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004


def trace_workload(rows: tuple[Row, ...], cut: Cut) -> Workload:
    """Turn rows into requests; equal hash ids become equal text, long prompts lose their end."""
    shortened = clipped = 0
    requests: list[Planned] = []
    start = rows[0].timestamp_ms
    for number, row in enumerate(rows[: cut.requests]):
        output = min(row.output_length, cut.max_output_tokens or row.output_length)
        output = min(output, max(1, cut.max_model_len // 2))
        room = min(cut.max_model_len - output, cut.max_input_tokens or cut.max_model_len)
        length = min(row.input_length, room)
        shortened += length < row.input_length
        clipped += output < row.output_length
        requests.append(
            Planned(
                session=f"t{number:05d}",
                turn=0,
                at_seconds=round((row.timestamp_ms - start) / 1000 / cut.speed, 6),
                pause_seconds=None,
                blocks=tuple(_blocks(row.hash_ids, length)),
                output_tokens=output,
            )
        )
    notes = []
    if shortened:
        notes.append(
            f"{shortened} of {len(requests)} prompts were cut at their end to fit; the beginning, "
            "which caches share, is whole"
        )
    if clipped:
        notes.append(f"{clipped} of {len(requests)} answers are shorter than the trace's")
    return Workload(name=TRACE, requests=tuple(requests), notes=tuple(notes))


def _blocks(hash_ids: tuple[int, ...], length: int) -> Iterator[Block]:
    for hash_id in hash_ids:
        if length <= 0:
            return
        yield Block(key=f"hash/{hash_id}", tokens=min(BLOCK_TOKENS, length))
        length -= BLOCK_TOKENS
