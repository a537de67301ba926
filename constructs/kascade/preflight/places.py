"""Zones, and what they offer: instance types and interface endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kascade.catalog.regions import EKS_REFUSED_ZONES
from kascade.plan import HOME_ZONES
from kascade.preflight.rows import Finding, Subject, fail, ok, warn

_IN_USE = frozenset({"opted-in", "opt-in-not-required"})


def check_zones(subject: Subject) -> Iterator[Finding]:
    """Hold the deployment's zones against the account's, by name and by id."""
    known = _zones(subject)
    for zone in subject.plan.network.zones:
        yield _zone(subject, zone, known)


def _zone(subject: Subject, name: str, known: Mapping[str, Mapping[str, Any]]) -> Finding:
    zone = known.get(name)
    if zone is None:
        return fail(f"the account has no zone {name}", _others(subject))
    if zone.get("OptInStatus", "opt-in-not-required") not in _IN_USE:
        return fail(
            f"{name} is not enabled for the account",
            f"enable it (EC2 console, Settings, Zones), or {_others(subject)}",
        )
    if zone.get("ZoneType", "availability-zone") != "availability-zone":
        return fail(
            f"{name} is a {zone['ZoneType']}, where EKS and HyperPod are not", _others(subject)
        )
    number = zone.get("ZoneId", "")
    home = name in subject.plan.network.home_zones
    if home and number == EKS_REFUSED_ZONES.get(subject.region) and _makes_eks(subject):
        return fail(f"{name} is {number} here, where EKS puts no control plane", _others(subject))
    if zone.get("State", "available") != "available":
        return warn(f"{name} is {zone['State']}", "read AWS's health dashboard before you deploy")
    return ok(f"{name} is {number}")


def _others(subject: Subject) -> str:
    """Advise zones that would do, those of the configuration first."""
    good = _good_zones(subject)
    if len(good) < HOME_ZONES:
        return "choose another region: no two zones of this one would do"
    wanted = subject.plan.network.zones
    ranked = sorted(good, key=lambda zone: (zone not in wanted, zone))
    return f"set zones to [{', '.join(sorted(ranked[: max(len(wanted), HOME_ZONES)]))}]"


def _good_zones(subject: Subject) -> list[str]:
    """Zones that EKS takes and that offer every group's preferred type and the system nodes'."""
    wanted = {subject.plan.cluster.system_group.instance_type}
    if subject.plan.cluster.makes_hyperpod:
        wanted |= {group.instance_type for group in subject.plan.cluster.groups}
    offers = _offers(subject)
    return [
        name
        for name, zone in sorted(_zones(subject).items())
        if zone.get("ZoneType", "availability-zone") == "availability-zone"
        and zone.get("OptInStatus", "opt-in-not-required") in _IN_USE
        and zone.get("State", "available") == "available"
        and zone.get("ZoneId") != EKS_REFUSED_ZONES.get(subject.region)
        and all(name in offers.get(kind.removeprefix("ml."), ()) for kind in wanted)
    ]


def _makes_eks(subject: Subject) -> bool:
    return subject.plan.cluster.existing is None


def _zones(subject: Subject) -> dict[str, Mapping[str, Any]]:
    found = subject.account.items(
        "ec2", "DescribeAvailabilityZones", "AvailabilityZones", AllAvailabilityZones=True
    )
    return {zone["ZoneName"]: zone for zone in found}


def _offers(subject: Subject) -> dict[str, set[str]]:
    """Zones by EC2 type, for the types of the plan."""
    types = {subject.plan.cluster.system_group.instance_type}
    for group in subject.plan.cluster.groups:
        types |= {kind.removeprefix("ml.") for kind in group.instance_types}
    found = subject.account.items(
        "ec2",
        "DescribeInstanceTypeOfferings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": sorted(types)}],
    )
    zones: dict[str, set[str]] = {}
    for offer in found:
        zones.setdefault(offer["InstanceType"], set()).add(offer["Location"])
    return zones


def check_instance_types(subject: Subject) -> Iterator[Finding]:
    """Hold each group's types against what its zones offer.

    What is on offer is EC2's word: HyperPod has no list of its own that could be asked.
    """
    offers = _offers(subject)
    plan = subject.plan
    home = plan.network.home_zones
    yield _type(
        subject, "the system nodes", (plan.cluster.system_group.instance_type,), home, offers
    )
    if not plan.cluster.makes_hyperpod:
        return
    for group in plan.cluster.groups:
        places = home if group.zone is None else (group.zone,)
        yield _type(subject, f"group {group.name}", group.instance_types, places, offers)


def _type(
    subject: Subject,
    who: str,
    types: Sequence[str],
    places: Sequence[str],
    offers: Mapping[str, set[str]],
) -> Finding:
    have = {
        kind: [zone for zone in places if zone in offers.get(kind.removeprefix("ml."), ())]
        for kind in types
    }
    where = ", ".join(places)
    if not any(have.values()):
        elsewhere = sorted({z for kind in types for z in offers.get(kind.removeprefix("ml."), ())})
        place = f"{', '.join(elsewhere)} would do" if elsewhere else "no zone of the region does"
        return fail(
            f"{where} {_offer(len(places))} none of {', '.join(types)}, which {who} needs"
            if len(types) > 1
            else f"{where} {_offer(len(places))} no {types[0]}, which {who} needs",
            f"choose zones or a type for {who} that go together: {place}"
            + (f", or {_others(subject)}" if elsewhere else ""),
        )
    narrow = [
        f"{kind} in {', '.join(zones) or 'none'}"
        for kind, zones in have.items()
        if len(zones) < len(places)
    ]
    if narrow:
        return warn(
            f"of {where} only some offer what {who} may have: {'; '.join(narrow)}",
            "expect its instances there alone"
            + ("" if "system" in who else f", or give {who} that zone"),
        )
    return ok(f"{', '.join(types)} in {where}, for {who}")


def _offer(places: int) -> str:
    return "offers" if places == 1 else "offer"


def check_endpoints(subject: Subject) -> Iterator[Finding]:
    """Hold the interface endpoints against what each zone offers."""
    services = subject.needs.services
    if not services:
        yield ok("none is made")
        return
    names = {f"com.amazonaws.{subject.region}.{service}": service for service in services}
    found = {
        detail["ServiceName"]: set(detail.get("AvailabilityZones") or ())
        for detail in subject.account.items(
            "ec2",
            "DescribeVpcEndpointServices",
            "ServiceDetails",
            Filters=[{"Name": "service-name", "Values": sorted(names)}],
        )
    }
    bad = False
    for name, service in sorted(names.items()):
        lacking = [zone for zone in subject.plan.network.zones if zone not in found.get(name, ())]
        if name not in found:
            bad = True
            yield fail(f"the region has no endpoint service {service}", _without(service))
        elif lacking:
            bad = True
            where = sorted(found[name])
            yield fail(
                f"the endpoint service {service} is not in {', '.join(lacking)}, where it would "
                "get a subnet",
                f"choose zones among {', '.join(where)}"
                if len(where) >= HOME_ZONES
                else _without(service),
            )
    if not bad:
        yield ok(f"{', '.join(services)} in every zone")


def _without(service: str) -> str:
    if service == "grafana-workspace":
        return "set observability.enabled: false, or choose another region"
    return "choose another region"
