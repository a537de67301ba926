"""Quotas of HyperPod, EC2 and Lambda, beside what is used already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kascade.catalog.quotas import (
    ALL_CLUSTERS,
    ALL_SPOT,
    COMFORTABLE_CONCURRENCY,
    DEPLOYMENT_CONCURRENCY,
    ELASTIC_IPS,
    HYPERPOD_SERVICE,
    INTERFACE_ENDPOINTS,
    LAMBDA_CONCURRENCY,
    NAT_GATEWAYS,
    ON_DEMAND_VCPUS,
    PER_CLUSTER,
    STANDARD_FAMILIES,
    VOLUME,
    VPCS,
    QuotaCode,
    cluster_quota,
)
from kascade.preflight.account import CannotLookError
from kascade.preflight.rows import Finding, Subject, each, fail, ok, unseen, warn
from kascade.sizing.account import Filling, InstanceNeed, fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota as the account has it."""

    name: str
    code: str
    service: str
    limit: int


def _ask_for(subject: Subject, quota: Quota, value: int) -> str:
    return (
        f"ask for {value} in Service Quotas: {quota.name} (code {quota.code}), "
        f"https://{subject.region}.console.aws.amazon.com/servicequotas/home/services/"
        f"{quota.service}/quotas/{quota.code}"
    )


# --- HyperPod ------------------------------------------------------------------------------------


def check_hyperpod_quotas(subject: Subject) -> Iterator[Finding]:
    """Hold the instances of every group against the quotas of their types."""
    if not subject.plan.cluster.makes_hyperpod:
        yield ok("the HyperPod cluster exists, and its instances with it")
        return
    quotas = _hyperpod_quotas(subject)
    used: Counter[tuple[str, bool]] = Counter()
    try:
        used = _used_elsewhere(subject)
    except CannotLookError as error:
        yield unseen(error)
    for spot in (False, True):
        needs = tuple(need for need in subject.needs.instances if need.spot == spot)
        yield from _of_types(subject, needs, quotas, used)
    wanted = [(PER_CLUSTER, 0, subject.needs.in_cluster)]
    wanted += [(ALL_CLUSTERS, used.total(), subject.needs.in_cluster)]
    if subject.needs.spot:
        others = sum(count for (_, is_spot), count in used.items() if is_spot)
        wanted += [(ALL_SPOT, others, subject.needs.spot)]
    wanted += [(VOLUME, 0, subject.needs.volume_gib)]
    for name, others, need in wanted:
        yield _bounded(subject, quotas.get(name), name, used=others, need=need)


def _hyperpod_quotas(subject: Subject) -> dict[str, Quota]:
    names = {PER_CLUSTER, ALL_CLUSTERS, VOLUME}
    names |= {ALL_SPOT} if subject.needs.spot else set()
    for need in subject.needs.instances:
        names |= {cluster_quota(kind, spot=need.spot) for kind in need.types}
    found: dict[str, Quota] = {}
    # The first list lacks what nobody has changed.
    for operation in ("ListServiceQuotas", "ListAWSDefaultServiceQuotas"):
        missing = names - set(found)
        if not missing:
            break

        def enough(so_far: list[Any], missing: set[str] = missing) -> bool:
            return missing <= {quota["QuotaName"] for quota in so_far}

        for quota in subject.account.items(
            "service-quotas", operation, "Quotas", enough=enough, ServiceCode=HYPERPOD_SERVICE
        ):
            if quota["QuotaName"] in missing:
                found[quota["QuotaName"]] = Quota(
                    name=quota["QuotaName"],
                    code=quota["QuotaCode"],
                    service=HYPERPOD_SERVICE,
                    limit=int(quota["Value"]),
                )
    return found


def _used_elsewhere(subject: Subject) -> Counter[tuple[str, bool]]:
    """Instances of the account's other HyperPod clusters, by type and whether they are spot."""
    used: Counter[tuple[str, bool]] = Counter()
    for summary in subject.account.items("sagemaker", "ListClusters", "ClusterSummaries"):
        if summary["ClusterName"] == subject.plan.cluster.hyperpod_name:
            continue
        cluster = subject.account.call(
            "sagemaker",
            "DescribeCluster",
            absent=("ResourceNotFound",),
            ClusterName=summary["ClusterName"],
        )
        for group in (cluster or {}).get("InstanceGroups") or []:
            if group.get("TrainingPlanArn"):
                continue
            spot = "Spot" in (group.get("CapacityRequirements") or {})
            details = group.get("InstanceTypeDetails")
            if details:
                for detail in details:
                    used[detail["InstanceType"], spot] += detail.get("CurrentCount", 0)
            elif group.get("InstanceType"):
                used[group["InstanceType"], spot] += max(
                    group.get("TargetCount", 0), group.get("CurrentCount", 0)
                )
    return used


