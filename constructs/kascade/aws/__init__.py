"""CDK constructs: network, EKS, HyperPod, Managed Prometheus and Managed Grafana."""

from kascade.aws._cluster import IHyperPodCluster
from kascade.aws.addons import FeatureAddons
from kascade.aws.autoscaling import KarpenterAutoscaling
from kascade.aws.eks import ServingEksCluster
from kascade.aws.hyperpod import HyperPodCluster, HyperPodSettings
from kascade.aws.hyperpod_plan import planned_cluster
from kascade.aws.instance_group import (
    Batch,
    Capacity,
    FsxLustre,
    FsxOpenZfs,
    InstanceGroup,
    Instances,
    SoftwareUpdates,
    Taint,
)
from kascade.aws.lifecycle import LifecycleScript
from kascade.aws.manifests import AppliedManifests, KubernetesObject, ManifestError
from kascade.aws.network import ServingNetwork

__all__ = [
    "AppliedManifests",
    "Batch",
    "Capacity",
    "FeatureAddons",
    "FsxLustre",
    "FsxOpenZfs",
    "HyperPodCluster",
    "HyperPodSettings",
    "IHyperPodCluster",
    "InstanceGroup",
    "Instances",
    "KarpenterAutoscaling",
    "KubernetesObject",
    "LifecycleScript",
    "ManifestError",
    "ServingEksCluster",
    "ServingNetwork",
    "SoftwareUpdates",
    "Taint",
    "planned_cluster",
]
