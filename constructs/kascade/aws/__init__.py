"""CDK constructs: network, EKS, HyperPod, Managed Prometheus and Managed Grafana."""

from kascade.aws.eks import ServingEksCluster
from kascade.aws.hyperpod import HyperPodCluster
from kascade.aws.lifecycle import LifecycleScript
from kascade.aws.manifests import AppliedManifests, KubernetesObject, ManifestError
from kascade.aws.network import ServingNetwork

__all__ = [
    "AppliedManifests",
    "HyperPodCluster",
    "KubernetesObject",
    "LifecycleScript",
    "ManifestError",
    "ServingEksCluster",
    "ServingNetwork",
]
