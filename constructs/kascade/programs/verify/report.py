"""The result as one table and, below it, what is likely wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .causes import Cause

OK: Final = "ok"
FAILED: Final = "FAILED"
OPEN: Final = "-"
"""Verdict of what was measured, or could not be, without saying anything about the system."""

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_UNUSABLE: Final = 2

_WIDTH: Final = 100
_HEADS: Final = ("Check", "Measured", "Wanted", "Verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the table."""

    name: str
    measured: str
    wanted: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The likely causes of what failed between two replicas."""

    writer: str
    reader: str
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one run found out."""

    engine: str
    seed: int
    prompt_tokens: int
    checks: tuple[Check, ...]
    diagnoses: tuple[Diagnosis, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when no check failed, else 1."""
        return EXIT_FAILED if any(c.verdict == FAILED for c in self.checks) else EXIT_OK

    def render(self) -> str:
        """Write it for a person: at most 100 characters a line outside the table.

        >>> check = Check(name="a", measured="1", wanted="2", verdict=FAILED)
        >>> report = Report(engine="m", seed=7, prompt_tokens=9, checks=(check,))
        >>> print(report.render())
        m  seed 7, prompts of about 9 tokens
        <BLANKLINE>
          Check  Measured  Wanted  Verdict
          a      1         2       FAILED
        <BLANKLINE>
        m: 1 of 1 checks failed
        <BLANKLINE>
        """
        failed = sum(check.verdict == FAILED for check in self.checks)
        judged = sum(check.verdict != OPEN for check in self.checks)
        parts = [
            f"{self.engine}  seed {self.seed}, prompts of about {self.prompt_tokens} tokens",
            "",
            *_table(self.checks),
            "",
            f"{self.engine}: {failed} of {judged} checks failed"
            if failed
            else f"{self.engine}: all {judged} checks passed",
        ]
        explained: list[Diagnosis] = []
        for diagnosis in self.diagnoses:
            known = any(_mirrors(diagnosis, other) for other in explained)
            parts += ["", *(_referring(diagnosis) if known else _explained(diagnosis))]
            explained.append(diagnosis)
        return "\n".join(parts) + "\n"


def _table(checks: tuple[Check, ...]) -> Iterator[str]:
    rows = [_HEADS, *((c.name, c.measured, c.wanted, c.verdict) for c in checks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _mirrors(one: Diagnosis, other: Diagnosis) -> bool:
    """Whether the same was seen the other way round, as settings that differ always are."""
    return (one.writer, one.reader) == (other.reader, other.writer) and [
        (cause.kind, cause.writer, cause.reader) for cause in one.causes
    ] == [(cause.kind, cause.reader, cause.writer) for cause in other.causes]


def _referring(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"And {diagnosis.reader} did not answer from what {diagnosis.writer} computed likewise."


def _explained(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"Why {diagnosis.reader} did not answer from what {diagnosis.writer} computed:"
    for cause in diagnosis.causes:
        yield from _wrapped("  * ", f"{cause.what} ({cause.kind})")
        yield from _wrapped(f"      {diagnosis.writer}: ", cause.writer)
        yield from _wrapped(f"      {diagnosis.reader}: ", cause.reader)
        yield from _wrapped("      to change: ", cause.change)


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * (8 if len(lead) > 4 else 4),  # noqa: PLR2004 - below the text
        break_long_words=False,
        break_on_hyphens=False,
    )
