"""Container images and the versions of what runs in them.

Digests are None throughout: a digest exists only in the registry, and no registry was asked while
this list was written. Pin them where it counts: an entry under ``images:`` in a configuration
takes a digest, and ``Image.reference`` then carries it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from kascade.catalog.regions import HEALTH_AGENT_ACCOUNTS, HEALTH_AGENT_TAG

VLLM_VERSION: Final = "0.32.0"
LMCACHE_VERSION: Final = "0.5.6"
CURVINE_VERSION: Final = "0.4.1"
ROUTER_VERSION: Final = "0.1.17"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One container image.

    Attributes:
        repository: Registry and path, without tag.
        tag: The tag.
        digest: ``sha256:...``, or None to trust the tag.
        source: Where repository and tag were seen.
        carries: Version of each program in it whose arguments we write, by PyPI name; empty where
            nobody says.
    """

    repository: str
    tag: str
    digest: str | None
    source: str
    carries: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def reference(self) -> str:
        """What goes into a pod: ``repository:tag``, with ``@digest`` where one is known."""
        pinned = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}:{self.tag}{pinned}"


IMAGES: Final[Mapping[str, Image]] = MappingProxyType(
    {
        # vLLM and LMCache in one image. The tag names LMCache's version only: v0.5.4 is reported
        # to carry vLLM 0.27.1, so check `vllm --version` of this one before relying on 0.32.0.
        "engine": Image(
            repository="docker.io/lmcache/vllm-openai",
            tag=f"v{LMCACHE_VERSION}",
            digest=None,
            source="reported: LMCache release image line; form of the tag as seen at v0.5.5",
            carries=MappingProxyType({"vllm": VLLM_VERSION, "lmcache": LMCACHE_VERSION}),
        ),
        # The project also ships images/router/Dockerfile, which installs the pinned wheel. What a
        # nightly build carries is not said anywhere.
        "router": Image(
            repository="docker.io/vllm/vllm-router",
            tag="nightly-20260809-d2ba586",
            digest=None,
            source="reported: newest dated tag seen in public use",
        ),
        "curvine": Image(
            repository="ghcr.io/curvineio/curvine",
            tag=f"v{CURVINE_VERSION}",
            digest=None,
            source="CurvineIO/curvine v0.4.1, build-runtime-image.yml",
        ),
        "curvine_csi": Image(
            repository="ghcr.io/curvineio/curvine-csi",
            tag=f"v{CURVINE_VERSION}",
            digest=None,
            source="CurvineIO/curvine v0.4.1, build-csi-image.yml",
        ),
        "csi_provisioner": Image(
            repository="registry.k8s.io/sig-storage/csi-provisioner",
            tag="v5.0.1",
            digest=None,
            source="CurvineIO/curvine-doc, K8S-CSI-Driver set-up page",
        ),
        "csi_registrar": Image(
            repository="registry.k8s.io/sig-storage/csi-node-driver-registrar",
            tag="v2.13.0",
            digest=None,
            source="CurvineIO/curvine-doc, K8S-CSI-Driver set-up page",
        ),
        # nginx's stable line, for any user id; a tenant gateway needs none of its entry point.
        "tenant_gateway": Image(
            repository="docker.io/nginxinc/nginx-unprivileged",
            tag="1.28-alpine",
            digest=None,
            source="reported: tag of the stable line as seen in public Dockerfiles",
        ),
        # For small Jobs that need a Python and nothing else.
        "jobs": Image(
            repository="docker.io/library/python",
            tag="3.13-slim-bookworm",
            digest=None,
            source="Docker official image, tag of the Python 3.13 line on Debian 12",
        ),
        "nvidia_device_plugin": Image(
            repository="nvcr.io/nvidia/k8s-device-plugin",
            tag="v0.16.1",
            digest=None,
            source="aws/sagemaker-hyperpod-cli 011ca92, Chart.yaml of HyperPodHelmChart",
        ),
        # The registry is us-west-2's whatever the cluster's region; a closed network mirrors it.
        "efa_device_plugin": Image(
            repository="602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin",
            tag="v0.5.13",
            digest=None,
            source="aws/eks-charts de5fdc1, aws-efa-k8s-device-plugin chart v0.5.20",
        ),
    }
)
"""Every image by its key in a configuration's ``images:``."""

KNOWN_GOOD: Final[tuple[Mapping[str, str], ...]] = (
    MappingProxyType({"vllm": "0.32.0", "lmcache": "0.5.6", "vllm-router": "0.1.17"}),
)
"""Versions that were run together, request by request, by ``make e2e``. The protocol between vLLM's
connector and the LMCache server changes without notice, so nothing else counts as good."""


def run_together(carried: Mapping[str, str]) -> bool:
    """Whether these versions were ever run together.

    >>> run_together({"vllm": "0.32.0", "lmcache": "0.5.6"})
    True
    >>> run_together({"vllm": "0.33.0", "lmcache": "0.5.6"})
    False
    """
    return any(carried.items() <= good.items() for good in KNOWN_GOOD)


def health_agent_image(region: str) -> str:
    """Name the health monitoring agent's image, which has a registry of its own in each region.

    Args:
        region: Such as ``us-west-2``.

    Returns:
        The image reference with the tag that AWS's chart pins.

    Raises:
        ValueError: AWS publishes no registry for the region.
    """
    account = HEALTH_AGENT_ACCOUNTS.get(region)
    if account is None:
        known = ", ".join(sorted(HEALTH_AGENT_ACCOUNTS))
        message = (
            f"No registry of HyperPod's health monitoring agent is known for region {region!r}; "
            f"there is one for {known}. Choose one of these, or name the whole image yourself."
        )
        raise ValueError(message)
    registry = f"{account}.dkr.ecr.{region}.amazonaws.com"
    return f"{registry}/hyperpod-health-monitoring-agent:{HEALTH_AGENT_TAG}"
