"""Who deploys, who is let in, and who signs in to Grafana."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kascade.catalog.rights import (
    ALWAYS,
    BOOTSTRAP_ROLES,
    CREATE_ACTIONS,
    EXECUTION_ROLE,
    bootstrap_role,
)
from kascade.preflight.account import CannotLookError
from kascade.preflight.rows import Finding, Subject, each, fail, ok, unseen, warn

_ASSUMED = re.compile(r"arn:[^:]+:sts::(\d+):assumed-role/([^/]+)/")
_ROLE = re.compile(r"arn:[^:]+:iam::(\d+):role/(?:.*/)?([^/]+)")
_GONE = ("NoSuchEntity", "NoSuchEntityException")
_MAX_SHOWN = 6


def check_identity(subject: Subject) -> Iterator[Finding]:
    """See that the credentials are those of the account that the configuration names."""
    wanted = subject.plan.account
    said = f"{subject.caller} of account {subject.number}"
    if wanted is None:
        yield ok(f"{said}; the configuration names none (account)")
    elif wanted != subject.number:
        yield fail(
            f"{said}, and the configuration is for {wanted}",
            f"take credentials of {wanted}, or correct account",
        )
    else:
        yield ok(said)


def check_rights(subject: Subject) -> Iterator[Finding]:
    """Simulate what the CDK's command line does as the caller, and CloudFormation after it."""
    yield from each((_of_caller, _of_execution_role), lambda look: look(subject))


def _of_caller(subject: Subject) -> Iterator[Finding]:
    source = _policy_source(subject)
    if source is None:
        yield warn(
            f"the rights of {subject.caller} cannot be simulated",
            "deploy as a role or a user of the account",
        )
        return
    roles = [
        f"arn:aws:iam::{subject.number}:role/"
        + bootstrap_role(kind, account=subject.number, region=subject.region)
        for kind in BOOTSTRAP_ROLES
    ]
    denied = _denied(subject, source, ("sts:AssumeRole",), roles)
    if not denied:
        yield ok("may take on the roles of cdk bootstrap")
        return
    # Without the roles the command line goes on with the caller's own rights.
    own = _denied(subject, source, ALWAYS, ())
    names = ", ".join(name.rpartition("/")[2] for name in _resources(denied))
    said = f"{source.rpartition('/')[2]} may not take on {names or 'the roles of cdk bootstrap'}"
    todo = f"allow {source} sts:AssumeRole on arn:aws:iam::{subject.number}:role/cdk-hnb659fds-*"
    if own:
        yield fail(f"{said}, nor {', '.join(_actions(own))}", todo)
    else:
        yield warn(f"{said}; the CDK would go on with the caller's own rights", todo)


def _of_execution_role(subject: Subject) -> Iterator[Finding]:
    name = bootstrap_role(EXECUTION_ROLE, account=subject.number, region=subject.region)
    role = subject.account.call("iam", "GetRole", absent=_GONE, RoleName=name)
    if role is None:
        yield warn(
            f"there is no role {name}, with which CloudFormation makes everything",
            f"run cdk bootstrap aws://{subject.number}/{subject.region}",
        )
        return
    actions = sorted({action for part in _parts(subject) for action in part})
    denied = _denied(subject, role["Role"]["Arn"], tuple(actions), ())
    if not denied:
        yield ok(f"{name} may do all of {len(actions)} actions that were tried")
        return
    listed = _actions(denied)
    shown = ", ".join(listed[:_MAX_SHOWN]) + (" ..." if len(listed) > _MAX_SHOWN else "")
    said = f"{name} may not {shown}"
    todo = "add them to the policies of cdk bootstrap (--cloudformation-execution-policies)"
    if any(
        result["EvalDecision"] == "explicitDeny" or _by_organization(result) for result in denied
    ):
        what = "an explicit deny" if not any(map(_by_organization, denied)) else "the organization"
        yield fail(f"{said}: {what} forbids it", f"have that taken away, or {todo}")
    else:
        yield warn(f"{said} on every resource, and perhaps on those of the deployment", todo)


