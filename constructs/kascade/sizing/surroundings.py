"""Advice about what stands around the nodes: what others brought, and who reaches what."""

from __future__ import annotations

from kascade.catalog.regions import EKS_REFUSED_ZONES
from kascade.errors import ConfigPath, Problem
from kascade.plan import HOME_ZONES
from kascade.sizing.draft import Draft


def advise_on_surroundings(draft: Draft) -> None:
    """Note what deserves a look."""
    _of_addresses(draft)
    _of_the_collector(draft)
    _of_ways_in(draft)
    _of_refused_zones(draft)


def _of_addresses(draft: Draft) -> None:
    eks = draft.config.kubernetes.existing
    if eks is None or "vpc-cni" in eks.addons:
        return
    _note(
        draft,
        ("kubernetes", "existing", "addons"),
        "vpc-cni is not among them, so the cluster's pods get their addresses in a way that "
        "nothing here knows; the subnets were checked, and pods counted, as if each node took "
        "addresses in blocks of 16 (prefix delegation)",
    )


def _of_the_collector(draft: Draft) -> None:
    vpc = draft.config.network.existing
    if vpc is None or vpc.collector_subnets or not draft.config.observability.enabled:
        return
    _note(
        draft,
        ("network", "existing", "collector_subnets"),
        "without them the metrics collector stands in the private subnets, so every address in "
        f"{', '.join(subnet.cidr for subnet in vpc.private_subnets)} may read the pods' metrics; "
        "name small subnets of its own",
    )


def _of_ways_in(draft: Draft) -> None:
    config = draft.config
    if config.network.nat != "none":
        return
    if config.kubernetes.public_access_cidrs:
        _note(
            draft,
            ("kubernetes", "public_access_cidrs"),
            "with network.nat: none nothing leaves the VPC, but the EKS API can be reached from "
            f"the internet, by {', '.join(config.kubernetes.public_access_cidrs)}; leave them out "
            "if the network is to be closed both ways",
        )
    if config.observability.enabled and config.observability.grafana.access == "public":
        _note(
            draft,
            ("observability", "grafana", "access"),
            "with network.nat: none nothing leaves the VPC, but Grafana's page can be reached "
            "from the internet; set it to private if the network is to be closed both ways",
        )


def _of_refused_zones(draft: Draft) -> None:
    config = draft.config
    refused = EKS_REFUSED_ZONES.get(config.region)
    if refused is None or config.kubernetes.existing is not None:
        return
    home = " and ".join(config.zones[:HOME_ZONES])
    _note(
        draft,
        ("zones",),
        f"EKS puts no control plane into {refused}, and which letter that is differs by account: "
        f"see by `kascade preflight` that it is neither of {home}",
    )


def _note(draft: Draft, path: ConfigPath, message: str) -> None:
    draft.warnings.append(Problem(path=path, message=message))
