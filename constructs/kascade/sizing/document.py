"""The plan as a JSON document: same plan, same bytes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from kascade.plan import Figure, Price, ServingPlan


def plan_document(plan: ServingPlan | Figure | Price) -> dict[str, object]:
    """The plan as plain dicts, lists and scalars.

    >>> plan_document(Figure(value=1, unit="GiB", reason="because"))
    {'value': 1, 'unit': 'GiB', 'reason': 'because'}
    """
    plain = _plain(plan)
    assert isinstance(plain, dict)  # noqa: S101  (a dataclass always becomes one)
    return plain


def plan_text(plan: ServingPlan) -> str:
    """The document as indented JSON with sorted keys and a final newline."""
    return json.dumps(plan_document(plan), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_plan(plan: ServingPlan, path: Path) -> None:
    """Write the document, making missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan_text(plan), encoding="utf-8")


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (f for f in dataclasses.fields(value) if f.metadata.get("in_plan", True))
        return {f.name: _plain(getattr(value, f.name)) for f in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
