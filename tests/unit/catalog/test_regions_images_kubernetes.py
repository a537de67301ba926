"""Regions, images and versions: account numbers keep their zeros, references are complete."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from kascade import catalog
from kascade.catalog.images import (
    CURVINE_VERSION,
    IMAGES,
    LMCACHE_VERSION,
    ROUTER_VERSION,
    VLLM_VERSION,
    Image,
    health_agent_image,
)
from kascade.catalog.kubernetes import (
    ADDONS,
    DEFAULT_KUBERNETES_VERSION,
    KUBERNETES_VERSIONS,
    MIN_EBS_CSI,
    MIN_VPC_CNI,
)
from kascade.catalog.offerings import OFFERED_IN
from kascade.catalog.regions import (
    HEALTH_AGENT_ACCOUNTS,
    HEALTH_AGENT_TAG,
    REGIONS,
    WITHOUT_HYPERPOD,
)

CORE_ADDONS = {
    "aws-ebs-csi-driver", "coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni",
}  # fmt: skip


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def test_regions_are_those_that_offer_something() -> None:
    offering = {region for regions in OFFERED_IN.values() for region in regions}
    assert set(REGIONS) == offering - set(WITHOUT_HYPERPOD)
    assert len(REGIONS) == 18
    assert not [name for name in REGIONS if name.startswith(("cn-", "us-gov-", "us-iso"))]


@pytest.mark.parametrize("name", sorted(REGIONS))
def test_zones_belong_to_their_region(name: str) -> None:
    region = REGIONS[name]
    assert region.name == name
    assert len(region.zones) >= 2
    assert list(region.zones) == sorted(set(region.zones))
    assert all(re.fullmatch(rf"{name}[a-f]", zone) for zone in region.zones)


@pytest.mark.parametrize(
    ("name", "letters"),
    [("us-east-1", "abcdef"), ("us-west-1", "ac"), ("us-west-2", "abcd"), ("us-east-2", "abc")],
)
def test_zones(name: str, letters: str) -> None:
    assert REGIONS[name].zones == tuple(name + letter for letter in letters)


def test_accounts_keep_their_zeros() -> None:
    accounts = HEALTH_AGENT_ACCOUNTS
    assert len(accounts) == 17
    assert all(re.fullmatch(r"\d{12}", account) for account in accounts.values())
    assert {name for name, account in accounts.items() if account.startswith("0")} == {
        "ap-south-1", "ap-southeast-4", "eu-west-2", "sa-east-1", "us-west-1",
    }  # fmt: skip
    assert len(set(accounts.values())) == len(accounts)


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("us-west-2", "905418368575"),
        ("us-east-1", "767398015722"),
        ("us-east-2", "851725546812"),
        ("ap-south-1", "011528288864"),
        ("ap-south-2", None),
        ("ap-northeast-2", None),
    ],
)
def test_account_of_region(name: str, account: str | None) -> None:
    assert REGIONS[name].health_agent_account == account


def test_health_agent_image() -> None:
    assert health_agent_image("us-west-1") == (
        "011528288828.dkr.ecr.us-west-1.amazonaws.com/"
        f"hyperpod-health-monitoring-agent:{HEALTH_AGENT_TAG}"
    )


def test_health_agent_image_says_what_to_do_elsewhere() -> None:
    with pytest.raises(ValueError, match=r"'ap-south-2'.*us-west-2.*name the whole image yourself"):
        health_agent_image("ap-south-2")


def test_image_references() -> None:
    assert {key: image.reference for key, image in IMAGES.items()} == {
        "engine": "docker.io/lmcache/vllm-openai:v0.5.6",
        "router": "docker.io/vllm/vllm-router:nightly-20260809-d2ba586",
        "curvine": "ghcr.io/curvineio/curvine:v0.4.1",
        "curvine_csi": "ghcr.io/curvineio/curvine-csi:v0.4.1",
        "csi_provisioner": "registry.k8s.io/sig-storage/csi-provisioner:v5.0.1",
        "csi_registrar": "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0",
        "tenant_gateway": "docker.io/nginxinc/nginx-unprivileged:1.28-alpine",
        "jobs": "docker.io/library/python:3.13-slim-bookworm",
        "nvidia_device_plugin": "nvcr.io/nvidia/k8s-device-plugin:v0.16.1",
        "efa_device_plugin": (
            "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13"
        ),
    }


def test_a_digest_joins_the_reference() -> None:
    image = Image(repository="example.com/a", tag="v1", digest="sha256:abc", source="test")
    assert image.reference == "example.com/a:v1@sha256:abc"


def test_versions() -> None:
    assert (VLLM_VERSION, LMCACHE_VERSION) == ("0.32.0", "0.5.6")
    assert (CURVINE_VERSION, ROUTER_VERSION) == ("0.4.1", "0.1.17")


def test_kubernetes_versions() -> None:
    assert KUBERNETES_VERSIONS == ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
    assert DEFAULT_KUBERNETES_VERSION == "1.35"
    assert set(ADDONS) <= set(KUBERNETES_VERSIONS)


@pytest.mark.parametrize("version", sorted(ADDONS))
def test_addons_fit_their_kubernetes_version(version: str) -> None:
    addons = ADDONS[version]
    assert set(addons) <= CORE_ADDONS
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", build) for build in addons.values())
    assert addons["kube-proxy"].startswith(f"v{version}.")
    assert numbers(addons["vpc-cni"]) >= numbers(MIN_VPC_CNI)
    assert numbers(addons["aws-ebs-csi-driver"]) >= numbers(MIN_EBS_CSI)


def test_the_catalogue_imports_nothing_foreign() -> None:
    folder = Path(catalog.__file__).parent
    imported: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                imported.add(node.module or "")
    ours = {name for name in imported if name.split(".")[0] == "kascade"}
    assert all(name == "kascade.units" or name.startswith("kascade.catalog.") for name in ours)
    assert {name.split(".")[0] for name in imported - ours} <= sys.stdlib_module_names