def _parts(subject: Subject) -> Iterator[Sequence[str]]:
    plan = subject.plan
    for part, actions in CREATE_ACTIONS.items():
        if part == "observability" and plan.observability is None:
            continue
        for kind, action in actions.items():
            skipped = (kind == "AWS::SageMaker::Cluster" and not plan.cluster.makes_hyperpod) or (
                kind == "AWS::EKS::Cluster" and plan.cluster.existing is not None
            )
            vpc = part == "network" and kind.startswith("AWS::EC2::") and "Security" not in kind
            if not skipped and not (vpc and plan.network.existing is not None):
                yield (action,)


def _policy_source(subject: Subject) -> str | None:
    """ARN of the user or role whose policies the caller has.

    A session's ARN lacks its role's path, so the role is asked for it.
    """
    assumed = _ASSUMED.match(subject.caller)
    if assumed:
        role = subject.account.call("iam", "GetRole", absent=_GONE, RoleName=assumed[2])
        return None if role is None else str(role["Role"]["Arn"])
    return subject.caller if ":user/" in subject.caller else None


def _denied(
    subject: Subject, source: str, actions: Sequence[str], resources: Sequence[str]
) -> list[dict[str, Any]]:
    given: dict[str, Any] = {"ResourceArns": list(resources)} if resources else {}
    results = subject.account.items(
        "iam",
        "SimulatePrincipalPolicy",
        "EvaluationResults",
        PolicySourceArn=source,
        ActionNames=list(actions),
        **given,
    )
    denied = []
    for result in results:
        inner = result.get("ResourceSpecificResults") or []
        each_denied = [one for one in inner if one.get("EvalResourceDecision") != "allowed"]
        if each_denied or (not inner and result["EvalDecision"] != "allowed"):
            denied.append({**result, "ResourceSpecificResults": each_denied})
    return denied


def _actions(denied: Sequence[dict[str, Any]]) -> list[str]:
    return sorted({result["EvalActionName"] for result in denied})


def _resources(denied: Sequence[dict[str, Any]]) -> list[str]:
    names = [
        one.get("EvalResourceName", "")
        for result in denied
        for one in result["ResourceSpecificResults"]
    ] or [result.get("EvalResourceName", "") for result in denied]
    return sorted({name for name in names if name.startswith("arn:")})


def _by_organization(result: dict[str, Any]) -> bool:
    return (result.get("OrganizationsDecisionDetail") or {}).get("AllowedByOrganizations") is False


def check_admin_roles(subject: Subject) -> Iterator[Finding]:
    """See that the roles that may enter the cluster exist."""
    arns = subject.plan.cluster.admin_role_arns
    if not arns:
        yield ok("none is named, so nobody can use kubectl (kubernetes.admin_role_arns)")
        return

    def look(arn: str) -> Iterator[Finding]:
        match = _ROLE.match(arn)
        if match is None or match[1] != subject.number:
            yield warn(f"{arn} is of another account", "see there that it exists")
            return
        role = subject.account.call("iam", "GetRole", absent=_GONE, RoleName=match[2])
        found = None if role is None else role["Role"]["Arn"]
        if found is None:
            yield fail(
                f"there is no role {match[2]}",
                "make it, or correct kubernetes.admin_role_arns",
            )
        elif found != arn:
            yield fail(f"{match[2]} is {found}, and the configuration says {arn}", f"write {found}")
        else:
            yield ok(f"{match[2]} exists")

    yield from each(arns, look)


def check_identity_center(subject: Subject) -> Iterator[Finding]:
    """See that people can sign in to Grafana."""
    wish = subject.config.observability
    if not wish.enabled or wish.grafana.auth != "sso":
        yield ok("nothing needs it")
        return
    try:
        # It may live in another region than Grafana.
        instances = subject.account.items(
            "sso-admin", "ListInstances", "Instances", RegionScope="ALL_REGIONS"
        )
    except CannotLookError as error:
        yield unseen(error)
        return
    active = [one for one in instances if one.get("Status", "ACTIVE") == "ACTIVE"]
    saml = "set observability.grafana.auth: saml"
    if not instances:
        yield fail(
            "IAM Identity Center is not enabled, and Grafana's sign-in needs it",
            f"enable it (IAM Identity Center console), or {saml}",
        )
    elif not active:
        yield warn(
            f"the instance of IAM Identity Center is {instances[0]['Status']}",
            f"wait until it is ACTIVE, or {saml}",
        )
    else:
        yield ok(active[0]["InstanceArn"])
