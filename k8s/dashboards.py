"""Dashboards as ConfigMaps, for a Grafana that runs in the cluster."""

import cdk8s
from constructs import Construct

from kascade.observability.boards import boards
from kascade.plan import ObservabilityPlan


class DashboardsChart(cdk8s.Chart):
    """One ConfigMap per dashboard, found by Grafana's sidecar through its label.

    Managed Grafana gets the same texts from the observability stack. This copy makes them
    readable in the manifests and usable by a Grafana of your own.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        observability: ObservabilityPlan,
        namespace: str,
    ) -> None:
        super().__init__(scope, construct_id, disable_resource_name_hashes=True)
        for uid, text in boards(observability).items():
            config = cdk8s.ApiObject(
                self,
                uid,
                api_version="v1",
                kind="ConfigMap",
                metadata=cdk8s.ApiObjectMetadata(
                    name=uid,
                    namespace=namespace,
                    labels={
                        "app.kubernetes.io/part-of": "kascade",
                        "app.kubernetes.io/managed-by": "kascade",
                        "grafana_dashboard": "1",
                    },
                ),
            )
            config.add_json_patch(cdk8s.JsonPatch.add("/data", {f"{uid}.json": text}))
