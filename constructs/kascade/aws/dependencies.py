"""AWS's own chart of HyperPod's dependencies, as a Helm release before HyperPod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from kascade.config.dependencies import is_chart, unpacked_parts
from kascade.errors import KascadeError

_RELEASE: Final = "dependencies"
_NAMESPACE: Final = "kube-system"
"""Both as in AWS's instructions (aws/sagemaker-hyperpod-cli, helm_chart/readme.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChart:
    """A Helm chart in a folder, and what it is told.

    Attributes:
        folder: With Chart.yaml and every part of it below ``charts``.
        values: For ``helm upgrade --values``.
    """

    folder: Path
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Check both.

        Raises:
            KascadeError: The folder holds no chart, or the values are no mapping.
        """
        if not isinstance(self.folder, Path) or not is_chart(self.folder):
            msg = (
                f"folder is {str(self.folder)!r}, which holds no Chart.yaml; give the path "
                "(pathlib.Path) of a chart's folder"
            )
            raise KascadeError(msg)
        if not isinstance(self.values, Mapping):
            msg = f"values is a {type(self.values).__name__}; give a dict, as of a values.yaml"
            raise KascadeError(msg)


class DependenciesRelease(Construct):
    """The chart as an asset, installed by the function that applies manifests.

    Nothing waits for its pods: there is no node yet.

    Attributes:
        release: The Helm release; HyperPod is to wait for it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster | eks.Cluster,
        installer: iam.IRole,
        chart: LocalChart,
    ) -> None:
        """Upload and install the chart.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            cluster: Where it is installed.
            installer: Role of the cluster's function; may read these files, and no others.
            chart: What is installed.
        """
        super().__init__(scope, construct_id)
        asset = s3_assets.Asset(
            self,
            "Files",
            path=str(chart.folder),
            exclude=_left_out(chart.folder),
            ignore_mode=cdk.IgnoreMode.GIT,
        )
        reading = iam.Policy(
            self,
            "Reading",
            roles=[installer],
            statements=[
                iam.PolicyStatement(
                    actions=["s3:GetObject"],
                    resources=[asset.bucket.arn_for_objects(asset.s3_object_key)],
                )
            ],
        )
        self.release = eks.HelmChart(
            self,
            "Chart",
            cluster=cast("eks.ICluster", cluster),
            chart_asset=asset,
            release=_RELEASE,
            namespace=_NAMESPACE,
            create_namespace=False,
            wait=False,
            values=chart.values,
        )
        self.release.node.add_dependency(reading)


def _left_out(folder: Path) -> list[str]:
    """Patterns of what differs between two machines and is not needed.

    ``helm dependency update`` writes the time into Chart.lock, which Helm only reads to fetch
    parts, and archives parts whose files are there as well.
    """
    archives = [f"/charts/{part}-*.tgz" for part in unpacked_parts(folder)]
    return ["/Chart.lock", ".git", ".DS_Store", *archives]
