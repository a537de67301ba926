"""Names that somebody may have taken, and stacks that cannot be updated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kascade.preflight.rows import EMPTY, Finding, Subject, each, fail, find_stack, ok, warn

PARTS = ("network", "cluster", "serving", "observability")
"""The stacks, as their names end."""

_DEAD = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"})
_STUCK = {
    "UPDATE_FAILED": "roll it back: aws cloudformation rollback-stack --stack-name {}",
    "UPDATE_ROLLBACK_FAILED": "continue its rollback: aws cloudformation continue-update-rollback "
    "--stack-name {}",
    # No call of CloudFormation continues this one.
    "IMPORT_ROLLBACK_FAILED": "ask AWS Support to bring it back; or, where nothing in it is "
    "needed, delete it: aws cloudformation delete-stack --stack-name {}",
}
"""What CloudFormation takes in each state."""


def check_stacks(subject: Subject) -> Iterator[Finding]:
    """See that each stack can be made, or updated where it is ours."""
    parts = [part for part in PARTS if part != "observability" or subject.plan.observability]
    yield from each(parts, lambda part: _stack(subject, part))


def _stack(subject: Subject, part: str) -> Iterator[Finding]:
    name = subject.plan.name
    stack = find_stack(subject.account, f"{name}-{part}")
    if stack is None:
        yield ok(f"{name}-{part} is free")
        return
    status = stack["StackStatus"]
    if status == EMPTY:
        # It has no template yet, so no description says whose it is.
        yield ok(
            f"{name}-{part} is empty, left by a change set that nobody executed ({status}), and "
            "the deployment replaces it"
        )
        return
    delete = f"delete it: aws cloudformation delete-stack --stack-name {name}-{part}"
    if not _description(subject, stack).startswith(f"Kascade {name}:"):
        yield fail(f"{name}-{part} is a stack of something else", "choose another name")
    elif status in _DEAD:
        yield fail(f"{name}-{part} is {status}, from which nothing can be updated", delete)
    elif status in _STUCK:
        yield fail(f"{name}-{part} is {status}", _STUCK[status].format(f"{name}-{part}"))
    elif status.endswith("_IN_PROGRESS"):
        yield warn(f"{name}-{part} is {status}", "wait until that is done")
    else:
        yield ok(f"{name}-{part} is there and will be updated ({status})")


def _description(subject: Subject, stack: Mapping[str, Any]) -> str:
    """What its template says it is; a stack that a change set made may not repeat it."""
    if stack.get("Description"):
        return str(stack["Description"])
    found = subject.account.call(
        "cloudformation", "GetTemplateSummary", StackName=stack["StackName"]
    )
    return str((found or {}).get("Description", ""))


def check_names(subject: Subject) -> Iterator[Finding]:
    """See that nobody else has the names that are fixed."""
    looks = []
    plan = subject.plan
    if subject.stack("cluster") is None:
        looks += [_eks] if plan.cluster.existing is None else []
        looks += [_hyperpod, _buckets, _operator_role] if plan.cluster.makes_hyperpod else []
    if plan.observability is not None and subject.stack("observability") is None:
        looks += [_prometheus, _grafana]
    looks += [_log_groups]
    found = list(each(looks, lambda look: look(subject)))
    yield from found
    if not found:
        yield ok("those of the deployment itself, whose stacks are there")


def _eks(subject: Subject) -> Iterator[Finding]:
    name = subject.plan.cluster.eks_name
    found = subject.account.call(
        "eks", "DescribeCluster", absent=("ResourceNotFoundException",), name=name
    )
    yield _free("EKS cluster", name, taken=found is not None)


def _hyperpod(subject: Subject) -> Iterator[Finding]:
    name = subject.plan.cluster.hyperpod_name
    found = subject.account.call(
        "sagemaker",
        "DescribeCluster",
        absent=("ResourceNotFound", "ResourceNotFoundException"),
        ClusterName=name,
    )
    yield _free("HyperPod cluster", name, taken=found is not None)


def _free(kind: str, name: str, *, taken: bool) -> Finding:
    if taken:
        return fail(
            f"there is {'an' if kind[0] == 'E' else 'a'} {kind} {name}, and no stack of this "
            "deployment made it",
            "choose another name, or delete that cluster",
        )
    return ok(f"{kind} {name} is free")


def _buckets(subject: Subject) -> Iterator[Finding]:
    plan = subject.plan
    end = f"{subject.number}-{subject.region}"
    names = [f"sagemaker-{plan.name}-lifecycle-{end}"]
    features = plan.cluster.features
    if features is not None and features.inference is not None:
        names.append(f"{features.inference.tls_bucket}-{end}")
    for name in names:
        found = subject.account.call(
            "s3", "HeadBucket", absent=("404", "NoSuchBucket"), Bucket=name
        )
        if found is None:
            yield ok(f"bucket {name} is free")
        else:
            yield warn(
                f"bucket {name} is there already, kept by a deployment that is gone or made by "
                "somebody else",
                "the deployment takes it over; delete it first if that is not what you want",
            )


def _operator_role(subject: Subject) -> Iterator[Finding]:
    features = subject.plan.cluster.features
    if features is None or features.inference is None:
        return
    name = features.inference.role_name
    found = subject.account.call(
        "iam", "GetRole", absent=("NoSuchEntity", "NoSuchEntityException"), RoleName=name
    )
    if found is None:
        yield ok(f"role {name} is free")
    else:
        yield fail(f"there is a role {name} already", "delete it, or choose another name")


def _log_groups(subject: Subject) -> Iterator[Finding]:
    plan = subject.plan
    names = []
    if plan.cluster.existing is None and subject.stack("cluster") is None:
        names.append(f"/aws/eks/{plan.cluster.eks_name}/cluster")
    if plan.observability is not None and subject.stack("observability") is None:
        names.append(f"/aws/vendedlogs/prometheus/{plan.observability.workspace_alias}")
    for name in names:
        groups = subject.account.items(
            "logs", "DescribeLogGroups", "logGroups", logGroupNamePrefix=name
        )
        if any(group["logGroupName"] == name for group in groups):
            yield warn(
                f"log group {name} is there already, kept by a deployment that is gone",
                "the deployment takes it over; delete it first if its lines should go",
            )
        else:
            yield ok(f"log group {name} is free")


def _prometheus(subject: Subject) -> Iterator[Finding]:
    plan = subject.plan.observability
    alias = "" if plan is None else plan.workspace_alias
    found = subject.account.items("amp", "ListWorkspaces", "workspaces", alias=alias)
    same = [one for one in found if one.get("alias") == alias]
    yield _second("Managed Prometheus workspace", alias, len(same))


def _grafana(subject: Subject) -> Iterator[Finding]:
    plan = subject.plan.observability
    name = "" if plan is None else plan.grafana_name
    found = subject.account.items("grafana", "ListWorkspaces", "workspaces")
    same = [one for one in found if one.get("name") == name]
    yield _second("Managed Grafana workspace", name, len(same))


def _second(kind: str, name: str, count: int) -> Finding:
    if count:
        return warn(
            f"there is a {kind} {name} already, and there would be two of that name",
            "delete it if it is of a deployment that is gone",
        )
    return ok(f"{kind} {name} is free")
