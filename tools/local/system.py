"""A whole deployment on this machine: engines, their LMCache servers, the router, Prometheus."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import tools.node  # noqa: F401 - chooses the Node that jsii starts

import yaml

from k8s.charts import build_charts, manifest_app
from kascade import ServingPlan, plan_file
from kascade.errors import KascadeError
from kascade.kube._labels import LMCACHE_PORT, ROUTER_PORT, VLLM_PORT
from kascade.kube.l2.guards import MARKER
from kascade.observability.scrape import scrape_configuration
from kascade.plan import CurvineL2Plan
from kascade.planning.loading import read_config
from kascade.programs.verify.target import Replica, Target
from tools.local.kubelet import RunningPod, Sandbox, answers
from tools.local.pod_api import TARGETS_PATH, PodApi, pod_object
from tools.local.pods import Document, Pod, pods
from tools.local.substitutions import Place, substituted
from tools.process import local_environment
from tools.servers import Server

ROOT: Final = Path(__file__).parents[2]
ENGINE_ENVIRONMENT: Final = ROOT / ".venv-engine"

API_PORT: Final = 6443
PROMETHEUS_PORT: Final = 9090
_KEY_BYTES: Final = 32
_NETWORKS: Final = range(1, 250)
_FIRST_POD: Final = 11
_START_SECONDS: Final = 300
_SCRAPE_SECONDS: Final = 2
_RUN: Final = frozenset({"vllm", "janitor", "router"})
"""Pods with one of these containers."""


class LocalError(KascadeError):
    """A deployment that cannot run on this machine, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What one configuration renders.

    Attributes:
        plan: What it was rendered from.
        shape: The model's config.json.
        objects: Every rendered object, read back from its file.
    """

    plan: ServingPlan
    shape: Document
    objects: tuple[Document, ...]

    @classmethod
    def render(cls, config: Path, folder: Path) -> Self:
        """Render a configuration into a folder, and read that.

        Raises:
            KascadeError: The configuration is wrong, or its model cannot run without a GPU.
        """
        plan = plan_file(config)
        model, *others = (read_config(config).config or _unreachable()).models
        if others or model.config_json is None:
            msg = (
                f"{config}: only one model, described by a `config_json` of its own, can run on "
                "this machine with random weights; see config/laptop.yaml"
            )
            raise LocalError(msg)
        app = manifest_app(str(folder))
        charts = build_charts(app, plan)
        app.synth()
        # Of the platform only what pods mount has a counterpart here.
        texts = [
            (folder / f"{chart.node.id}.yaml").read_text()
            for chart in (charts.platform, *charts.serving)
        ]
        objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
        shape: Document = json.loads((config.parent / model.config_json).read_text())
        return cls(plan=plan, shape=shape, objects=tuple(objects))


class LocalSystem:
    """One running deployment.

    Attributes:
        deployment: What runs.
        folder: Its state; logs are in ``logs``, L2 is below ``volumes``.
        pods: By name.
        prometheus_url: Where Prometheus answers.
    """

    def __init__(
        self, deployment: Deployment, folder: Path, *, prometheus: Path, seconds: float
    ) -> None:
        """Take a network and write what the pods mount; nothing runs before ``start``.

        Args:
            deployment: What to run.
            folder: Where its state goes; kept.
            prometheus: The program.
            seconds: When everything ends at the latest.
        """
        self.deployment, self.folder = deployment, folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pods: dict[str, RunningPod] = {}
        self._api, self._network = _free_network()
        self._kubeconfig = self._api.write_kubeconfig(self.folder / "kubeconfig.yaml")
        self._sandbox = Sandbox(
            folder=self.folder, environment=self._environment(), seconds=seconds
        )
        self._prometheus_program = prometheus
        self.prometheus_url = f"http://{self._network}.1:{PROMETHEUS_PORT}"
        self._prometheus: Server | None = None
        self._seconds = seconds
        self._write_model()
        for index, pod in enumerate(self.rendered):
            place = self.place(pod, index)
            self.pods[pod.name] = RunningPod(
                substituted(pod, place),
                address=place.address,
                sandbox=self._sandbox,
                changed=self._publish,
            )

    @property
    def rendered(self) -> list[Pod]:
        """The pods of the engines, their janitor and the router, as rendered."""
        found = pods(self.deployment.objects)
        return [pod for pod in found if _RUN & {c.name for c in pod.containers}]

    def place(self, pod: Pod, index: int) -> Place:
        """Say where a pod stands here; makes the folders of its volumes."""
        return Place(
            address=f"{self._network}.{_FIRST_POD + index}",
            volumes={name: self._volume(pod, name, source) for name, source in pod.volumes.items()},
            kubeconfig=self._kubeconfig,
            api_url=self._api.url,
            cores=len(os.sched_getaffinity(0)),
        )

    # --- Life -------------------------------------------------------------------------------

    def start(self, say: Callable[[str], object] = lambda _: None) -> None:
        """Start everything and wait until the router knows every engine.

        Args:
            say: Told what is being waited for.

        Raises:
            ServerError: Something did not start.
        """
        say(f"starting {', '.join(self.pods)}")
        self._start_pods()
        self._start_prometheus()
        self.wait_until_ready(say)

    def restart(self) -> None:
        """End every pod and start it again; what they wrote stays."""
        for pod in self.pods.values():
            pod.stop()
        self._start_pods()
        self.wait_until_ready()

    def roll(self, name: str) -> float:
        """End one pod as a roll-out does, start another in its place, and wait until it is ready.

        Returns:
            Seconds that the first one took to end.
        """
        pod = self.pods[name]
        begun = time.monotonic()
        pod.terminate()
        ended = time.monotonic() - begun
        self._empty(pod.pod)
        pod.start(seconds=_START_SECONDS)
        self.wait_until_ready()
        return ended

    def wait_until_ready(self, say: Callable[[str], object] = lambda _: None) -> None:
        """Wait until every pod is ready.

        Raises:
            ServerError: One of them is not in time.
        """
        for pod in self.pods.values():
            say(f"waiting for {pod.pod.name}")
            for container in pod.containers.values():
                container.wait_until_started(_START_SECONDS)
        self.wait_for(lambda: all(pod.ready for pod in self.pods.values()), "every pod is ready")

    def wait_for(
        self, fact: Callable[[], bool], what: str, *, seconds: float = _START_SECONDS
    ) -> None:
        """Wait for a fact.

        Raises:
            LocalError: It did not come true in time.
        """
        deadline = time.monotonic() + seconds
        while not fact():
            if time.monotonic() > deadline:
                msg = f"not within {seconds:g} s: {what}"
                raise LocalError(msg)
            time.sleep(0.1)

    def stop(self) -> None:
        """End everything; the state stays."""
        for pod in self.pods.values():
            pod.stop()
        if self._prometheus is not None:
            self._prometheus.stop()
        self._api.close()

    # --- What is in it ------------------------------------------------------------------------

    @property
    def engines(self) -> list[RunningPod]:
        """The pods of the engines, by name."""
        return [pod for _, pod in sorted(self.pods.items()) if _has(pod, "vllm")]

    @property
    def router(self) -> RunningPod:
        """The router's pod."""
        (found,) = (pod for pod in self.pods.values() if _has(pod, "router"))
        return found

    @property
    def janitor(self) -> RunningPod:
        """The pod of the janitor."""
        (found,) = (pod for pod in self.pods.values() if _has(pod, "janitor"))
        return found

    @property
    def cache_directory(self) -> Path | None:
        """The volume of L2, or None without one."""
        l2 = self.deployment.plan.engines[0].lmcache.l2
        return self.folder / "volumes" / l2.volume if isinstance(l2, CurvineL2Plan) else None

    @property
    def target(self) -> Target:
        """Where it answers."""
        engine = self.deployment.plan.engines[0]
        router, directory = self.router, self.cache_directory
        return Target(
            engine=engine.name,
            model=engine.served_name,
            chunk_size=engine.lmcache.chunk_size,
            replicas=tuple(
                Replica(
                    name=pod.pod.name,
                    engine_url=_url(pod, "vllm", VLLM_PORT),
                    lmcache_url=_url(pod, "lmcache", LMCACHE_PORT),
                )
                for pod in self.engines
            ),
            router_url=_url(router, "router", "http"),
            router_metrics_url=f"{_url(router, 'router', ROUTER_PORT)}/metrics",
            cache_directory=None if directory is None else str(directory),
        )

    # --- Parts --------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        """Variables of every process: this machine's, less what leads elsewhere."""
        programs = [ENGINE_ENVIRONMENT / "bin", ROOT / ".venv" / "bin"]
        inherited = local_environment()
        path = os.pathsep.join([*map(str, programs), inherited.get("PATH", "")])
        return {**inherited, "PATH": path, "HOME": str(self.folder)}

    def _start_pods(self) -> None:
        for pod in self.pods.values():
            self._empty(pod.pod)
        with ThreadPoolExecutor() as pool:
            for started in [
                pool.submit(pod.start, seconds=_START_SECONDS) for pod in self.pods.values()
            ]:
                started.result()

    def _empty(self, pod: Pod) -> None:
        """Make what lives as long as its pod anew."""
        for name, source in pod.volumes.items():
            if "emptyDir" in source:
                shutil.rmtree(self.folder / "pods" / pod.name / name)
                self._volume(pod, name, source)

    def _write_model(self) -> None:
        engine = self.deployment.plan.engines[0]
        target = self.folder / engine.model
        if not (target / "config.json").exists():
            subprocess.run(
                [ENGINE_ENVIRONMENT / "bin" / "python", "-m", "tools.local.model", target],
                cwd=ROOT,
                input=json.dumps(self.deployment.shape),
                text=True,
                check=True,
            )

    def _volume(self, pod: Pod, name: str, source: Document) -> Path:
        """Make the folder of one volume."""
        folder = self.folder / "pods" / pod.name / name
        if claim := source.get("persistentVolumeClaim"):
            folder = self.folder / "volumes" / str(claim["claimName"])
            folder.mkdir(parents=True, exist_ok=True)
            # In the place of the bootstrap Job.
            (folder / MARKER).touch()
        elif secret := source.get("secret"):
            folder = self.folder / "secrets" / str(secret["secretName"])
            self._write_secret(folder, [item["path"] for item in secret["items"]])
        elif config := source.get("configMap"):
            # Python names a package after the folder it lies in.
            folder /= Path(_mount_path(pod, name)).name
            self._write_config(folder, str(config["name"]))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _write_config(self, folder: Path, name: str) -> None:
        (found,) = (
            one
            for one in self.deployment.objects
            if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name
        )
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in found["data"].items():
            (folder / file).write_text(text)

    def _write_secret(self, folder: Path, names: list[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not (folder / name).exists():
                (folder / name).write_bytes(secrets.token_bytes(_KEY_BYTES))
                (folder / name).chmod(0o400)

    def _publish(self, pod: RunningPod) -> None:
        if pod.containers:
            self._api.put(
                pod_object(pod.pod, address=pod.address, ready=pod.ready, ending=pod.ending)
            )
        else:
            self._api.remove(pod.pod.name)

    def _start_prometheus(self) -> None:
        plan = self.deployment.plan
        if plan.observability is None:
            return
        text = scrape_configuration(
            plan.observability, cluster_name=plan.cluster.eks_name, namespaces=plan.namespaces
        )
        config: dict[str, Any] = yaml.safe_load(text)
        # 30 s is the least that the managed collector takes.
        config["global"] |= {
            "scrape_interval": f"{_SCRAPE_SECONDS}s",
            "scrape_timeout": f"{_SCRAPE_SECONDS}s",
        }
        for job in config["scrape_configs"]:
            del job["kubernetes_sd_configs"]
            url = f"{self._api.url}{TARGETS_PATH}"
            job["http_sd_configs"] = [{"url": url, "refresh_interval": f"{_SCRAPE_SECONDS}s"}]
        file = self.folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        self._prometheus = Server(
            "prometheus",
            [
                self._prometheus_program,
                f"--config.file={file}",
                f"--storage.tsdb.path={self.folder / 'prometheus'}",
                f"--web.listen-address={self._network}.1:{PROMETHEUS_PORT}",
            ],
            folder=self.folder / "logs",
            environment=self._sandbox.environment,
            seconds=self._seconds,
        )
        ready = f"{self.prometheus_url}/-/ready"
        self._prometheus.wait_until(lambda: answers(ready, 1), seconds=60)


@contextmanager
def running(
    deployment: Deployment, folder: Path, *, prometheus: Path, seconds: float
) -> Iterator[LocalSystem]:
    """Run a deployment while the block lasts; see ``LocalSystem``."""
    system = LocalSystem(deployment, folder, prometheus=prometheus, seconds=seconds)
    try:
        system.start()
        yield system
    finally:
        system.stop()


def _has(pod: RunningPod, container: str) -> bool:
    return any(one.name == container for one in pod.pod.containers)


def _mount_path(pod: Pod, volume: str) -> str:
    return next(
        path
        for container in pod.containers
        for path, name in container.mounts.items()
        if name == volume
    )


def _url(pod: RunningPod, container: str, port: str) -> str:
    return f"http://{pod.address}:{pod.pod.container(container).ports[port]}"


def _free_network() -> tuple[PodApi, str]:
    """Take a network of loopback addresses that no other run has."""
    for number in _NETWORKS:
        network = f"127.88.{number}"
        try:
            return PodApi(f"{network}.1", API_PORT), network
        except OSError:
            continue
    msg = f"no loopback network 127.88.N.0 is free at port {API_PORT}"
    raise LocalError(msg)


def _unreachable() -> Any:
    msg = "a planned configuration was read before"
    raise AssertionError(msg)
