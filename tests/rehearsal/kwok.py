"""kwok: plays the kubelets of simulated nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.process import local_environment
from tools.servers import Server, ServerError, free_ports, listening

NODE_LABEL: Final = "kwok.x-k8s.io/node"
"""A node that carries it is played by kwok; without it the node falls silent. A label, since kwok
lets go of a node that loses its label, but not of one that loses an annotation."""

LEASE_SECONDS: Final = 8


def start_kwok(programs: Path, *, kubeconfig: Path, folder: Path) -> Server:
    """Start it for one cluster; the caller stops it."""
    (port,) = free_ports(1)
    server = Server(
        "kwok",
        [
            programs / "kwok",
            f"--kubeconfig={kubeconfig}",
            f"--config={programs / 'stages.yaml'}",
            f"--manage-nodes-with-label-selector={NODE_LABEL}=fake",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
            "--node-ip=127.0.0.1",
            f"--node-port={port}",
            f"--server-address=127.0.0.1:{port}",
        ],
        folder=folder,
        environment=local_environment(),
    )
    try:
        server.wait_until(lambda: bool(listening(server.pid)), seconds=30)
    except ServerError:
        server.stop()
        raise
    return server
