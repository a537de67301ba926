"""The namespace that Kyverno's chart is installed into, closed but for its webhook."""

from __future__ import annotations

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Metadata, add_object
from kascade.kube._policies import add_policy, api_server_egress, dns_egress, ingress_from
from kascade.plan import KyvernoPlan, NetworkPlan


class KyvernoNamespace(Construct):
    """Namespace and NetworkPolicy; the chart itself is a Helm release beside the manifests."""

    def __init__(
        self, scope: Construct, construct_id: str, *, kyverno: KyvernoPlan, network: NetworkPlan
    ) -> None:
        """Add both.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            kyverno: The plan's slice.
            network: Addresses of the VPC, where the API server is.
        """
        super().__init__(scope, construct_id)
        security = {
            f"pod-security.kubernetes.io/{mode}{suffix}": value
            for mode in ("enforce", "audit")
            for suffix, value in (("", "restricted"), ("-version", "latest"))
        }
        add_object(
            self,
            api_version="v1",
            kind="Namespace",
            meta=Metadata(name=kyverno.namespace, labels={**labels({}), **security}),
            body={},
        )
        add_policy(
            self,
            meta=Metadata(name="kyverno", namespace=kyverno.namespace, labels=labels({})),
            # Every pod of the namespace: the chart's hooks have labels of their own.
            selecting={},
            # The API server calls from its network interfaces in the VPC, whose addresses are
            # unknown before the cluster is there; the webhook answers nobody without TLS.
            ingress=[
                ingress_from(
                    [{"ipBlock": {"cidr": cidr}} for cidr in network.vpc_cidrs],
                    kyverno.webhook_port,
                )
            ],
            egress=[dns_egress(), api_server_egress(network.vpc_cidrs)],
        )
