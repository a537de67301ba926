"""``kascade status``: what runs, beside what the plan says, and why the rest does not."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kascade.cli.outputs import (
    STANDARD_OUTPUT,
    interruptible,
    keep_inputs,
    keep_writable,
    write_json,
)
from kascade.cli.pods import NoWayError, PodsState, pods_states
from kascade.errors import EXIT_INVALID, KascadeError
from kascade.plan import ServingPlan
from kascade.planning.planner import plan_file

if TYPE_CHECKING:
    from kascade.preflight.account import Account
    from kascade.preflight.running import ClusterState, GroupState

_MISSING: Final = 1
_LOOK_SECONDS: Final = 20.0
_MOST_WAIT_SECONDS: Final = 4 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All of it.

    Attributes:
        pods: None where nobody could look.
        pods_said: Why nobody could, or empty.
        pods_failed: Whether there is a way to look at them, and it failed.
        endpoints: Where models and dashboards answer.
    """

    cluster: ClusterState
    pods: tuple[PodsState, ...] | None
    pods_said: str
    pods_failed: bool
    endpoints: dict[str, str]

    @property
    def missing(self) -> bool:
        """Whether something that one could look at is not there."""
        pods = any(one.ready < one.planned for one in self.pods or ())
        groups = any(not group.whole and group.running is not None for group in self.groups)
        return self.cluster.found is False or groups or pods

    @property
    def failed(self) -> str:
        """Why nobody could look at the instances or at the engines, or empty.

        Engines do not count where there is no way to look at them from here.
        """
        if self.cluster.found is None:
            return f"instances were {self.cluster.said}"
        return f"engines were {self.pods_said}" if self.pods_failed else ""

    @property
    def groups(self) -> tuple[GroupState, ...]:
        """The instance groups."""
        return self.cluster.groups

    @property
    def whole(self) -> bool:
        """Whether nothing is missing, as far as there is a way to look."""
        return not self.missing and not self.failed

    @property
    def may_change(self) -> bool:
        """Whether another look may say something else."""
        if self.cluster.found is None:
            return self.cluster.again
        return self.cluster.found and not self.whole


def add_status(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "status",
        help="see what runs of a deployment, and why something does not",
        description="Compares instances and pods with the plan and prints where models answer. "
        "Changes nothing. Pods are seen through kubectl; without the program, or without a "
        "context of the cluster, instances alone decide, and the first line says so. Exit "
        "codes: 0 all of the plan runs, 1 something is missing, 2 the configuration cannot be "
        "used or nobody could look (no credentials, no network, kubectl failed).",
    )
    parser.add_argument("config", type=Path, help="the configuration file that is deployed")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long, at most, until nothing is missing and no look fails (default: look "
        "once)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write it to this file; - prints it instead of the text",
    )
    parser.set_defaults(run=run)


@interruptible
def run(arguments: argparse.Namespace) -> int:
    """Look, until nothing is missing or the time is over.

    Returns:
        0, 1 when something is missing, or 2 when the last look failed.

    Raises:
        KascadeError: The configuration cannot be used, or nobody can look.
    """
    from kascade.preflight import account  # noqa: PLC0415  (boto3 is slow to import)

    if not 0 <= arguments.wait <= _MOST_WAIT_SECONDS:
        msg = f"--wait {arguments.wait:g}: give seconds, 0 to {_MOST_WAIT_SECONDS}"
        raise KascadeError(msg)
    plan = plan_file(arguments.config)
    if arguments.json is not None and arguments.json != STANDARD_OUTPUT:
        keep_inputs(arguments.json, arguments.config, "a report")
        keep_writable(arguments.json)
    session = account.open_session()
    account.whose(account.Account(session, region=plan.region))
    deadline = time.monotonic() + arguments.wait
    said = ""
    while True:
        status = look(plan, session, arguments.context)
        left = deadline - time.monotonic()
        if left <= 0 or not status.may_change:
            break
        line = _brief(status)
        if line != said:
            sys.stderr.write(f"waiting: {line}\n")
            said = line
        time.sleep(min(_LOOK_SECONDS, left))
    if arguments.json != STANDARD_OUTPUT:
        sys.stdout.write("\n".join(_text(plan, status, str(arguments.config))) + "\n")
    if arguments.json is not None:
        write_json(_document(plan, status), arguments.json)
    if status.missing:
        return _MISSING
    if status.failed:
        sys.stderr.write(
            f"nothing is known to be missing, and {status.failed}; nothing was changed by looking, "
            f"so look again: kascade status {arguments.config}\n"
        )
        return EXIT_INVALID
    return 0


