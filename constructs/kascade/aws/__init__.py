"""CDK constructs: network, EKS, HyperPod, Managed Prometheus and Managed Grafana."""

from kascade.aws.addons import FeatureAddons
from kascade.aws.autoscaling import KarpenterAutoscaling
from kascade.aws.eks import ServingEksCluster
from kascade.aws.hyperpod import HyperPodCluster
from kascade.aws.lifecycle import LifecycleScript
from kascade.aws.manifests import AppliedManifests, KubernetesObject, ManifestError
from kascade.aws.network import ServingNetwork

__all__ = [
    "AppliedManifests",
    "FeatureAddons",
    "HyperPodCluster",
    "KarpenterAutoscaling",
    "KubernetesObject",
    "LifecycleScript",
    "ManifestError",
    "ServingEksCluster",
    "ServingNetwork",
]
