"""What a network without a way to the internet cannot reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kascade.config.blocks import AddonsConfig
from kascade.errors import Problem
from kascade.sizing.draft import Draft, Group

_NAT: Final = (("network", "nat"),)


def check_closed(draft: Draft, groups: dict[str, Group]) -> Iterator[Problem]:
    """Yield whatever would be fetched from outside, where there is no way out.

    Args:
        draft: The configuration.
        groups: Its groups of a known type.
    """
    config = draft.config
    if config.network.nat != "none":
        return
    registry = re.compile(rf"[0-9]{{12}}\.dkr\.ecr\.{re.escape(config.region)}\.amazonaws\.com/.+")
    for role in _roles(draft, groups):
        image = draft.image(role)
        if not registry.fullmatch(image):
            yield Problem(
                path=("images", role),
                message=f"{image} lies outside the VPC, and network.nat is none; mirror it into "
                f"ECR and name it here (ACCOUNT.dkr.ecr.{config.region}.amazonaws.com/...)",
                also_reads=(*_NAT, ("region",)),
            )
    if config.kubernetes.addons != AddonsConfig():
        yield Problem(
            path=("kubernetes", "addons"),
            message="nothing says what HyperPod's add-ons reach outside the VPC, and network.nat "
            "is none; leave them out, or choose nat one",
            also_reads=_NAT,
        )
    for index, model in enumerate(config.models):
        if model.weights.kind == "hub":
            yield Problem(
                path=("models", index, "weights"),
                message=f"the weights of {model.name} would come from Hugging Face, and "
                "network.nat is none; give weights of kind s3 or claim",
                also_reads=_NAT,
            )
        if model.mode == "operator":
            yield Problem(
                path=("models", index, "mode"),
                message="HyperPod's inference operator imports certificates into ACM, which no "
                "endpoint here reaches, and network.nat is none; choose mode: deployment, or nat "
                "one",
                also_reads=_NAT,
            )


def _roles(draft: Draft, groups: dict[str, Group]) -> list[str]:
    """Roles of the images that this deployment pulls."""
    config = draft.config
    roles = ["engine", "router", "jobs"]
    if draft.curvine is not None:
        roles += ["curvine", "curvine_csi", "csi_provisioner", "csi_registrar"]
    if any(model.tenancy.kind == "salted" for model in config.models):
        roles.append("tenant_gateway")
    if config.hyperpod.existing is not None:
        return roles  # its agents and device plugins are there
    if groups:
        roles.append("nvidia_device_plugin")
        # Without a name of your own it comes from AWS's registry of the region.
        roles += ["health_agent"] if config.images.health_agent else []
    if any(t.efa_interfaces for group in groups.values() for t in group.types):
        roles.append("efa_device_plugin")
    return roles
