"""The chart of what has to be there before Kyverno is."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.kyverno import KyvernoNamespace
from kascade.plan import KyvernoPlan, NetworkPlan


class AdmissionChart(cdk8s.Chart):
    """Kyverno's namespace; its Helm release follows, then the policies with their models."""

    def __init__(
        self, scope: Construct, construct_id: str, *, kyverno: KyvernoPlan, network: NetworkPlan
    ) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            kyverno: The plan's slice.
            network: Addresses of the VPC.
        """
        super().__init__(scope, construct_id)
        KyvernoNamespace(self, "Kyverno", kyverno=kyverno, network=network)
