"""What runs of a deployment, as HyperPod and CloudFormation say, and why something does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kascade.plan import ServingPlan
from kascade.preflight.account import Account, CannotLookError
from kascade.preflight.rows import find_stack

_GONE: Final = ("ResourceNotFound", "ResourceNotFoundException")
_MAX_REASONS: Final = 3
_RUNNING: Final = "Running"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One instance group beside its plan.

    Attributes:
        planned: Instances of the plan; with Karpenter the most there may be.
        running: Instances that run; None where nobody says.
        elastic: Whether Karpenter makes them when pods wait, so that none is missing.
        reasons: What HyperPod says about those that are missing, the newest first.
    """

    name: str
    planned: int
    running: int | None
    elastic: bool
    reasons: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether none is missing."""
        return self.elastic or (self.running is not None and self.running >= self.planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The HyperPod cluster.

    Attributes:
        said: Its status, with HyperPod's reason where that is a bad one; or why nobody knows.
        found: Whether there is such a cluster; None where nobody could look.
        again: Whether another look may succeed where this one did not.
    """

    said: str
    found: bool | None
    groups: tuple[GroupState, ...]
    again: bool = False


def cluster_state(plan: ServingPlan, account: Account) -> ClusterState:
    """Ask HyperPod for the instances of every group."""
    name = plan.cluster.hyperpod_name
    if plan.cluster.existing is not None and plan.cluster.existing.hyperpod_arn is not None:
        name = plan.cluster.existing.hyperpod_arn
    try:
        found = account.call("sagemaker", "DescribeCluster", absent=_GONE, ClusterName=name)
    except CannotLookError as error:
        return ClusterState(
            said=f"not looked at: {error}",
            found=None,
            groups=_unknown(plan),
            again=error.right is None,
        )
    if found is None:
        said = f"there is no HyperPod cluster {name}: deploy the configuration"
        return ClusterState(said=said, found=False, groups=_unknown(plan))
    groups = {group["InstanceGroupName"]: group for group in found.get("InstanceGroups") or []}
    failure = found.get("FailureMessage")
    said = str(found["ClusterStatus"]) + (f": {failure}" if failure else "")
    states = tuple(_group_states(plan, account, name, groups))
    return ClusterState(said=said, found=True, groups=states)


def _unknown(plan: ServingPlan) -> tuple[GroupState, ...]:
    return tuple(
        GroupState(
            name=group.name,
            planned=group.count,
            running=None,
            elastic=plan.cluster.autoscaling is not None,
            reasons=(),
        )
        for group in plan.cluster.groups
    )


def _group_states(
    plan: ServingPlan, account: Account, cluster: str, groups: Mapping[str, Mapping[str, Any]]
) -> Iterator[GroupState]:
    elastic = plan.cluster.autoscaling is not None
    for group in plan.cluster.groups:
        found = groups.get(group.name)
        running = 0 if found is None else int(found.get("CurrentCount", 0))
        reasons: list[str] = []
        if found is None:
            reasons.append("HyperPod has no such group")
        elif running < group.count and not elastic:
            reasons += _reasons(account, cluster, group.name)
        yield GroupState(
            name=group.name,
            planned=group.count,
            running=running,
            elastic=elastic,
            reasons=tuple(dict.fromkeys(reasons))
            or (() if elastic else _silent(running, group.count)),
        )


def _silent(running: int, planned: int) -> tuple[str, ...]:
    return () if running >= planned else ("HyperPod gives no reason yet",)


def _reasons(account: Account, cluster: str, group: str) -> Iterator[str]:
    """What nodes say of themselves, then what happened."""
    try:
        nodes = account.items(
            "sagemaker",
            "ListClusterNodes",
            "ClusterNodeSummaries",
            ClusterName=cluster,
            InstanceGroupNameContains=group,
        )
        for node in nodes:
            status = node.get("InstanceStatus") or {}
            if node["InstanceGroupName"] == group and status.get("Status") != _RUNNING:
                message = f": {status['Message']}" if status.get("Message") else ""
                yield f"{node['InstanceId']} is {status.get('Status')}{message}"
    except CannotLookError as error:
        yield f"its nodes were not looked at: {error}"
    try:
        yield from _events(account, cluster, group)
    except CannotLookError as error:
        yield f"its events were not looked at: {error}"


def _events(account: Account, cluster: str, group: str) -> Sequence[str]:
    def enough(events: list[Any]) -> bool:
        return len(_bad(events)) >= _MAX_REASONS

    events = account.items(
        "sagemaker",
        "ListClusterEvents",
        "Events",
        enough=enough,
        ClusterName=cluster,
        InstanceGroupName=group,
        SortBy="EventTime",
        SortOrder="Descending",
    )
    said = []
    for event in _bad(events)[:_MAX_REASONS]:
        text = event.get("Description") or "an event without words"
        detail = account.call(
            "sagemaker",
            "DescribeClusterEvent",
            absent=_GONE,
            ClusterName=cluster,
            EventId=event["EventId"],
        )
        inner = (detail or {}).get("EventDetails") or {}
        metadata = (inner.get("EventDetails") or {}).get("EventMetadata") or {}
        failures = [
            one["FailureMessage"]
            for one in metadata.values()
            if isinstance(one, dict) and one.get("FailureMessage")
        ]
        more = [failure for failure in failures if failure not in text]
        said.append(": ".join([text.rstrip(". "), *more]))
    return said


def _bad(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [event for event in events if event.get("EventLevel") in {"Warn", "Error"}]


def addresses(plan: ServingPlan, account: Account) -> dict[str, str]:
    """Where models and dashboards answer, by what the stacks say of it.

    Raises:
        CannotLookError: CloudFormation did not answer.
    """
    found = {}
    for part in ("serving", "observability"):
        stack = find_stack(account, f"{plan.name}-{part}") or {}
        for output in stack.get("Outputs") or []:
            key = output["OutputKey"]
            if key == "GrafanaUrl" or key.startswith("Endpoint"):
                found[key] = f"{output['OutputValue']} ({output.get('Description', key)})"
    return found


def eks_endpoint(plan: ServingPlan, account: Account) -> str | None:
    """Address of the EKS API, or None where nobody says.

    Raises:
        CannotLookError: EKS did not answer.
    """
    found = account.call(
        "eks", "DescribeCluster", absent=("ResourceNotFoundException",), name=plan.cluster.eks_name
    )
    endpoint = ((found or {}).get("cluster") or {}).get("endpoint")
    return None if endpoint is None else str(endpoint)
