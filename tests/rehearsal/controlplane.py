"""A Kubernetes control plane on loopback: API server, controllers, scheduler, etcd, kwok.

Real: admission, validation, RBAC, controllers, scheduling, garbage collection. Not real: nodes.
kwok plays every kubelet, so a pod that is scheduled is soon Running, whatever its image.
"""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final, Self

import tools.node  # noqa: F401 - names the Node that makes a key

from kascade.catalog.kubernetes import serves_mutating_policies
from tests.rehearsal.kubectl import Kubectl
from tests.rehearsal.kwok import start_kwok
from tools.controlplane.build import DEFAULT, build
from tools.servers import Server, free_ports

GRACE_SECONDS: Final = 16
"""How long a silent node is trusted. 50 s by default; shorter, so that a loss can be waited for."""

TOLERATION_SECONDS: Final = 5
"""How long pods stay on a lost node. 300 s by default."""

_MAKE_KEY: Final = """
const { privateKey } = require("crypto").generateKeyPairSync("rsa", { modulusLength: 2048 });
process.stdout.write(privateKey.export({ type: "pkcs1", format: "pem" }));
"""
"""Node comes with the environment; openssl may not be there."""

_READY_SECONDS: Final = 60
_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
clusters:
  - name: rehearsal
    cluster: {{server: "{server}", certificate-authority: "{authority}"}}
users:
  - name: admin
    user: {{token: "{token}"}}
contexts:
  - name: rehearsal
    context: {{cluster: rehearsal, user: admin}}
current-context: rehearsal
"""


class ControlPlane:
    """A control plane of its own, gone with the `with` block.

    Attributes:
        folder: Logs, certificates and etcd's data.
        kubeconfig: An administrator's; mode 600.
        kubectl: kubectl with that kubeconfig.
        servers: What runs, in the order of its start.
        version: Version of Kubernetes, such as 1.35.4.
    """

    def __init__(self, kubernetes: str = DEFAULT, *, simulate_nodes: bool = True) -> None:
        """Find or build the programs.

        Args:
            kubernetes: Minor version, one of the pinned ones.
            simulate_nodes: Start kwok as well.

        Raises:
            BuildError: There is no Go to build them with.
        """
        self._programs = build(kubernetes)
        self._simulate_nodes = simulate_nodes
        self.version = self._programs.version
        self.folder = Path(tempfile.mkdtemp(prefix="kascade-rehearsal-"))
        self.kubeconfig = self.folder / "kubeconfig.yaml"
        self.kubectl = Kubectl(self.kubeconfig)
        self.servers: list[Server] = []

    def __enter__(self) -> Self:
        """Start everything; return once the API answers. Controllers are up a few seconds later."""
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for server in reversed(self.servers):
            server.stop()
        self.servers.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> Server:
        program = self._programs.kubernetes / name
        server = Server(name, [program, *arguments], folder=self.folder)
        self.servers.append(server)
        return server

    def _start(self) -> None:
        client, peer, api, controllers, scheduler = free_ports(5)
        token = self._write_secrets()
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",  # nothing of it outlives the run
            "--log-level=error",
        )
        address = f"https://127.0.0.1:{api}"
        server = self._start_api(api, client)
        certificate = self.folder / "api" / "apiserver.crt"
        server.wait_until(certificate.exists, seconds=_READY_SECONDS)
        self._write_kubeconfig(address, certificate, token)
        trust = ssl.create_default_context()
        server.wait_until(
            lambda: _answers(address, certificate, token, trust), seconds=_READY_SECONDS
        )
        self._start_clients(controllers, scheduler, certificate)

    def _write_secrets(self) -> str:
        token = secrets.token_urlsafe(32)
        key = self.folder / "accounts.key"
        key.touch(0o600)
        with key.open("wb") as file:
            subprocess.run([os.environ["JSII_NODE"], "-e", _MAKE_KEY], check=True, stdout=file)
        tokens = self.folder / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text(f'{token},admin,admin,"system:masters"\n')
        return token

    def _write_kubeconfig(self, address: str, certificate: Path, token: str) -> None:
        self.kubeconfig.touch(0o600)
        self.kubeconfig.write_text(
            _KUBECONFIG.format(server=address, authority=certificate, token=token)
        )

    def _start_api(self, port: int, etcd_port: int) -> Server:
        key = self.folder / "accounts.key"
        return self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'api'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=172.20.0.0/16",
            # A loopback address is no endpoint that the `kubernetes` Service may have.
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            # As EKS has it, beside the defaults; NodeRestriction needs real kubelets.
            "--enable-admission-plugins=ExtendedResourceToleration",
            f"--default-not-ready-toleration-seconds={TOLERATION_SECONDS}",
            f"--default-unreachable-toleration-seconds={TOLERATION_SECONDS}",
            *self._mutating_policies(),
        )

    def _mutating_policies(self) -> list[str]:
        """Turn MutatingAdmissionPolicy on where it is beta: the policies that Kyverno gets there
        are the same CEL, and so a server can judge it that needs no Kyverno.
        """
        if serves_mutating_policies(".".join(self.version.split(".")[:2])):
            return []
        return [
            "--feature-gates=MutatingAdmissionPolicy=true",
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        ]

    def _start_clients(self, controllers_port: int, scheduler_port: int, certificate: Path) -> None:
        common = (f"--kubeconfig={self.kubeconfig}", "--bind-address=127.0.0.1")
        self._run(
            "kube-controller-manager",
            *common,
            f"--secure-port={controllers_port}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.folder / 'accounts.key'}",
            f"--root-ca-file={certificate}",
            "--service-cluster-ip-range=172.20.0.0/16",
            # Nothing attaches volumes here; the controller would report each as failed.
            "--controllers=*,-persistentvolume-attach-detach-controller",
            f"--node-monitor-grace-period={GRACE_SECONDS}s",
            "--node-monitor-period=2s",
            "--concurrent-deployment-syncs=10",
        )
        self._run(
            "kube-scheduler",
            *common,
            f"--secure-port={scheduler_port}",
            f"--cert-dir={self.folder / 'scheduler'}",
            "--leader-elect=false",
        )
        if self._simulate_nodes:
            kwok = start_kwok(self._programs.kwok, kubeconfig=self.kubeconfig, folder=self.folder)
            self.servers.append(kwok)


def _answers(address: str, certificate: Path, token: str, trust: ssl.SSLContext) -> bool:
    """Whether the API server is ready; a connection it rejects is none yet."""
    try:
        trust.load_verify_locations(certificate)
        request = urllib.request.Request(  # noqa: S310 - always our own https address
            f"{address}/readyz", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=5, context=trust) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ssl.SSLError):
        return False
