"""A cloud assembly that is made aside, and takes its place once nothing is wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from jsii.errors import JavaScriptError

from kascade.errors import KascadeError

REPORTED_HERE: Final = {"@aws-cdk/core:failSynthOnValidationErrors": False}
"""Context of an app whose report is read by ``synthesize``: the CDK otherwise prints it, or leaves
that to its command line, which says so when templates are in place already."""

_REPORT: Final = "validation-report.json"
_STRICT: Final = "@aws-cdk/core:strictCfnValidateErrors"
_MANIFEST: Final = "manifest.json"


class RefusedTemplatesError(KascadeError):
    """Templates that the CDK or one of its validators rejects, with each of their sentences."""

    def __init__(self, sentences: list[str]) -> None:
        count = len(sentences)
        lines = [f"the templates: {count} problem{'s' if count != 1 else ''}, nothing was written"]
        super().__init__("\n".join(lines + [f"  {sentence}" for sentence in sentences]))


@contextmanager
def in_sentences() -> Iterator[None]:
    """Say what the CDK rejects without a traceback.

    Raises:
        RefusedTemplatesError: In place of an error of the CDK's own.
    """
    try:
        yield
    except RuntimeError as error:
        # Any other is an error of this code, and keeps its traceback.
        if not isinstance(error.__cause__, JavaScriptError):
            raise
        raise RefusedTemplatesError([str(error).replace("\n", "\n  ")]) from error


def synthesize(app: cdk.App) -> Path:
    """Synthesize an app that has ``REPORTED_HERE`` in its context.

    Returns:
        The folder of the assembly.

    Raises:
        RefusedTemplatesError: One of the CDK's validators rejects the templates.
    """
    assembly = Path(app.synth().directory)
    report = assembly / _REPORT
    if report.exists():
        strict = app.node.try_get_context(_STRICT) in (True, "true")
        if found := list(_findings(json.loads(report.read_text()), strict=strict)):
            raise RefusedTemplatesError(found)
    return assembly


def take_its_place(made: Path, place: Path) -> None:
    """Move a whole assembly to where it is looked for; what no longer belongs to it goes.

    The folder itself stays, and so does what stands in it that is no part of an assembly: the
    command line keeps a lock there while the app runs. Assets stay, too: their names are hashes.
    """
    place.mkdir(parents=True, exist_ok=True)
    if not (made / _REPORT).exists():
        (place / _REPORT).unlink(missing_ok=True)  # the command line reads it
    stacks = json.loads((made / _MANIFEST).read_text())["artifacts"]
    # Last what names all others.
    for path in sorted(made.iterdir(), key=lambda path: (path.name == _MANIFEST, path.name)):
        target = place / path.name
        if not (path.name.startswith("asset.") and target.exists()):
            shutil.move(path, target)
    for kind in ("template", "assets", "metadata"):
        for path in place.glob(f"*.{kind}.json"):
            if path.name.partition(".")[0] not in stacks:
                path.unlink()


def _findings(report: dict[str, Any], *, strict: bool) -> Iterator[str]:
    refused = {"error", "fatal", "warning"} if strict else {"error", "fatal"}
    for plugin in report["pluginReports"]:
        found = [v for v in plugin["violations"] if v["severity"] in refused]
        for violation in found:
            where = ", ".join(
                construct.get("constructPath") or "a template"
                for construct in violation["violatingConstructs"]
            )
            yield (
                f"{where}: {violation['description']} ({plugin['pluginName']}, "
                f"{violation['ruleName']})"
            )
        if not found and plugin["conclusion"] == "failure":
            yield f"{plugin['pluginName']} could not look at them: {_why(plugin)}"


def _why(plugin: dict[str, Any]) -> str:
    return str((plugin.get("metadata") or {}).get("error", "it gave no reason"))
