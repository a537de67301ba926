"""Metrics, boards and alerts."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from kascade.config.blocks.values import Block, Switch, Whole, matching

_GRAFANA_VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")


class GrafanaConfig(Block):
    """The Managed Grafana workspace."""

    auth: Literal["sso", "saml"] = Field(
        default="sso",
        description="How people sign in. sso needs IAM Identity Center enabled in the account; "
        "saml lets the identity provider be connected later.",
    )
    access: Literal["private", "public"] = Field(
        default="private",
        description="public puts the sign-in page on the internet; private admits only the VPC.",
    )
    version: Annotated[str, matching(_GRAFANA_VERSION, "a version such as 12.4")] | None = Field(
        default=None, description="Grafana version, in quotes. Without it AWS's current one."
    )


class ObservabilityConfig(Block):
    """Managed Prometheus and Managed Grafana."""

    enabled: Switch = Field(default=True, description="False leaves the whole stack out.")
    retention_days: Whole = Field(
        default=150, ge=1, le=1095, description="Days that metrics are kept."
    )
    scrape_interval_seconds: Whole = Field(
        default=30, ge=30, le=300, description="The managed collector takes no less than 30."
    )
    grafana: GrafanaConfig = Field(
        default=GrafanaConfig(), description="The dashboards' workspace."
    )
