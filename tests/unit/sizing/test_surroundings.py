"""What stands around the nodes and deserves a look."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kascade import plan_file
from tests.checkout import ROOT
from tests.unit.config.builders import write

Edit = Callable[[dict[str, Any]], object]

CIDRS = ["203.0.113.0/24"]
COLLECTORS = [
    {"id": f"subnet-0123456789abcde{n:02}", "cidr": f"10.1.200.{32 * n}/27"} for n in (1, 2)
]


def _eks(**settings: object) -> Edit:
    return lambda c: c["kubernetes"]["existing"].update(settings)


def _unchanged(_config: dict[str, Any]) -> None:
    pass


NOTED: dict[str, tuple[str, Edit, str, str]] = {
    "a cluster without the VPC CNI's add-on": (
        "existing",
        _eks(addons=["coredns"]),
        "kubernetes.existing.addons",
        r"vpc-cni is not among them.* blocks of 16 \(prefix delegation\)",
    ),
    "a collector in the private subnets": (
        "existing",
        _unchanged,
        "network.existing.collector_subnets",
        r"every address in 10\.1\.0\.0/18, 10\.1\.64\.0/18 may read the pods' metrics",
    ),
    "a closed network with an open API": (
        "closed",
        lambda c: c.setdefault("kubernetes", {}).update(public_access_cidrs=CIDRS),
        "kubernetes.public_access_cidrs",
        r"the EKS API can be reached from the internet, by 203\.0\.113\.0/24; leave them out",
    ),
    "a closed network with an open page": (
        "closed",
        lambda c: c.update(observability={"grafana": {"access": "public"}}),
        "observability.grafana.access",
        r"Grafana's page can be reached from the internet; set it to private",
    ),
}

QUIET: dict[str, tuple[str, Edit, str]] = {
    "the VPC CNI is there": ("existing", _unchanged, "kubernetes.existing.addons"),
    "the collector has subnets": (
        "existing",
        lambda c: c["network"]["existing"].update(collector_subnets=COLLECTORS),
        "network.existing.collector_subnets",
    ),
    "there is no collector": (
        "existing",
        lambda c: c.update(observability={"enabled": False}),
        "network.existing.collector_subnets",
    ),
    "an open network has an open API": (
        "default",
        lambda c: c.setdefault("kubernetes", {}).update(public_access_cidrs=CIDRS),
        "kubernetes.public_access_cidrs",
    ),
    "a closed network is closed": ("closed", _unchanged, "observability.grafana.access"),
}


def noted(folder: Path, name: str, edit: Edit, path: str) -> list[str]:
    """What the plan says about one field."""
    config = yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())
    edit(config)
    warnings = plan_file(write(folder, config)).warnings
    return [w.message for w in warnings if ".".join(map(str, w.path)) == path]


@pytest.mark.parametrize(("name", "edit", "path", "words"), NOTED.values(), ids=NOTED.keys())
def test_it_is_noted_once(tmp_path: Path, name: str, edit: Edit, path: str, words: str) -> None:
    (message,) = noted(tmp_path, name, edit, path)
    assert re.search(words, message), message


@pytest.mark.parametrize(("name", "edit", "path"), QUIET.values(), ids=QUIET.keys())
def test_nothing_is_noted_without_a_reason(
    tmp_path: Path, name: str, edit: Edit, path: str
) -> None:
    assert noted(tmp_path, name, edit, path) == []
