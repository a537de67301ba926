"""What a plan says of a Kubernetes version whose support ends."""

import re
from pathlib import Path

import pytest

from kascade import plan_file
from kascade.catalog.kubernetes import KUBERNETES_VERSIONS, SUPPORT_ENDS
from tests.unit.config.test_invariants import base, write


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


def test_a_version_with_time_left_is_not_mentioned(tmp_path: Path) -> None:
    assert planned(tmp_path, "1.35") == ([], planned(tmp_path, "1.34")[1])


def test_every_allowed_version_has_its_dates() -> None:
    assert set(KUBERNETES_VERSIONS) == set(SUPPORT_ENDS)
    assert all(standard < extended for standard, extended in SUPPORT_ENDS.values())
