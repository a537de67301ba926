"""What went wrong, as sentences: what was given, what is allowed, what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

EXIT_INVALID: Final = 2
"""Exit code for input that cannot be used; argparse uses the same."""

ConfigPath = tuple[str | int, ...]
"""A place in a configuration file, outermost key first: ``("models", 0, "replicas")``."""


def format_path(path: ConfigPath) -> str:
    """Write a path the way people say it.

    >>> format_path(("models", 0, "replicas"))
    'models[0].replicas'
    >>> format_path(())
    '(whole file)'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "(whole file)"


def unwritable(error: OSError) -> str:
    """Say what could not be written and why.

    >>> unwritable(PermissionError(13, "Permission denied", "dist/plan.json"))
    'dist/plan.json cannot be written: Permission denied'
    """
    return f"{error.filename or 'the output'} cannot be written: {error.strerror or error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change that may cure a problem; it is advised only after a plan has shown that it does.

    Attributes:
        words: The change as advice: "set models[0].tensor_parallel to 4".
        change: Makes the changed configuration of the one that has the problem.
    """

    words: str
    change: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in a configuration, or what deserves a look.

    Attributes:
        path: Where the error stands.
        message: What was given, what is allowed and what to change, in one or two sentences.
        also_reads: Other places the check looked at. When one of those is broken itself, this
            problem may be a mere consequence and is left out of the report.
        line: Line in the file, counted from 1, or None where no file is known and 0
            where it is in another file, which the message names.
        remedies: What to try, the best first, in families of which one member is enough. What
            works is added to the message.
        code: The error's stable name in kebab case, whatever the words say: ``unknown-field``.
            Together with the path it says whether a remedy makes the problem go away.
        severity: Whether nothing is written because of it, or it is only said; the plan
            keeps warnings apart and does not repeat it.
    """

    path: ConfigPath
    message: str
    also_reads: tuple[ConfigPath, ...] = ()
    line: int | None = None
    remedies: tuple[tuple[Remedy, ...], ...] = field(default=(), compare=False, repr=False)
    code: str = ""
    severity: Literal["error", "warning"] = field(default="error", metadata={"in_plan": False})

    def __str__(self) -> str:
        """Write ``line N: path: message``."""
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{format_path(self.path)}: {self.message}"


class KascadeError(Exception):
    """Base of every error that a person can cure by changing their input."""


class InvalidConfigError(KascadeError):
    """A configuration that cannot be deployed, with every error found in it.

    Attributes:
        source: File name, or a word such as ``configuration`` where there is no file.
        problems: All errors, in file order.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{source}: {count} problem{'s' if count != 1 else ''}, nothing was written"]
        lines += [f"  {problem}" for problem in self.problems]
        super().__init__("\n".join(lines))
