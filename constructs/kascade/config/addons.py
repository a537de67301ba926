"""Mistakes about HyperPod's add-ons."""

from __future__ import annotations

from collections.abc import Iterator

from kascade.config.blocks import ServingConfig
from kascade.errors import Problem


def check_addons(config: ServingConfig) -> Iterator[Problem]:
    """Find what cannot be installed.

    Args:
        config: A configuration whose fields are valid one by one.
    """
    arn = config.kubernetes.addons.observability_workspace_arn
    if arn is None:
        return
    region, account = arn.split(":")[3:5]
    path = ("kubernetes", "addons", "observability_workspace_arn")
    if region != config.region:
        yield Problem(
            path=path,
            code="workspace-region",
            message=f"the workspace is in {region} and the deployment in {config.region}; the "
            "add-on writes to a workspace of its own region, so name one there",
            also_reads=(("region",),),
        )
    if config.account is not None and account != config.account:
        yield Problem(
            path=path,
            code="workspace-account",
            message=f"the workspace is of account {account} and the deployment of "
            f"{config.account}; the add-on's role reaches its own account, so name one there",
            also_reads=(("account",),),
        )
