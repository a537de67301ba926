"""Who may talk to whom inside Curvine, which has neither TLS nor authentication."""

from __future__ import annotations

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Fields, Metadata
from kascade.kube._policies import (
    add_policy,
    api_server_egress,
    egress_to,
    ingress_from,
    pods,
    scrape_ingress,
)
from kascade.kube.curvine.names import CurvineNames
from kascade.plan import CurvinePlan, NetworkPlan


class CurvinePolicies(Construct):
    """One NetworkPolicy per part, on top of the namespace's default-deny policy.

    The masters' web port can also decommission workers, without a login, and cannot be opened to
    the collector of metrics alone (see ``scrape_ingress``).
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, curvine: CurvinePlan, network: NetworkPlan
    ) -> None:
        """Add the policies.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            curvine: The plan's slice.
            network: Addresses of the VPC, where the collector of metrics comes from.
        """
        super().__init__(scope, construct_id)
        self._plan = curvine
        self._names = CurvineNames(curvine)
        plan = curvine
        to_masters = egress_to([self._peer("master")], plan.master_rpc_port)
        to_api = api_server_egress(network.vpc_cidrs)
        clients = ("worker", "csi-node", "csi-controller", "bootstrap")
        self._add(
            "master",
            ingress=[
                ingress_from([self._peer(part) for part in clients], plan.master_rpc_port),
                ingress_from(
                    [self._peer("master")], plan.master_rpc_port, plan.master_journal_port
                ),
                *scrape_ingress(network.collector_cidrs, plan.master_web_port),
            ],
            egress=[
                egress_to([self._peer("master")], plan.master_rpc_port, plan.master_journal_port)
            ],
        )
        self._add(
            "worker",
            ingress=[
                ingress_from([self._peer("csi-node")], plan.worker_rpc_port),
                *scrape_ingress(network.collector_cidrs, plan.worker_web_port),
            ],
            egress=[to_masters],
        )
        self._add(
            "csi-node",
            ingress=[*scrape_ingress(network.collector_cidrs, plan.fuse_web_port)],
            egress=[
                to_masters,
                egress_to([self._peer("worker")], plan.worker_rpc_port),
                to_api,
            ],
        )
        self._add("csi-controller", ingress=[], egress=[to_masters, to_api])
        self._add("bootstrap", ingress=[], egress=[to_masters])

    def _peer(self, component: str) -> Fields:
        return pods(self._names.selector(component))

    def _add(self, component: str, *, ingress: list[Fields], egress: list[Fields]) -> None:
        selecting = self._names.selector(component)
        add_policy(
            self,
            meta=Metadata(
                name=f"curvine-{component}",
                namespace=self._plan.namespace,
                labels=labels(selecting),
            ),
            selecting=selecting,
            ingress=ingress,
            egress=egress,
        )
