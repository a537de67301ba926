"""What several rules say: what is near, and what is duplicated."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from kascade.errors import ConfigPath, Problem, format_path


def near(value: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(value, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def duplicates(names: Sequence[str], path: ConfigPath, field: str, what: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            place = (*path, index, field) if field else (*path, index)
            yield Problem(
                path=place,
                code="duplicate",
                message=f"the {what} {name!r} is duplicated (also at "
                f"{format_path((*path, first[name]))}); "
                "give each its own",
            )
        first.setdefault(name, index)


def unread(path: ConfigPath, reason: str, existing: ConfigPath) -> Problem:
    return Problem(
        path=path,
        code="unread",
        message=f"nothing reads it with {'.'.join(map(str, existing))}: {reason}; leave it out",
        also_reads=(existing,),
    )
