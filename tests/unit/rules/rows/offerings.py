"""Errors about an account's own list of which zone offers which type."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kascade.config.zone_offerings import MAX_FILE_BYTES
from tests.unit.config.builders import DIRECTORY, Edit, base, both, group, top

EVERYWHERE = {"m7i.xlarge": "abcd", "m5.xlarge": "abcd", "m5.2xlarge": "abcd"}


GPUS = {"g6e.4xlarge": "ac", "g6e.8xlarge": "a", "g6e.12xlarge": "d"}


def answer(zones: Mapping[str, Iterable[str]], *, region: str = "us-west-2") -> dict[str, Any]:
    """What the account says, made of the ends of the names of each type's zones."""
    return {
        "InstanceTypeOfferings": [
            {
                "InstanceType": kind,
                "LocationType": "availability-zone",
                "Location": f"{region}{end}",
            }
            for kind, ends in zones.items()
            for end in ends
        ]
    }


def save(folder: Path, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=4)
    (folder / "offerings.json").write_text(text)


def types(*names: str, zone: str | None = None) -> Edit:
    return group(instance_type=None, instance_types=list(names), zone=zone)


def zones(letters: str) -> Edit:
    return top(zones=[f"us-west-2{letter}" for letter in letters])


def edited(*edits: Edit) -> dict[str, Any]:
    config = base()
    both(top(zone_offerings="offerings.json"), *edits)(config)
    return config


G6E = "ml.g6e.4xlarge"


ZONE, TYPE = "instance_groups[0].zone", "instance_groups[0].instance_type"


SYSTEM = "kubernetes.system_group.instance_type"


Offered = tuple[Edit, Mapping[str, Iterable[str]]]

UNOFFERED: dict[str, tuple[Offered, str, str]] = {
    "zone without the type": ((both(zones("abc"), group(zone="us-west-2b")), GPUS), ZONE, ""),
    "zone with none of the types": (
        (types(G6E, "ml.g6e.8xlarge", zone="us-west-2b"), GPUS),
        ZONE,
        "",
    ),
    "type in a zone that the deployment lacks": (
        (group(zone="us-west-2b"), {"g6e.4xlarge": "cd"}),
        ZONE,
        "",
    ),
    "type in a zone for which there is no room": (
        (
            both(
                top(region="us-east-1", zones=[f"us-east-1{letter}" for letter in "abcd"]),
                group(zone="us-east-1b"),
            ),
            {"g6e.4xlarge": "f"},
        ),
        ZONE,
        "",
    ),
    "type in no zone": ((group(zone="us-west-2b"), {"g6.xlarge": "ab"}), ZONE, ""),
    "type in a local zone only": (
        (group(zone="us-west-2b"), {"g6e.4xlarge": ["-lax-1a"]}),
        ZONE,
        "",
    ),
    "group without a zone, type in no home zone": ((zones("abd"), {"g6e.4xlarge": "d"}), ZONE, ""),
    "Karpenter's group": (
        (
            both(
                group(zone="us-west-2b"),
                top(hyperpod={"autoscaling": "karpenter"}, cache={"l2": DIRECTORY}),
            ),
            GPUS,
        ),
        ZONE,
        "",
    ),
    "Karpenter's group without a zone": (
        (top(hyperpod={"autoscaling": "karpenter"}, cache={"l2": DIRECTORY}), {"g6e.4xlarge": "d"}),
        ZONE,
        "karpenter-zone",
    ),
    "system nodes in one home zone": (
        (top(), {**GPUS, "m7i.xlarge": "ac", "m5.2xlarge": "a"}),
        SYSTEM,
        "",
    ),
    "system nodes in other zones": (
        (
            top(),
            {**GPUS, "g6e.4xlarge": "ab", "m7i.xlarge": "cd", "m5.2xlarge": "a", "m5.xlarge": "a"},
        ),
        SYSTEM,
        "",
    ),
    "system nodes nowhere": (
        (top(), {"g6e.4xlarge": "ab", "m7i.xlarge": "", "m5.2xlarge": "a", "m5.xlarge": "a"}),
        SYSTEM,
        "",
    ),
    "zone that the account lacks": (
        (
            both(zones("abd"), group(zone="us-west-2d")),
            {"g6e.4xlarge": "abc", **dict.fromkeys(EVERYWHERE, "abc")},
        ),
        "zones[2]",
        "",
    ),
}


ONE = answer({"g6e.4xlarge": "a"})["InstanceTypeOfferings"][0]


def listed(**changes: object) -> dict[str, Any]:
    return {"InstanceTypeOfferings": [ONE, {**ONE, **changes}]}


UNUSABLE: dict[str, tuple[object, str, str]] = {
    "empty file": ("", "zone_offerings", "zone-offerings-file"),
    "a table": ("-----\n|Describe", "zone_offerings", "zone-offerings-file"),
    "too deep": ("[" * 100_000, "zone_offerings", "zone-offerings-file"),
    "a number without end": ("9" * 5000, "zone_offerings", "zone-offerings-file"),
    "a bare list": ([ONE], "zone_offerings", "zone-offerings-file"),
    "another answer": (
        {"InstanceTypes": [{"InstanceType": "g6e.4xlarge"}]},
        "zone_offerings",
        "zone-offerings-file",
    ),
    "no offering": (answer({}), "zone_offerings", "zone-offerings-file"),
    "the first page": (
        {**answer({"g6e.4xlarge": "ab"}), "NextToken": "eyJ"},
        "zone_offerings",
        "zone-offerings-file",
    ),
    "by region": (
        listed(LocationType="region", Location="us-west-2"),
        "zone_offerings",
        "zone-offerings-file",
    ),
    "by zone id": (
        listed(LocationType="availability-zone-id", Location="usw2-az1"),
        "zone_offerings",
        "zone-offerings-file",
    ),
    "a place that is no zone": (
        listed(Location="\x1b[2J" * 30),
        "zone_offerings",
        "zone-offerings-file",
    ),
    "no type": (listed(InstanceType=None), "zone_offerings", "zone-offerings-file"),
    "names alone": (
        {"InstanceTypeOfferings": ["g6e.4xlarge"]},
        "zone_offerings",
        "zone-offerings-file",
    ),
    "another region": (answer({"g6e.4xlarge": "abcdef"}, region="us-east-1"), "zone_offerings", ""),
    "too large": (" " * (MAX_FILE_BYTES + 1), "zone_offerings", "zone-offerings-file"),
}


UNREADABLE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no file": (Path.exists, "zone_offerings", "zone-offerings-file"),
    "a folder": (Path.mkdir, "zone_offerings", "zone-offerings-file"),
    "a pipe": (os.mkfifo, "zone_offerings", "zone-offerings-file"),
    "a link to nothing": (
        lambda path: path.symlink_to("gone"),
        "zone_offerings",
        "zone-offerings-file",
    ),
    "a link to itself": (
        lambda path: path.symlink_to(path),
        "zone_offerings",
        "zone-offerings-file",
    ),
    "PowerShell's encoding": (
        lambda path: path.write_bytes(b"\xff\xfe{\x00"),
        "zone_offerings",
        "zone-offerings-file",
    ),
}