def look(plan: ServingPlan, session: Any, context: str | None) -> Status:
    """Look once.

    Args:
        plan: The plan.
        session: Of boto3.
        context: Of the kubeconfig, or None for the current one.

    Raises:
        KascadeError: Credentials are good no longer, or the context is of another cluster.
    """
    from kascade.preflight.account import Account, CannotLookError  # noqa: PLC0415
    from kascade.preflight.running import addresses, cluster_state  # noqa: PLC0415

    # A new one each time: it remembers what it was told.
    account = Account(session, region=plan.region)
    cluster = cluster_state(plan, account)
    try:
        endpoints = addresses(plan, account)
    except CannotLookError as error:
        endpoints = {"": f"not looked at: {error}"}
    pods, said, failed = _pods(plan, account, context)
    return Status(
        cluster=cluster,
        pods=pods,
        pods_said=f"not looked at: {said}" if said else "",
        pods_failed=failed,
        endpoints=endpoints,
    )


def _pods(
    plan: ServingPlan, account: Account, context: str | None
) -> tuple[tuple[PodsState, ...] | None, str, bool]:
    """Return the engines or None, why nobody saw them, and whether a look failed."""
    from kascade.preflight.account import CannotLookError  # noqa: PLC0415
    from kascade.preflight.running import eks_endpoint  # noqa: PLC0415

    server = None
    try:
        server = eks_endpoint(plan, account)
    except CannotLookError as error:
        # Without the right to know it, the context is taken at its word.
        if error.right is None:
            return None, str(error), True
    try:
        return pods_states(plan, context, server), "", False
    except NoWayError as error:
        if context is not None:
            # It was asked for by name.
            msg = f"--context {context}: {error}"
            raise KascadeError(msg) from None
        return None, str(error), False
    except KascadeError as error:
        return None, str(error), True


def _brief(status: Status) -> str:
    parts = [
        f"{group.running if group.running is not None else '?'} of {group.planned} instances of "
        f"{group.name}"
        for group in status.cluster.groups
        if not group.elastic
    ]
    parts += [f"{one.ready} of {one.planned} engines of {one.name}" for one in status.pods or ()]
    if status.pods is None:
        parts.append(f"engines {status.pods_said}")
    return ", ".join(parts)


def _text(plan: ServingPlan, status: Status, source: str) -> Iterator[str]:
    yield f"{source} in {plan.region}: {_summary(status)}"
    yield ""
    yield f"HyperPod cluster {plan.cluster.hyperpod_name}: {status.cluster.said}"
    for group in status.cluster.groups:
        running = "?" if group.running is None else str(group.running)
        most = "at most " if group.elastic else ""
        yield f"  group {group.name}: {running} of {most}{group.planned} instances"
        yield from _indented(group.reasons)
    yield ""
    yield "Engines" + (f": {status.pods_said}" if status.pods_said else "")
    for one in status.pods or ():
        yield f"  {one.name}: {one.ready} of {one.planned} ready"
        yield from _indented(one.reasons)
    yield ""
    yield "Addresses" + ("" if status.endpoints else ": no stack of the deployment names one yet")
    for address in status.endpoints.values():
        yield f"  {address}"


def _summary(status: Status) -> str:
    if status.missing:
        return "not all of it runs"
    if status.cluster.found is None:
        return "nobody could look at the instances"
    if status.pods_failed:
        return "all instances run, and nobody could look at the engines"
    if status.pods is None:
        return "all instances run; the engines were not looked at, as there is no way from here"
    return "all of it runs"


def _indented(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}"


def _document(plan: ServingPlan, status: Status) -> dict[str, Any]:
    return {
        "name": plan.name,
        "region": plan.region,
        "whole": status.whole,
        "hyperpod": status.cluster.said,
        "groups": [{**asdict(group), "whole": group.whole} for group in status.cluster.groups],
        "engines": None if status.pods is None else [asdict(one) for one in status.pods],
        "engines_not_seen": status.pods_said or None,
        "endpoints": list(status.endpoints.values()),
    }
