"""What EKS and the CDK offer: Kubernetes versions, add-ons, the bootstrap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from kascade.catalog.kubernetes import (
    EKS_EXTENDED_USD_PER_HOUR,
    EKS_USD_PER_HOUR,
    KUBERNETES_VERSIONS,
    SUPPORT_NOTICE_DAYS,
)
from kascade.catalog.quotas import (
    BOOTSTRAP_LOOKUP_VERSION,
    BOOTSTRAP_PARAMETER,
    BOOTSTRAP_VERSION,
)
from kascade.plan import AddonPlan
from kascade.preflight.rows import Finding, Subject, each, fail, ok, warn
from kascade.sizing.account import all_addons

_STANDARD, _EXTENDED = "STANDARD_SUPPORT", "EXTENDED_SUPPORT"
_MAX_SHOWN = 3


def check_kubernetes(subject: Subject) -> Iterator[Finding]:
    """See that EKS still makes clusters of the version, and for how long at the low price."""
    if subject.plan.cluster.existing is not None:
        yield ok("the EKS cluster exists")
        return
    version = subject.plan.cluster.kubernetes_version
    versions = {
        found["clusterVersion"]: found
        for found in subject.account.items("eks", "DescribeClusterVersions", "clusterVersions")
    }
    standard = [
        name
        for name in sorted(versions, key=_sortable)
        if _status(versions[name]) == _STANDARD and name in KUBERNETES_VERSIONS
    ]
    better = f'set kubernetes.version: "{standard[-1]}"' if standard else "choose another version"
    found = versions.get(version)
    status = _status(found) if found else "on offer no more"
    if found is None or status not in {_STANDARD, _EXTENDED}:
        yield fail(f"{version} is {status.lower().replace('_', ' ')}", better)
        return
    ends = found.get("endOfStandardSupportDate")
    day = f" until {ends:%Y-%m-%d}" if ends else ""
    if status == _EXTENDED:
        yield warn(
            f"{version} is in extended support: {EKS_EXTENDED_USD_PER_HOUR:.2f} USD/h instead of "
            f"{EKS_USD_PER_HOUR:.2f}",
            better,
        )
    elif ends and ends - datetime.now(UTC) < timedelta(SUPPORT_NOTICE_DAYS):
        yield warn(
            f"{version} has standard support{day}, then it costs "
            f"{EKS_EXTENDED_USD_PER_HOUR:.2f} USD/h instead of {EKS_USD_PER_HOUR:.2f}",
            better if standard[-1:] != [version] else "upgrade when a newer version is supported",
        )
    else:
        yield ok(f"{version} has standard support{day}")


def _status(found: dict[str, Any]) -> str:
    status = found.get("versionStatus") or found.get("status") or ""
    return str(status).upper().replace("-", "_")


def _sortable(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def check_addons(subject: Subject) -> Iterator[Finding]:
    """Hold the pinned versions of add-ons against what EKS offers for the Kubernetes version."""
    addons = all_addons(subject.plan)
    if not addons:
        yield ok("none is made")
        return
    yield from each(addons, lambda addon: _addon(subject, addon))


def _addon(subject: Subject, addon: AddonPlan) -> Iterator[Finding]:
    version = subject.plan.cluster.kubernetes_version
    offered: list[str] = []
    default = None
    for found in subject.account.items(
        "eks",
        "DescribeAddonVersions",
        "addons",
        absent=("ResourceNotFoundException",),
        addonName=addon.name,
        kubernetesVersion=version,
    ):
        for build in found.get("addonVersions") or []:
            for fits in build.get("compatibilities") or []:
                if fits.get("clusterVersion") == version:
                    offered.append(build["addonVersion"])
                    if fits.get("defaultVersion"):
                        default = build["addonVersion"]
    offered.sort(key=_sortable, reverse=True)
    if not offered:
        yield fail(
            f"EKS offers no {addon.name} for Kubernetes {version} in {subject.region}",
            "choose another kubernetes.version, or turn off what needs it (kubernetes.addons)",
        )
    elif addon.version is None:
        best = default or offered[0]
        yield ok(f"{addon.name} is not pinned, and EKS would take {best}")
    elif addon.version not in offered:
        shown = ", ".join(offered[:_MAX_SHOWN])
        yield fail(
            f"EKS does not offer {addon.name} {addon.version} for Kubernetes {version}; the newest "
            f"it offers: {shown}",
            f"pin {default or offered[0]} for {version} in constructs/kascade/catalog "
            "(kubernetes.py or addons.py), or move to a release of Kascade that does",
        )
    elif _old(addon.version, default):
        yield warn(
            f"{addon.name} is pinned to {addon.version}, and EKS's default is newer: {default}",
            "deploy, and move to a release of Kascade that pins a newer one",
        )
    else:
        yield ok(f"{addon.name} {addon.version}")


def _old(pinned: str, default: str | None) -> bool:
    """Whether EKS's own choice is another minor release ahead."""
    return default is not None and _sortable(pinned)[:2] < _sortable(default)[:2]


def check_bootstrap(subject: Subject) -> Iterator[Finding]:
    """See that the CDK has its roles and its bucket in account and region."""
    command = f"cdk bootstrap aws://{subject.number}/{subject.region}"
    answer = subject.account.call(
        "ssm", "GetParameter", absent=("ParameterNotFound",), Name=BOOTSTRAP_PARAMETER
    )
    if answer is None:
        yield fail("account and region are not bootstrapped for the CDK", f"run {command}")
        return
    text = answer["Parameter"]["Value"]
    version = int(text) if text.isdecimal() else 0
    said = f"version {text}; the templates ask for {BOOTSTRAP_VERSION}"
    if version < BOOTSTRAP_VERSION:
        yield fail(said, f"run {command} again")
    elif version < BOOTSTRAP_LOOKUP_VERSION:
        yield warn(
            f"{said}, and make diff for {BOOTSTRAP_LOOKUP_VERSION} to read what is deployed",
            f"run {command} again",
        )
    else:
        yield ok(said)
