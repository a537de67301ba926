"""The result as files: JSON with everything, CSV with a row for each request."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from kascade.bench.load import Sample
from kascade.bench.result import SCHEMA, Result
from kascade.errors import KascadeError

JSON_NAME: Final = "bench.json"
CSV_NAME: Final = "requests.csv"


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
        UnreadableResultError: It is none, or has another schema.
    """
    file = path / JSON_NAME if path.is_dir() else path
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}; name the folder or the JSON of a run"
        raise UnreadableResultError(msg) from None
    except (ValueError, RecursionError):
        value = None
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(value, dict) or schema != SCHEMA:
        msg = f"{file} is no result that can be read here: its schema is {schema}, not {SCHEMA}"
        raise UnreadableResultError(msg)
    return value
