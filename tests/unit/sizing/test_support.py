"""What a plan says of a Kubernetes version whose support ends."""

import re
from pathlib import Path

import pytest
import yaml

from kascade import plan_file
from kascade.catalog.kubernetes import KUBERNETES_VERSIONS, SUPPORT_ENDS
from tests.unit.config.builders import base, write

ROOT = Path(__file__).parents[3]


def planned(tmp_path: Path, version: str) -> tuple[list[str], str]:
    """The sentences about the version, and the reason of the price."""
    config = base() | {"kubernetes": {"version": version}}
    plan = plan_file(write(tmp_path, config))
    said = [w.message for w in plan.warnings if w.path == ("kubernetes", "version")]
    return said, plan.usd_per_hour.reason


@pytest.mark.parametrize(
    ("version", "words", "price"),
    [
        ("1.31", r"support of 1\.31 ended on 2026-11-26: it makes no such cluster", "0.10"),
        (
            "1.33",
            r"ended on 2026-07-29; it takes 0\.60 instead of 0\.10 .* 2027-07-29",
            "0.60",
        ),
        (
            "1.34",
            r"of 1\.34 ends on 2026-12-02; from then on it takes 0\.60 .* 1\.35 has",
            "0.10",
        ),
    ],
)
def test_it_says_what_becomes_of_it(tmp_path: Path, version: str, words: str, price: str) -> None:
    (said,), reason = planned(tmp_path, version)
    assert re.search(words, said), said
    assert f"EKS at {price};" in reason


@pytest.mark.parametrize("version", ["1.33", "1.34"])
def test_somebodys_control_plane_is_neither_counted_nor_spoken_of(
    tmp_path: Path, version: str
) -> None:
    config = yaml.safe_load((ROOT / "config" / "existing.yaml").read_text())
    config["kubernetes"]["version"] = version
    plan = plan_file(write(tmp_path, config))
    system = plan.cluster.system_group
    assert (system.instance_type, system.count) == ("m7i.xlarge", 2)
    assert plan.usd_per_hour.value == round(2 * 0.2016, 2)
    assert plan.usd_per_hour.reason.startswith("2 x m7i.xlarge at 0.2016; ")
    assert plan.usd_per_hour.reason.endswith(
        "Not in it: the HyperPod nodes, which are their owner's, the existing EKS cluster, "
        "NAT, endpoints, EBS, logs, metrics"
    )
    assert [w for w in plan.warnings if w.path == ("kubernetes", "version")] == []


def test_a_version_with_time_left_is_not_mentioned(tmp_path: Path) -> None:
    assert planned(tmp_path, "1.35") == ([], planned(tmp_path, "1.34")[1])


def test_every_allowed_version_has_its_dates() -> None:
    assert set(KUBERNETES_VERSIONS) == set(SUPPORT_ENDS)
    assert all(standard < extended for standard, extended in SUPPORT_ENDS.values())


def test_spot_is_priced_as_on_demand_and_says_so() -> None:
    reason = plan_file(ROOT / "config" / "spot.yaml").usd_per_hour.reason
    priced = [part for part in reason.partition(";")[0].split(", ") if part.endswith(")")]
    assert priced
    assert all(part.endswith(" (spot priced as on demand)") for part in priced)
    assert "spot" not in plan_file(ROOT / "config" / "default.yaml").usd_per_hour.reason


def test_what_the_operator_brings_is_named_as_not_counted() -> None:
    reason = plan_file(ROOT / "config" / "operator.yaml").usd_per_hour.reason
    assert reason.endswith("metrics, load balancers, the SageMaker endpoint")
