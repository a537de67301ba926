"""From what an earlier release rendered to what this checkout renders, on a running cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kascade.kube.classes import STORAGE_CLASS
from tests.checkout import CONFIGS
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.rendered import Rendered, identity, read

ROOT = Path(__file__).parents[2]
RELEASES = ROOT / "tests" / "data" / "releases"
KEPT_VOLUMES = frozenset({"0.0.0"})
"""Releases whose class of volumes kept them; what to do once stands in docs/upgrades.md."""

PATCH = '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'


def _pairs() -> Iterator[tuple[str, str]]:
    for release in sorted(path.name for path in RELEASES.iterdir() if path.is_dir()):
        for config in CONFIGS:
            if (RELEASES / release / config).is_dir():
                yield config, release


def test_every_release_is_kept() -> None:
    headings = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    kept = {path.name for path in RELEASES.iterdir()}
    assert [version for version in headings if version not in kept] == [], "run make keep-release"
    assert list(_pairs())


@pytest.mark.parametrize(("rendered", "release"), list(_pairs()), indirect=["rendered"])
def test_an_upgrade_completes(empty_cluster: Cluster, rendered: Rendered, release: str) -> None:
    folder = RELEASES / release / rendered.file.stem
    # In the order of today's charts; one that is gone goes last, as it comes first.
    names = [path.stem for path in sorted(folder.glob("*.yaml"))]
    order = [name for name in rendered.charts if name in names]
    order += [name for name in names if name not in rendered.charts]
    old = replace(rendered, charts={name: read(folder / f"{name}.yaml") for name in order})
    empty_cluster.install(old)
    empty_cluster.settle()

    before = _volumes(empty_cluster)
    if release in KEPT_VOLUMES:
        # As docs/upgrades.md says; of the commands there the last one is a loop.
        empty_cluster.kubectl("delete", "storageclass", STORAGE_CLASS)
        for name in before:
            empty_cluster.kubectl("patch", "persistentvolume", name, "-p", PATCH)

    empty_cluster.apply(rendered)
    today = {identity(item) for item in rendered.objects()}
    gone = [item for item in old.objects() if identity(item) not in today]
    empty_cluster.kubectl.delete(reversed(gone))
    empty_cluster.settle()
    assert set(empty_cluster.versions(rendered)) == today
    assert not {identity(item) for item in gone} & set(empty_cluster.versions(old))
    # No volume was made anew, and each goes with the masters from now on.
    assert _volumes(empty_cluster) == dict.fromkeys(before, ("Bound", "Delete")) != {}
    assert empty_cluster.within(lambda: set(_owners(empty_cluster)) == {"StatefulSet"}, 30)


def _volumes(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Say of each volume of the masters how it is and what becomes of it."""
    return {
        item["metadata"]["name"]: (
            item["status"]["phase"],
            item["spec"]["persistentVolumeReclaimPolicy"],
        )
        for item in cluster.kubectl.get("persistentvolumes")
        if item["spec"].get("storageClassName") == STORAGE_CLASS
    }


def _owners(cluster: Cluster) -> Iterator[str]:
    """Name the kind of owner of each claim of the masters."""
    for item in cluster.kubectl.get("persistentvolumeclaims", "--all-namespaces"):
        if item["spec"].get("storageClassName") == STORAGE_CLASS:
            owners = item["metadata"].get("ownerReferences", [{"kind": "nobody"}])
            yield from (owner["kind"] for owner in owners)
