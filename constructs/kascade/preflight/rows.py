"""A row of the table, and what a check gets to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from kascade.config.blocks import ServingConfig
from kascade.plan import ServingPlan
from kascade.preflight.account import Account, CannotLookError
from kascade.sizing.account import AccountNeeds

State = Literal["ok", "warn", "fail"]
STATES: Final[tuple[State, ...]] = ("ok", "warn", "fail")
EMPTY: Final = "REVIEW_IN_PROGRESS"
"""Of a stack that has a change set to begin with, and nothing in it until that is executed."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says of one thing.

    Attributes:
        state: ``fail`` where the deployment would stop or serve nothing, ``warn`` where it may.
        said: What was found, beside what the plan needs.
        todo: What to do about it; empty where nothing is.
    """

    state: State
    said: str
    todo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A deployment and the account it is to go to.

    Attributes:
        number: Of the account.
        caller: ARN of who is asking.
    """

    config: ServingConfig
    plan: ServingPlan
    needs: AccountNeeds
    account: Account
    number: str
    caller: str

    @property
    def region(self) -> str:
        """Region of the deployment."""
        return self.plan.region

    def stack(self, part: str) -> dict[str, Any] | None:
        """Return one of the deployment's stacks, or None where it is not there, or empty."""
        found = find_stack(self.account, f"{self.plan.name}-{part}")
        return None if found is None or found["StackStatus"] == EMPTY else found


def find_stack(account: Account, name: str) -> dict[str, Any] | None:
    """Look for one stack; a list of all would take minutes where there are many.

    Raises:
        CannotLookError: CloudFormation did not answer.
    """
    found = account.items(
        "cloudformation", "DescribeStacks", "Stacks", absent=("ValidationError",), StackName=name
    )
    return next((dict(stack) for stack in found if stack["StackName"] == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row.

    Attributes:
        name: As the table shows it.
        run: Yields at least one finding.
    """

    name: str
    run: Callable[[Subject], Iterator[Finding]]


def ok(said: str) -> Finding:
    """Nothing to do."""
    return Finding(state="ok", said=said)


def warn(said: str, todo: str) -> Finding:
    """It may go wrong."""
    return Finding(state="warn", said=said, todo=todo)


def fail(said: str, todo: str) -> Finding:
    """It will go wrong."""
    return Finding(state="fail", said=said, todo=todo)


def unseen(error: CannotLookError) -> Finding:
    """Say that something was not looked at, and what would let it be."""
    if error.right is None:
        return warn(f"not looked at: {error}", "run it again, or look it up yourself")
    return warn(f"not looked at: {error}", f"let whoever runs this have {error.right}")


def each(things: Iterable[T], look: Callable[[T], Iterator[Finding]]) -> Iterator[Finding]:
    """Look at one thing after another; one that cannot be looked at hides no other."""
    for thing in things:
        try:
            yield from list(look(thing))
        except CannotLookError as error:
            yield unseen(error)
