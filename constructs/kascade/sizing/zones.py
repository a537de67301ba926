"""Whether the zones of a deployment offer its instance types, where the account said so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from kascade.catalog.regions import REGIONS
from kascade.config.blocks import SystemGroupConfig
from kascade.config.zone_offerings import ZoneOfferings, command
from kascade.errors import ConfigPath, Problem
from kascade.plan import HOME_ZONES
from kascade.sizing.draft import Draft, Group
from kascade.sizing.network import MAX_ZONES

_FILE: ConfigPath = ("zone_offerings",)
_ZONES: ConfigPath = ("zones",)
_MAX_SHOWN = 8


def check_zone_offerings(draft: Draft, groups: Mapping[str, Group]) -> None:
    """Reject types that a zone does not offer; note what narrows the choice.

    Args:
        draft: The configuration; gets the problems that are found. Without the account's list
            nothing is compared.
        groups: Its groups of known types.
    """
    file, zones = draft.zone_offerings, draft.config.zones
    if file is None:
        return
    listed = [zone for zone in zones if zone in file.zones]
    if not listed:
        draft.problems.append(_of_elsewhere(draft, file))
        return
    draft.problems += _unlisted(draft, file)
    home = zones[:HOME_ZONES]
    if all(zone in listed for zone in home):
        draft.problems += _of_system_nodes(draft, file, home)
    if draft.config.hyperpod.existing is not None:
        return  # its instances are made already
    for group in groups.values():
        zone = group.config.zone
        if zone is None and draft.config.hyperpod.autoscaling is not None:
            continue  # rejected, since Karpenter's groups name their zone
        places = home if zone is None else (zone,)
        if all(place in listed for place in places):
            _of_group(draft, group, file, places)


def _of_elsewhere(draft: Draft, file: ZoneOfferings) -> Problem:
    config = draft.config
    return Problem(
        path=_FILE,
        message=f"{file.source} lists {_some(file.zones)}, and none of this deployment's zones "
        f"({', '.join(config.zones)}); save what `{command(config.region)}` writes",
        also_reads=(_ZONES, ("region",)),
    )


def _unlisted(draft: Draft, file: ZoneOfferings) -> Iterator[Problem]:
    zones = draft.config.zones
    known = _usable(draft, zones)  # of the others the catalog has a sentence already
    for index, zone in enumerate(zones):
        if zone in known and zone not in file.zones:
            yield Problem(
                path=(*_ZONES, index),
                message=f"{file.source} lists no offering in {zone}, so the account has no such "
                f"zone; it has {_some(_usable(draft, file.zones))}. Name one of these, or save the "
                "file again if it is old or was filtered",
                also_reads=(_FILE, ("region",)),
            )


def _of_system_nodes(draft: Draft, file: ZoneOfferings, home: Sequence[str]) -> Iterator[Problem]:
    """EKS makes no node group at all when one of its zones lacks the type.

    Reported with its answer, an InvalidRequestException: eksctl-io/eksctl#6461.
    """
    wanted = draft.config.kubernetes.system_group.instance_type
    missing = [zone for zone in home if zone not in file.of(wanted)]
    if not missing:
        return
    allowed = get_args(SystemGroupConfig.model_fields["instance_type"].annotation)
    others = [kind for kind in allowed if file.of(kind).issuperset(home)]
    offering = _usable(draft, file.of(wanted))
    if others:
        cure = f"use {' or '.join(others)}"
    elif len(offering) >= HOME_ZONES:
        cure = f"begin `zones` with two of {_some(offering)}"
    else:
        cure = f"begin `zones` with two that offer one of {', '.join(allowed)}"
    yield Problem(
        path=("kubernetes", "system_group", "instance_type"),
        message=f"{wanted} is not offered in {' and '.join(missing)} ({file.source}), and EKS "
        f"makes system nodes only where both home zones offer their type; {cure}",
        also_reads=(_FILE, _ZONES),
    )


def _of_group(draft: Draft, group: Group, file: ZoneOfferings, places: Sequence[str]) -> None:
    config, path = group.config, ("instance_groups", group.index)
    reads = (_FILE, _ZONES, (*path, config.types_field))
    offered = {kind: file.of(kind).intersection(places) for kind in config.types}
    found = [kind for kind, zones in offered.items() if zones]
    where = " and ".join(places)
    if not found:
        draft.problems.append(
            Problem(
                path=(*path, "zone"),
                message=f"{_none_of(config.types)} offered in {_place(group, where)} "
                f"({file.source}); {_cure(draft, config.types, file)}",
                also_reads=reads,
            )
        )
        return
    missing = [kind for kind, zones in offered.items() if not zones]
    if missing:
        draft.warnings.append(
            Problem(
                path=(*path, config.types_field),
                message=f"{_none_of(missing)} offered in {where} ({file.source}), so HyperPod "
                f"takes only {' or '.join(found)} there",
            )
        )
    offering = [zone for zone in places if any(zone in zones for zones in offered.values())]
    if len(offering) < len(places):
        draft.warnings.append(
            Problem(
                path=(*path, config.types_field),
                message=f"of the home zones {where} only {offering[0]} offers "
                f"{' or '.join(found)} ({file.source}), so all instances of {config.name!r} come "
                "from there",
            )
        )


def _place(group: Group, where: str) -> str:
    if group.config.zone is not None:
        return where
    return f"the home zones {where}, where groups without a zone stand"


def _cure(draft: Draft, types: Sequence[str], file: ZoneOfferings) -> str:
    config = draft.config
    offering = frozenset[str]().union(*(file.of(kind) for kind in types))
    own = [zone for zone in config.zones if zone in offering]
    if own:
        return f"name {' or '.join(own)} of `zones`, or another type"
    others = _usable(draft, offering)
    if not others:
        return f"no other zone of {config.region} would do; choose another type"
    if len(config.zones) == MAX_ZONES:
        return f"only {' or '.join(others)} would do, but `zones` is full; choose another type"
    return f"add {' or '.join(others)} at the end of `zones` and name it here, or another type"


def _usable(draft: Draft, zones: Iterable[str]) -> list[str]:
    """Those that a deployment can name; an account may see local zones, too."""
    region = REGIONS.get(draft.config.region)
    return sorted(zone for zone in zones if region is None or zone in region.zones)


def _none_of(types: Sequence[str]) -> str:
    return f"{types[0]} is not" if len(types) == 1 else f"none of {', '.join(types)} is"


def _some(zones: Iterable[str]) -> str:
    ordered = sorted(zones)
    more = len(ordered) - _MAX_SHOWN
    return ", ".join(ordered[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