def _of_types(
    subject: Subject,
    needs: tuple[InstanceNeed, ...],
    quotas: Mapping[str, Quota],
    used: Mapping[tuple[str, bool], int],
) -> Iterator[Finding]:
    free: dict[str, int] = {}
    for need in needs:
        for kind in need.types:
            quota = quotas.get(cluster_quota(kind, spot=need.spot))
            if quota is not None:
                free[kind] = quota.limit - used.get((kind, need.spot), 0)
    fillings = fill(needs, free)
    lacking: Counter[str] = Counter()
    for filling in fillings:
        if filling.missing:
            lacking[filling.short[0]] += filling.missing
    # A type of which others use more than there is gives us nothing until that is made up for.
    enough = {kind: count + max(-free[kind], 0) for kind, count in lacking.items()}
    for filling in fillings:
        yield _of_group(subject, filling, quotas, used, enough)


def _of_group(
    subject: Subject,
    filling: Filling,
    quotas: Mapping[str, Quota],
    used: Mapping[tuple[str, bool], int],
    lacking: Mapping[str, int],
) -> Finding:
    need = filling.need
    names = [cluster_quota(kind, spot=need.spot) for kind in need.types]
    unknown = [name for name in names if name not in quotas]
    if len(unknown) == len(names):
        return warn(
            f"Service Quotas lists no {' or '.join(names)}, and group {need.group} needs "
            f"{need.count}",
            "look whether HyperPod offers the type in this region (SageMaker console, HyperPod)",
        )
    said = "; ".join(
        f"{name}: {quotas[name].limit}"
        + (f" of which {others} are used" if (others := used.get((kind, need.spot), 0)) else "")
        for kind, name in zip(need.types, names, strict=True)
        if name in quotas
    )
    said += f"; group {need.group} needs {need.count}"
    if not filling.missing:
        if filling.short and len(need.types) > 1:
            return warn(
                f"{said}, and gets them without {', '.join(filling.short)} or with few of it",
                "ask for more of that type if it is the one you want",
            )
        return ok(said)
    kind = filling.short[0]
    quota = quotas[cluster_quota(kind, spot=need.spot)]
    todo = _ask_for(subject, quota, quota.limit + lacking[kind])
    if need.at_most and filling.given:
        return warn(f"{said} at most, of which {filling.given} can come", todo)
    return fail(said, todo)


def _bounded(subject: Subject, quota: Quota | None, name: str, *, used: int, need: int) -> Finding:
    if quota is None:
        return warn(
            f"Service Quotas lists no {name}, and the plan needs {need}",
            "look it up in the Service Quotas console",
        )
    said = f"{quota.name}: {quota.limit}{f', {used} used' if used else ''}; the plan needs {need}"
    if quota.limit < used + need:
        return fail(said, _ask_for(subject, quota, used + need))
    return ok(said)


def check_training_plans(subject: Subject) -> Iterator[Finding]:
    """See that each training plan reserves what its groups take."""
    if not subject.needs.reserved:
        yield ok("no group has one")
        return

    def look(arn: str) -> Iterator[Finding]:
        need = subject.needs.reserved[arn]
        name = arn.rpartition("/")[2]
        found = subject.account.call(
            "sagemaker",
            "DescribeTrainingPlan",
            absent=("ResourceNotFound",),
            TrainingPlanName=name,
        )
        if found is None:
            yield fail(f"the account has no training plan {name}", "correct capacity.arn")
            return
        status, total = found["Status"], found.get("TotalInstanceCount", 0)
        targets = found.get("TargetResources") or ["hyperpod-cluster"]
        said = f"{name} is {status} with {total} instances; the plan needs {need}"
        if status in {"Expired", "Failed"} or total < need or "hyperpod-cluster" not in targets:
            yield fail(
                said if "hyperpod-cluster" in targets else f"{said}, and it is not for HyperPod",
                f"buy a training plan of {need} instances for HyperPod, or lower the count",
            )
        elif status != "Active":
            start = found.get("StartTime")
            when = f" (on {start:%Y-%m-%d %H:%M} UTC)" if start else ""
            yield warn(said, f"expect no instance before it begins{when}")
        else:
            yield ok(said)

    yield from each(sorted(subject.needs.reserved), look)


# --- EC2 and VPC ---------------------------------------------------------------------------------


def check_ec2_quotas(subject: Subject) -> Iterator[Finding]:
    """Hold system nodes, VPC, addresses, NAT gateways and endpoints against their quotas."""
    looks = (
        [_vcpus, _network, _endpoints]
        if subject.plan.network.existing is None
        else [_vcpus, _endpoints]
    )
    yield from each(looks, lambda look: look(subject))


def _network(subject: Subject) -> Iterator[Finding]:
    if subject.stack("network") is not None:
        yield ok("VPC, addresses and NAT gateways are made already")
        return
    yield from each((_vpcs, _addresses, _nat_gateways), lambda look: look(subject))


