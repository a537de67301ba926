"""Names and paths that several parts of Curvine share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kascade.kube._labels import curvine_selector
from kascade.plan import CurvinePlan

SERVER: Final = "/app/curvine/lib/curvine-server"
CLI: Final = "/app/curvine/lib/curvine-cli"
WORKING_DIRECTORY: Final = "/app/curvine"
"""What the image's entry point changes to before it starts a server. We do not use the entry
point: as PID 1 it swallows SIGTERM, and a worker would then never sign off."""

CONFIG_DIRECTORY: Final = "/etc/curvine"
CONFIG_FILE: Final = "curvine-cluster.toml"

CLUSTER_DOMAIN: Final = "cluster.local"
"""EKS sets no other."""


@dataclass(frozen=True, slots=True)
class CurvineNames:
    """Names of one Curvine cluster's objects."""

    plan: CurvinePlan

    @property
    def master(self) -> str:
        """StatefulSet of the masters and its headless Service."""
        return "curvine-master"

    @property
    def master_hosts(self) -> tuple[str, ...]:
        """Fully qualified names of the masters; they must stand in every configuration."""
        domain = f"{self.master}.{self.plan.namespace}.svc.{CLUSTER_DOMAIN}"
        return tuple(f"{self.master}-{number}.{domain}" for number in range(self.plan.masters))

    @property
    def master_addresses(self) -> str:
        """What FUSE clients are given."""
        return ",".join(f"{host}:{self.plan.master_rpc_port}" for host in self.master_hosts)

    def selector(self, component: str) -> dict[str, str]:
        """Labels that select the pods of ``master``, ``worker``, ``csi-node`` and so on."""
        return curvine_selector(self.plan.cluster_id, component)
