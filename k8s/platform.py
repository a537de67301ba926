"""The chart that everything else stands on; applied before the HyperPod cluster is created."""

from __future__ import annotations

import cdk8s
from constructs import Construct

from kascade.kube.classes import Classes
from kascade.kube.device_plugins import EfaDevicePlugin, NvidiaDevicePlugin
from kascade.kube.engine_program import EnginePrograms
from kascade.kube.hyperpod import HealthMonitoringAgent, HyperPodAccess
from kascade.kube.namespaces import ClosedNamespaces
from kascade.plan import PlatformPlan


class PlatformChart(cdk8s.Chart):
    """Namespaces, classes, programs, HyperPod's in-cluster dependencies, device plugins."""

    def __init__(self, scope: Construct, construct_id: str, *, platform: PlatformPlan) -> None:
        """Compose the chart.

        Args:
            scope: The cdk8s app.
            construct_id: Id of the chart and name of its file.
            platform: The plan's slice.
        """
        super().__init__(scope, construct_id)
        ClosedNamespaces(
            self,
            "Namespaces",
            namespaces=platform.namespaces,
            host_directory=platform.host_directory,
            hyperpod=platform.agents,
        )
        Classes(self, "Classes")
        EnginePrograms(self, "EnginePrograms", namespace=platform.namespaces.serving)
        if platform.agents:
            self._add_agents(platform)

    def _add_agents(self, platform: PlatformPlan) -> None:
        """What HyperPod looks for when it makes a cluster, and what offers the nodes' devices."""
        hyperpod = platform.namespaces.hyperpod
        HyperPodAccess(self, "HyperPodAccess", namespace=hyperpod)
        # An affinity without values is invalid, and without GPUs there is nothing to offer.
        if platform.gpu_instance_types:
            HealthMonitoringAgent(
                self,
                "HealthAgent",
                namespace=hyperpod,
                image=platform.health_agent_image,
                instance_types=platform.gpu_instance_types,
            )
            NvidiaDevicePlugin(
                self,
                "NvidiaPlugin",
                image=platform.device_plugin_image,
                instance_types=platform.gpu_instance_types,
                taint_keys=platform.taint_keys,
            )
        if platform.efa_instance_types:
            EfaDevicePlugin(
                self,
                "EfaPlugin",
                image=platform.efa_plugin_image,
                instance_types=platform.efa_instance_types,
                taint_keys=platform.taint_keys,
            )
