"""All checks, side by side, each of them reported."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from kascade.config.blocks import ServingConfig
from kascade.plan import ServingPlan
from kascade.preflight.account import Account, CannotLookError, whose
from kascade.preflight.names import check_names, check_stacks
from kascade.preflight.network import check_existing_network, check_ranges
from kascade.preflight.owned import (
    check_alarms,
    check_existing_clusters,
    check_images,
    check_keys,
    check_weights,
)
from kascade.preflight.people import (
    check_admin_roles,
    check_identity,
    check_identity_center,
    check_rights,
)
from kascade.preflight.places import check_endpoints, check_instance_types, check_zones
from kascade.preflight.quotas import (
    check_ec2_quotas,
    check_hyperpod_quotas,
    check_lambda,
    check_training_plans,
)
from kascade.preflight.rows import STATES, Check, Finding, State, Subject, unseen, warn
from kascade.preflight.software import check_addons, check_bootstrap, check_kubernetes
from kascade.sizing.account import account_needs

CHECKS: Final[tuple[Check, ...]] = (
    Check(name="identity", run=check_identity),
    Check(name="bootstrap", run=check_bootstrap),
    Check(name="rights", run=check_rights),
    Check(name="zones", run=check_zones),
    Check(name="instance types", run=check_instance_types),
    Check(name="endpoints", run=check_endpoints),
    Check(name="hyperpod quotas", run=check_hyperpod_quotas),
    Check(name="training plans", run=check_training_plans),
    Check(name="ec2 quotas", run=check_ec2_quotas),
    Check(name="lambda concurrency", run=check_lambda),
    Check(name="kubernetes version", run=check_kubernetes),
    Check(name="add-on versions", run=check_addons),
    Check(name="identity center", run=check_identity_center),
    Check(name="admin roles", run=check_admin_roles),
    Check(name="stacks", run=check_stacks),
    Check(name="names", run=check_names),
    Check(name="ranges", run=check_ranges),
    Check(name="existing network", run=check_existing_network),
    Check(name="existing clusters", run=check_existing_clusters),
    Check(name="keys", run=check_keys),
    Check(name="weights", run=check_weights),
    Check(name="alarms", run=check_alarms),
    Check(name="images", run=check_images),
)
"""The rows of the table, in its order."""

_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row with all it found."""

    check: str
    findings: tuple[Finding, ...]

    @property
    def state(self) -> State:
        """The worst of its findings."""
        return max((finding.state for finding in self.findings), key=STATES.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of every check.

    Attributes:
        account: Number of the account that was looked at.
    """

    name: str
    account: str
    region: str
    rows: tuple[Row, ...]

    @property
    def state(self) -> State:
        """The worst of its rows."""
        return max((row.state for row in self.rows), key=STATES.index)


def preflight(config: ServingConfig, plan: ServingPlan, session: Any) -> Report:
    """Look at an account.

    Args:
        config: The configuration.
        plan: What follows from it.
        session: Of boto3, whose credentials look.

    Returns:
        Every row, whatever happened to the others.

    Raises:
        KascadeError: Nobody can look: no credentials, or AWS is out of reach.
    """
    account = Account(session, region=plan.region)
    number, caller = whose(account)
    subject = Subject(
        config=config,
        plan=plan,
        needs=account_needs(plan),
        account=account,
        number=number,
        caller=caller,
    )
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE)
    try:
        rows = tuple(pool.map(lambda check: _row(check, subject), CHECKS))
    finally:
        # Interrupted, nothing else is begun; calls under way end by their own bounds.
        pool.shutdown(wait=False, cancel_futures=True)
    return Report(name=plan.name, account=number, region=plan.region, rows=rows)


def _row(check: Check, subject: Subject) -> Row:
    findings: list[Finding] = []
    try:
        for finding in check.run(subject):
            findings.append(finding)  # noqa: PERF402 - those before an error are kept
    except CannotLookError as error:
        findings.append(unseen(error))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # AWS answered in another form than its own description of itself.
        findings.append(
            warn(
                f"not looked at: AWS gave an answer that this version does not understand "
                f"({type(error).__name__}: {error})",
                "look it up yourself, and report it",
            )
        )
    return Row(check=check.name, findings=_folded(findings))


def _folded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each finding once, the worst first."""
    once = dict.fromkeys(findings)
    return tuple(sorted(once, key=lambda finding: -STATES.index(finding.state)))
