"""``kascade preflight``: whether the account can take a deployment, before anything is made."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kascade.cli.outputs import (
    STANDARD_OUTPUT,
    interruptible,
    keep_inputs,
    keep_writable,
    write_json,
)
from kascade.planning.loading import load_config
from kascade.planning.planner import plan_file
from kascade.units import counted

if TYPE_CHECKING:
    from kascade.preflight.rows import Finding
    from kascade.preflight.run import Report

_FAILED: Final = 1
_PLAIN_WIDTH: Final = 120
_NARROWEST: Final = 60


def add_preflight(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "preflight",
        help="see whether the AWS account in use can take a deployment",
        description="Looks at quotas, zones, versions, rights and names of the account in use, "
        "and changes nothing. Exit codes: 0 nothing is in the way (warnings included), 1 a row "
        "failed, 2 the configuration cannot be used or nobody can look (no credentials, or "
        "such as end halfway; no network). docs/preflight.md has every row.",
    )
    parser.add_argument("config", type=Path, help="the configuration file")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the rows to this file; - prints them instead of the table",
    )
    parser.set_defaults(run=run)


@interruptible
def run(arguments: argparse.Namespace) -> int:
    """Look, and print one table.

    Returns:
        0, or 1 when a row failed.

    Raises:
        KascadeError: The configuration cannot be used, or nobody can look.
    """
    from kascade.preflight import account  # noqa: PLC0415  (boto3 is slow to import)
    from kascade.preflight.run import preflight  # noqa: PLC0415

    if arguments.json not in {None, STANDARD_OUTPUT}:
        keep_inputs(arguments.json, arguments.config, "a report")
        keep_writable(arguments.json)
    plan = plan_file(arguments.config)
    report = preflight(load_config(arguments.config), plan, account.open_session())
    document = _document(report)
    if arguments.json != STANDARD_OUTPUT:
        sys.stdout.write("\n".join(_table(report, str(arguments.config))) + "\n")
    if arguments.json is not None:
        write_json(document, arguments.json)
    return _FAILED if report.state == "fail" else 0


def _document(report: Report) -> dict[str, Any]:
    return {
        "name": report.name,
        "account": report.account,
        "region": report.region,
        "state": report.state,
        "rows": [
            {
                "check": row.check,
                "state": row.state,
                "findings": [asdict(finding) for finding in row.findings],
            }
            for row in report.rows
        ],
    }


def _table(report: Report, source: str) -> Iterator[str]:
    width = shutil.get_terminal_size((_PLAIN_WIDTH, 0)).columns if sys.stdout.isatty() else 0
    width = max(width or _PLAIN_WIDTH, _NARROWEST)
    wide = max(len(row.check) for row in report.rows)
    yield f"{source} against account {report.account}, {report.region}"
    yield ""
    for row in report.rows:
        name = row.check
        for finding in _joined(row.findings):
            head = f"  {finding.state:<4}  {name:<{wide}}  "
            indent = " " * len(head)
            yield from _wrapped(finding.said, head, indent, width)
            if finding.todo:
                yield from _wrapped(finding.todo, f"{indent}-> ", f"{indent}   ", width)
            name = ""
    states = [row.state for row in report.rows]
    yield ""
    yield (
        f"{counted(len(states), 'row')}: {states.count('ok')} ok, {states.count('warn')} warn, "
        f"{states.count('fail')} fail"
    )


def _joined(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Put all that is well into one paragraph, after what is not."""
    yield from (finding for finding in findings if finding.state != "ok")
    well = [finding for finding in findings if finding.state == "ok"]
    if well:
        yield replace(well[0], said="; ".join(finding.said for finding in well))


def _wrapped(text: str, head: str, indent: str, width: int) -> list[str]:
    # An address or an ARN is taken up whole, so it is never cut.
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
