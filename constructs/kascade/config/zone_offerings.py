"""Which zone offers which instance type: what an account says of itself, saved in a file.

Every account sees the letters of the zones shuffled, so no catalog can know. The file is what
``aws ec2 describe-instance-type-offerings`` answers, as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_FILE_BYTES: Final = 5_000_000
"""The answer would have 1.1 MB if six zones, the most there are, offered each of the 1,212 types
that botocore 1.43.11 knows, so this leaves room for years of new ones."""

_LIST: Final = "InstanceTypeOfferings"
_BY_NAME: Final = "availability-zone"
_ZONE: Final = re.compile(r"[a-z]+(-[a-z0-9]+){2,8}")
_MAX_SHOWN: Final = 40
_HYPERPOD_PREFIX: Final = "ml."


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOfferings:
    """What an account is offered.

    Attributes:
        source: The file, as the configuration names it.
        zones: Every zone that is listed.
        by_type: The zones of each EC2 type.
    """

    source: str
    zones: frozenset[str]
    by_type: Mapping[str, frozenset[str]]

    def of(self, instance_type: str) -> frozenset[str]:
        """Zones that offer a type, with HyperPod's prefix ``ml.`` or without.

        >>> listed = frozenset({"us-west-2a"})
        >>> file = ZoneOfferings(source="", zones=listed, by_type={"g6e.4xlarge": listed})
        >>> file.of("ml.g6e.4xlarge") == file.of("g6e.4xlarge") == listed
        True
        """
        return self.by_type.get(instance_type.removeprefix(_HYPERPOD_PREFIX), frozenset())


def command(region: str) -> str:
    """Write the command whose answer the file holds.

    >>> command("us-west-2")  # doctest: +NORMALIZE_WHITESPACE
    'aws ec2 describe-instance-type-offerings --location-type availability-zone
    --region us-west-2 --output json'
    """
    return (
        f"aws ec2 describe-instance-type-offerings --location-type {_BY_NAME} "
        f"--region {region} --output json"
    )


def parse_zone_offerings(content: object, *, source: str, region: str) -> ZoneOfferings:
    """Take what a file holds.

    Args:
        content: The parsed JSON. What the answer has beside type and zone is passed over.
        source: The file, as the configuration names it.
        region: Where it should be from, for the command in the sentences.

    Raises:
        ValueError: It is not that answer, with one sentence that says why.
    """
    offers = content.get(_LIST) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(offers, list):
        msg = f"{source} has no list {_LIST} at its top; save what `{command(region)}` writes"
        raise ValueError(msg)
    if content.get("NextToken"):
        msg = (
            f"{source} ends with a NextToken, so it is only the first page; save it again without "
            "--max-items and --no-paginate"
        )
        raise ValueError(msg)
    if not offers:
        msg = (
            f"{source} lists no offering at all; save what `{command(region)}` writes, without a "
            "filter"
        )
        raise ValueError(msg)
    by_type: dict[str, set[str]] = {}
    for index, offer in enumerate(offers):
        place = f"{source}: {_LIST}[{index}]"
        kind, how, zone = (
            _text(offer, field, place) for field in ("InstanceType", "LocationType", "Location")
        )
        if how != _BY_NAME:
            msg = (
                f"{place} has LocationType {_cut(how)}, and only {_BY_NAME} can be compared with "
                f"`zones`; save it again with --location-type {_BY_NAME}"
            )
            raise ValueError(msg)
        if not _ZONE.fullmatch(zone):
            msg = f"{place} has Location {_cut(zone)}, which is no zone such as us-west-2a"
            raise ValueError(msg)
        by_type.setdefault(kind, set()).add(zone)
    return ZoneOfferings(
        source=source,
        zones=frozenset().union(*by_type.values()),
        by_type={kind: frozenset(zones) for kind, zones in by_type.items()},
    )


def _text(offer: object, field: str, place: str) -> str:
    value = offer.get(field) if isinstance(offer, dict) else None
    if not isinstance(value, str):
        msg = f"{place} has no text in {field}; save the answer as it is, without --query"
        raise ValueError(msg)
    return value


def _cut(value: str) -> str:
    return repr(value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}...")
