"""The result as files: JSON with everything, CSV with a row for each request."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import NoneType
from typing import Any, Final

from kascade.bench.load import Sample
from kascade.bench.result import LOAD, SCHEMA, Result
from kascade.bench.tiers import PHASES, Served
from kascade.errors import KascadeError

JSON_NAME: Final = "bench.json"
CSV_NAME: Final = "requests.csv"


_NUMBER: Final = (int, float)
_NULLABLE: Final = (int, float, type(None))
_TEXT: Final = (str, type(None))
_RUN_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "workload.digest": (str,),
    "measured_on": (str,),
    "config.file": (str,),
    "config.sha256": (str,),
    "versions": (dict,),
    "phases": (list,),
    "cost": (dict, type(None)),
}
_PHASE_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "flaw": _TEXT,
    **{f"served.{field.name}": _NUMBER for field in fields(Served)},
    "samples": (list,),
    **{
        f"summary.{name}": _NUMBER
        for name in (
            "requests",
            "failed",
            "requests_per_second",
            "output_tokens_per_second",
            "goodput",
        )
    },
}
_SAMPLE_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "error": _TEXT,
    "ttft_seconds": _NULLABLE,
    "itl_seconds": _NULLABLE,
    "e2e_seconds": _NULLABLE,
}


class UnreadableResultError(KascadeError):
    """A file that is no result of a run, or one of another version."""


def document(result: Result) -> dict[str, Any]:
    """Return the result as plain dicts, lists and scalars."""
    return {"schema": SCHEMA, **asdict(result), "failed": result.failed, "sound": result.sound}


def json_text(result: Result) -> str:
    """Write the document with sorted keys, so that equal results are equal bytes."""
    return json.dumps(document(result), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def csv_text(result: Result) -> str:
    """Write one row for each request; an empty field is a value that does not exist."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [field.name for field in fields(Sample)]
    writer.writerow(names)
    for phase in result.phases:
        for sample in phase.samples:
            writer.writerow([getattr(sample, name) for name in names])
    return out.getvalue()


def read_document(path: Path) -> dict[str, Any]:
    """Read a document, by its file or by the folder of its run.

    Raises:
        UnreadableResultError: It is none, has another schema, or lacks a field.
    """
    file = path / JSON_NAME if path.is_dir() else path
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}; name the folder or the JSON of a run"
        raise UnreadableResultError(msg) from None
    except (ValueError, RecursionError):
        msg = f"{file} is no JSON; name the folder or the JSON of a run"
        raise UnreadableResultError(msg) from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(value, dict) or schema != SCHEMA:
        msg = f"{file} is no result that can be read here: its schema is {schema}, not {SCHEMA}"
        raise UnreadableResultError(msg)
    if (missing := next(_missing(value), None)) is not None:
        msg = f"{file} was changed by hand or is not whole: it has no usable {missing}; run it anew"
        raise UnreadableResultError(msg)
    return value


def _missing(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a comparison needs and the document lacks, or has as another type."""
    yield from _lacks(run, _RUN_FIELDS, "")
    if run["cost"] is not None:
        yield from _lacks(run, {"cost.usd_per_million_tokens": (*_NUMBER, NoneType)}, "")
    for number, phase in enumerate(run["phases"]):
        place = f"phases[{number}]"
        yield from _lacks(phase, _PHASE_FIELDS, f"{place}.")
        if phase["name"] not in {*PHASES, LOAD}:
            yield f"{place}.name"
        for at, sample in enumerate(phase["samples"]):
            yield from _lacks(sample, _SAMPLE_FIELDS, f"{place}.samples[{at}].")


def _lacks(value: object, wanted: Mapping[str, tuple[type, ...]], place: str) -> Iterator[str]:
    for path, types in wanted.items():
        found = value
        for step in path.split("."):
            if not isinstance(found, dict) or step not in found:
                yield f"{place}{path}"
                break
            found = found[step]
        else:
            if not isinstance(found, types):
                yield f"{place}{path}"