def _quota(subject: Subject, known: QuotaCode) -> Quota:
    found = None
    for operation in ("GetServiceQuota", "GetAWSDefaultServiceQuota"):
        found = subject.account.call(
            "service-quotas",
            operation,
            absent=("NoSuchResourceException",),
            ServiceCode=known.service,
            QuotaCode=known.code,
        )
        if found is not None:
            break
    if found is None:
        msg = f"Service Quotas knows no {known.code} ({known.name})"
        raise CannotLookError(msg)
    return Quota(
        name=known.name,
        code=known.code,
        service=known.service,
        limit=int(found["Quota"]["Value"]),
    )


def _vcpus(subject: Subject) -> Iterator[Finding]:
    quota = _quota(subject, ON_DEMAND_VCPUS)
    used = 0
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    for reservation in subject.account.items(
        "ec2", "DescribeInstances", "Reservations", Filters=states
    ):
        for instance in reservation.get("Instances") or []:
            tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags") or []}
            mine = tags.get("eks:cluster-name") == subject.plan.cluster.eks_name
            family = instance["InstanceType"][0]
            if mine or instance.get("InstanceLifecycle") or family not in STANDARD_FAMILIES:
                continue
            cpu = instance.get("CpuOptions") or {}
            used += cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 0)
    need, most = subject.needs.system_vcpus, subject.needs.most_system_vcpus
    group = subject.plan.cluster.system_group
    said = (
        f"{quota.limit} vCPUs on demand, {used} used; {group.count} system nodes need {need}, and "
        f"{most} once they are {group.max_count} and one is replaced"
    )
    if quota.limit < used + need:
        yield fail(said, _ask_for(subject, quota, used + most))
    elif quota.limit < used + most:
        yield warn(said, _ask_for(subject, quota, used + most))
    else:
        yield ok(said)


def _vpcs(subject: Subject) -> Iterator[Finding]:
    used = len(subject.account.items("ec2", "DescribeVpcs", "Vpcs"))
    yield _bounded(subject, _quota(subject, VPCS), VPCS.name, used=used, need=subject.needs.vpcs)


def _addresses(subject: Subject) -> Iterator[Finding]:
    if not subject.needs.elastic_ips:
        return
    used = len(subject.account.items("ec2", "DescribeAddresses", "Addresses"))
    yield _bounded(
        subject,
        _quota(subject, ELASTIC_IPS),
        ELASTIC_IPS.name,
        used=used,
        need=subject.needs.elastic_ips,
    )


def _nat_gateways(subject: Subject) -> Iterator[Finding]:
    if not subject.needs.nat_gateways:
        return
    quota = _quota(subject, NAT_GATEWAYS)
    zones = {
        subnet["SubnetId"]: subnet["AvailabilityZone"]
        for subnet in subject.account.items("ec2", "DescribeSubnets", "Subnets")
    }
    states = [{"Name": "state", "Values": ["pending", "available"]}]
    used = Counter(
        zones.get(gateway.get("SubnetId", ""), "")
        for gateway in subject.account.items(
            "ec2", "DescribeNatGateways", "NatGateways", Filter=states
        )
    )
    for zone, need in subject.needs.nat_gateways.items():
        name = f"{quota.name}, {zone}"
        bounded = _bounded(subject, quota, name, used=used[zone], need=need)
        yield Finding(state=bounded.state, said=f"{zone}: {bounded.said}", todo=bounded.todo)


def _endpoints(subject: Subject) -> Iterator[Finding]:
    services = subject.needs.services
    existing = subject.plan.network.existing
    if not services:
        return
    used = 0
    if existing is not None:
        filters = [
            {"Name": "vpc-id", "Values": [existing.vpc_id]},
            {"Name": "vpc-endpoint-type", "Values": ["Interface"]},
        ]
        here = subject.account.items("ec2", "DescribeVpcEndpoints", "VpcEndpoints", Filters=filters)
        if subject.stack("observability") is not None:
            yield ok("interface endpoints are made already")
            return
        used = len(here)
    quota = _quota(subject, INTERFACE_ENDPOINTS)
    yield _bounded(subject, quota, INTERFACE_ENDPOINTS.name, used=used, need=len(services))


# --- Lambda --------------------------------------------------------------------------------------


def check_lambda(subject: Subject) -> Iterator[Finding]:
    """See that as many functions may run at once as a deployment starts."""
    limits = (subject.account.call("lambda", "GetAccountSettings") or {})["AccountLimit"]
    total, free = limits["ConcurrentExecutions"], limits["UnreservedConcurrentExecutions"]
    said = f"{free} of {total} executions at once are free; a deployment takes "
    said += f"{DEPLOYMENT_CONCURRENCY}"
    quota = Quota(
        name=LAMBDA_CONCURRENCY.name,
        code=LAMBDA_CONCURRENCY.code,
        service=LAMBDA_CONCURRENCY.service,
        limit=total,
    )
    todo = _ask_for(subject, quota, max(1000, total + COMFORTABLE_CONCURRENCY - free))
    if free < DEPLOYMENT_CONCURRENCY:
        yield fail(f"{said}, so it would be rolled back", todo)
    elif free < COMFORTABLE_CONCURRENCY:
        yield warn(f"{said}, so other functions of the account must rest meanwhile", todo)
    else:
        yield ok(said)
