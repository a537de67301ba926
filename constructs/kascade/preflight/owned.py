"""What the configuration names and others made: clusters, keys, buckets, alarms, images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kascade.plan import BucketAccess, InstanceGroupPlan
from kascade.preflight.account import CannotLookError
from kascade.preflight.rows import Finding, Subject, each, fail, ok, warn
from kascade.sizing.account import images_of

_AUTHENTICATION = frozenset({"API", "API_AND_CONFIG_MAP"})
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/"
    r"(?P<repository>[^:@]+)(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:[0-9a-f]+))?"
)
_NO_REPOSITORY = ("RepositoryNotFoundException",)


def check_existing_clusters(subject: Subject) -> Iterator[Finding]:
    """Hold clusters that exist against what the configuration says of them."""
    if subject.plan.cluster.existing is None:
        yield ok("none is named")
        return
    looks = [_eks, _eks_addons]
    looks += [] if subject.plan.cluster.makes_hyperpod else [_hyperpod]
    yield from each(looks, lambda look: look(subject))


def _eks_cluster(subject: Subject) -> dict[str, Any] | None:
    found = subject.account.call(
        "eks",
        "DescribeCluster",
        absent=("ResourceNotFoundException",),
        name=subject.plan.cluster.eks_name,
    )
    return None if found is None else dict(found["cluster"])


def _eks(subject: Subject) -> Iterator[Finding]:
    plan = subject.plan.cluster
    name = plan.eks_name
    found = _eks_cluster(subject)
    if found is None or plan.existing is None:
        yield fail(
            f"{subject.region} has no EKS cluster {name}", "correct kubernetes.existing.name"
        )
        return
    network = found.get("resourcesVpcConfig") or {}
    vpc = subject.plan.network.existing
    wrong = []
    for what, has, stated, setting in (
        ("version", found.get("version"), plan.kubernetes_version, "kubernetes.version"),
        (
            "security group",
            network.get("clusterSecurityGroupId"),
            plan.existing.security_group_id,
            "kubernetes.existing.security_group_id",
        ),
        ("VPC", network.get("vpcId"), vpc and vpc.vpc_id, "network.existing.vpc_id"),
    ):
        if has != stated:
            wrong.append((f"{what} {has}, not {stated}", f"set {setting}: {has}"))
    mode = (found.get("accessConfig") or {}).get("authenticationMode")
    if mode not in _AUTHENTICATION:
        wrong.append(
            (
                f"authentication mode {mode}, which knows no access entries",
                "change it to API_AND_CONFIG_MAP (aws eks update-cluster-config)",
            )
        )
    if wrong:
        yield fail(
            f"{name} has {'; '.join(said for said, _ in wrong)}",
            "; ".join(todo for _, todo in wrong),
        )
    elif found.get("status") != "ACTIVE":
        yield warn(f"{name} is {found.get('status')}", "wait until it is ACTIVE")
    else:
        yield ok(f"EKS cluster {name} is as the configuration says")


def _eks_addons(subject: Subject) -> Iterator[Finding]:
    eks = subject.config.kubernetes.existing
    if eks is None:
        return
    has = set(
        subject.account.items(
            "eks",
            "ListAddons",
            "addons",
            absent=("ResourceNotFoundException",),
            clusterName=eks.name,
        )
    )
    made = {addon.name for addon in subject.plan.cluster.addons}
    stack = subject.stack("cluster") is not None
    clash = sorted(made & has) if not stack else []
    lacking = sorted(set(eks.addons) - has)
    if clash:
        yield fail(
            f"{eks.name} has {', '.join(clash)} already, and the deployment would make it",
            f"add {', '.join(clash)} to kubernetes.existing.addons",
        )
    if lacking:
        yield warn(
            f"{eks.name} has no add-on {', '.join(lacking)}, and the configuration says it has",
            "leave it out of kubernetes.existing.addons, unless the owner has it from a chart",
        )
    if not clash and not lacking:
        yield ok("its add-ons are as the configuration says")


def _hyperpod(subject: Subject) -> Iterator[Finding]:
    existing = subject.plan.cluster.existing
    arn = existing.hyperpod_arn if existing else None
    found = subject.account.call(
        "sagemaker",
        "DescribeCluster",
        absent=("ResourceNotFound", "ResourceNotFoundException"),
        ClusterName=arn,
    )
    if found is None:
        yield fail(f"there is no HyperPod cluster {arn}", "correct hyperpod.existing.cluster_arn")
        return
    on = ((found.get("Orchestrator") or {}).get("Eks") or {}).get("ClusterArn", "")
    if not on.endswith(f":cluster/{subject.plan.cluster.eks_name}"):
        yield fail(
            f"it stands on {on or 'Slurm'}, not on EKS cluster {subject.plan.cluster.eks_name}",
            "correct kubernetes.existing or hyperpod.existing",
        )
    if found["ClusterStatus"] != "InService":
        yield warn(
            f"it is {found['ClusterStatus']}: {found.get('FailureMessage', 'no reason given')}",
            "wait until it is InService",
        )
    groups = {group["InstanceGroupName"]: group for group in found.get("InstanceGroups") or []}
    for group in subject.plan.cluster.groups:
        yield _group(group, groups)


def _group(group: InstanceGroupPlan, groups: dict[str, dict[str, Any]]) -> Finding:
    found = groups.get(group.name)
    if found is None:
        return fail(
            f"it has no group {group.name}, only {', '.join(sorted(groups)) or 'none'}",
            "correct instance_groups[].name",
        )
    types = {detail["InstanceType"] for detail in found.get("InstanceTypeDetails") or []}
    types |= {found["InstanceType"]} if found.get("InstanceType") else set()
    if not types & set(group.instance_types):
        return fail(
            f"group {group.name} has {', '.join(sorted(types))}, not {group.instance_type}",
            f"set instance_type: {sorted(types)[0]}" if types else "correct instance_groups",
        )
    count = found.get("CurrentCount", 0)
    if count < group.count:
        return warn(
            f"group {group.name} has {count} instances, and the plan counts on {group.count}",
            f"set count: {count}, or let its owner add some",
        )
    return ok(f"group {group.name} has {count} of {group.instance_type}")


def check_keys(subject: Subject) -> Iterator[Finding]:
    """See that every KMS key that is named can be used."""
    keys = {*subject.plan.cluster.volume_keys}
    keys |= {w.kms_key_arn for w in subject.plan.cluster.weights if w.kms_key_arn is not None}
    if not keys:
        yield ok("none is named")
        return

    def look(arn: str) -> Iterator[Finding]:
        found = subject.account.call("kms", "DescribeKey", absent=("NotFoundException",), KeyId=arn)
        if found is None:
            yield fail(f"there is no key {arn}", "correct its ARN")
            return
        state = found["KeyMetadata"]["KeyState"]
        region = arn.split(":")[3]
        if region != subject.region:
            yield fail(f"{arn} is in {region}, not in {subject.region}", "name one of the region")
        elif state != "Enabled":
            yield fail(f"{arn} is {state}", "enable it (KMS console), or name another")
        else:
            yield ok(f"{arn} is enabled")

    yield from each(sorted(keys), look)


def check_weights(subject: Subject) -> Iterator[Finding]:
    """See that weights lie in the buckets that are named."""
    weights = subject.plan.cluster.weights
    if not weights:
        yield ok("no model takes them from S3")
        return
    yield from each(weights, lambda access: _weights(subject, access))


def _weights(subject: Subject, access: BucketAccess) -> Iterator[Finding]:
    account = subject.account
    try:
        head = account.call(
            "s3", "HeadBucket", absent=("404", "NoSuchBucket"), Bucket=access.bucket
        )
    except CannotLookError as error:
        if "301" not in str(error):
            raise
        yield _elsewhere(access, "another region", subject.region)
        return
    if head is None:
        yield fail(f"there is no bucket {access.bucket}", "correct models[].weights.bucket")
        return
    region = head.get("BucketRegion") or subject.region
    if region != subject.region:
        yield _elsewhere(access, region, subject.region)
        return
    place = f"{access.bucket}/{access.prefix}"
    found = account.call(
        "s3", "ListObjectsV2", Bucket=access.bucket, Prefix=f"{access.prefix}/", MaxKeys=1000
    )
    keys = [item["Key"] for item in (found or {}).get("Contents") or []]
    if not keys:
        yield fail(f"nothing lies in {place}", "upload the weights there, or correct the prefix")
    elif f"{access.prefix}/config.json" not in keys:
        yield warn(f"{place} has no config.json", "see that the model's files lie there themselves")
    else:
        yield ok(f"{place} has config.json")


def _elsewhere(access: BucketAccess, region: str, wanted: str) -> Finding:
    return fail(
        f"bucket {access.bucket} is in {region}, not in {wanted}",
        f"copy the weights to a bucket in {wanted}",
    )


def check_alarms(subject: Subject) -> Iterator[Finding]:
    """See that the alarms that roll an update back exist and are quiet."""
    updates = subject.plan.cluster.software_updates
    names = list(updates.rollback_alarms) if updates else []
    if not names:
        yield ok("none is named")
        return
    found = {
        alarm["AlarmName"]: alarm
        for key in ("MetricAlarms", "CompositeAlarms")
        for alarm in (
            subject.account.call("cloudwatch", "DescribeAlarms", AlarmNames=names) or {}
        ).get(key, [])
    }
    for name in names:
        alarm = found.get(name)
        if alarm is None:
            yield fail(
                f"there is no alarm {name}",
                "make it, or correct hyperpod.software_updates.rollback_alarms",
            )
        elif alarm.get("StateValue") == "ALARM":
            yield warn(f"{name} is going off", "an update would be rolled back while it does")
        else:
            yield ok(f"{name} exists")


def check_images(subject: Subject) -> Iterator[Finding]:
    """See that images in ECR are there; other registries cannot be asked as AWS."""
    others = set()

    def look(image: str) -> Iterator[Finding]:
        match = _ECR.fullmatch(image)
        if match is None:
            others.add(image.partition("/")[0])
            return
        yield from _image(subject, image, match)

    yield from each(images_of(subject.plan), look)
    if others:
        yield ok(f"not asked, since no API of AWS knows: {', '.join(sorted(others))}")


def _image(subject: Subject, image: str, match: re.Match[str]) -> Iterator[Finding]:
    if match["region"] != subject.region:
        yield ok(f"{image} is in another region's registry, which was not asked")
        return
    named = {"imageDigest": match["digest"]} if match["digest"] else {"imageTag": match["tag"]}
    try:
        found = subject.account.call(
            "ecr",
            "BatchGetImage",
            absent=_NO_REPOSITORY,
            registryId=match["account"],
            repositoryName=match["repository"],
            imageIds=[named],
        )
    except CannotLookError as error:
        if error.right is None or match["account"] == subject.number:
            raise
        yield warn(
            f"{image}: {error}, or the registry's owner lets nobody of {subject.number} look",
            f"let whoever runs this have {error.right}, or pull it once from the account",
        )
        return
    if found is None:
        yield fail(f"there is no repository of {image}", "push the image, or correct images")
    elif not found.get("images"):
        said = (found.get("failures") or [{}])[0].get("failureReason", "it is not there")
        yield fail(f"{image}: {said}", "push the image, or correct images")
    else:
        yield ok(f"{image} is there")
