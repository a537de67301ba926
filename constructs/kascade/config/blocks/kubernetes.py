"""The Kubernetes control plane, its system nodes and its add-ons."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from kascade.catalog.kubernetes import DEFAULT_KUBERNETES_VERSION, SUBDOMAIN
from kascade.config.blocks.values import (
    GROUP_ID,
    Block,
    LogRetention,
    PublicCidr,
    RoleArn,
    Switch,
    Whole,
    matching,
)

_CHART_REPOSITORY = re.compile(
    rf"(?!.*\.\.)https://{SUBDOMAIN}(:[0-9]{{1,5}})?(/[\w.~-]+)*/?", re.ASCII
)

_REGISTRY = re.compile(rf"(?!.*\.\.){SUBDOMAIN}(:[0-9]{{1,5}})?(/[a-z0-9._-]+)*")

_NODE_RELEASE = re.compile(
    r"[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}-20[2-9][0-9](0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])"
)
"""With the day that AWS built it."""

_EKS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")

_ADDON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")

_AMP_WORKSPACE = re.compile(r"arn:aws:aps:[a-z0-9-]+:[0-9]{12}:workspace/ws-[A-Za-z0-9-]{1,64}")


class SystemGroupConfig(Block):
    """Ordinary EC2 nodes for what needs no GPU: CoreDNS, the router, Curvine's master."""

    instance_type: Literal["m7i.xlarge", "m5.xlarge", "m5.2xlarge"] = Field(
        default="m7i.xlarge", description="EC2 type of the system nodes."
    )
    count: Whole = Field(default=2, ge=2, le=20, description="Nodes at the start, at least 2.")
    max_count: Whole = Field(
        default=4, ge=2, le=50, description="Most nodes the group may grow to."
    )
    root_volume_gib: Whole = Field(
        default=100, ge=50, le=1000, description="Encrypted gp3 root volume."
    )
    release_version: (
        Annotated[
            str, matching(_NODE_RELEASE, "a release of EKS's node image such as 1.35.2-20261120")
        ]
        | None
    ) = Field(
        default=None,
        description="Release of EKS's node image (AL2023), of the same Kubernetes version. A newer "
        "one renews the nodes one by one: this is how they get patches. Without it, the newest "
        "when the nodes are made or their Kubernetes version changes.",
    )


class KyvernoConfig(Block):
    """Where Kyverno comes from; it is installed only where a model in mode `operator` needs it."""

    chart_repository: Annotated[
        str, matching(_CHART_REPOSITORY, "the https address of a Helm repository")
    ] = Field(
        default="https://kyverno.github.io/kyverno/",
        description="Helm repository, as the function that applies manifests reaches it.",
    )
    image_registry: Annotated[str, matching(_REGISTRY, "a registry without a scheme")] | None = (
        Field(
            default=None,
            description="Registry to take its images from. Without it the chart's own.",
        )
    )


BASE_ADDONS = (
    "vpc-cni",
    "kube-proxy",
    "coredns",
    "eks-pod-identity-agent",
    "aws-ebs-csi-driver",
)
"""What every cluster here needs."""


class ExistingEksConfig(Block):
    """An EKS cluster of yours, with authentication mode API or API_AND_CONFIG_MAP."""

    name: Annotated[str, matching(_EKS_NAME, "the name of an EKS cluster")] = Field(
        examples=["platform"], description="Its name."
    )
    security_group_id: Annotated[str, matching(GROUP_ID, "the id of a security group (sg-...)")] = (
        Field(
            examples=["sg-0123456789abcdef0"],
            description="The cluster security group that EKS made (clusterSecurityGroupId).",
        )
    )
    addons: tuple[
        Annotated[
            str, matching(_ADDON, "the name of an EKS add-on (letters, digits, hyphens and _)")
        ],
        ...,
    ] = Field(
        default=BASE_ADDONS,
        max_length=40,
        description="EKS add-ons that it has. Of eks-pod-identity-agent, aws-ebs-csi-driver and, "
        "for weights in S3, aws-mountpoint-s3-csi-driver what is missing is added; vpc-cni, "
        "kube-proxy and coredns never are. Without this: the five that every cluster here needs.",
    )


class AddonsConfig(Block):
    """EKS add-ons of HyperPod beside the inference operator, whose models ask for it themselves."""

    task_governance: Switch = Field(
        default=False, description="Quotas and queues for teams (Kueue, by HyperPod's add-on)."
    )
    training_operator: Switch = Field(
        default=False, description="HyperPod's training operator; brings cert-manager with it."
    )
    observability_workspace_arn: (
        Annotated[
            str,
            matching(_AMP_WORKSPACE, "the ARN of a Managed Prometheus workspace (arn:aws:aps:...)"),
        ]
        | None
    ) = Field(
        default=None,
        description="Workspace in this region that HyperPod's observability add-on writes to. "
        "Without one the add-on is left out; the metrics of engines and cache need none.",
    )


class KubernetesConfig(Block):
    """The EKS cluster."""

    existing: ExistingEksConfig | None = Field(
        default=None,
        description="An existing EKS cluster; `version` says what it runs.",
    )

    version: str = Field(
        default=DEFAULT_KUBERNETES_VERSION,
        description="Kubernetes version, in quotes. HyperPod documents 1.30 to 1.35.",
    )
    public_access_cidrs: tuple[PublicCidr, ...] = Field(
        default=(),
        max_length=40,
        description="Networks that may reach the EKS API from the internet. Empty keeps the API "
        "private to the VPC.",
    )
    admin_role_arns: tuple[RoleArn, ...] = Field(
        default=(),
        max_length=50,
        description="IAM roles that become cluster administrators. Empty leaves only the "
        "deployment's own kubectl role.",
    )
    system_group: SystemGroupConfig = Field(
        default=SystemGroupConfig(), description="Managed node group for everything without a GPU."
    )
    log_retention_days: LogRetention = Field(
        default=90, description="Days that cluster logs are kept."
    )
    kyverno: KyvernoConfig = Field(
        default=KyvernoConfig(), description="Kyverno, for models in mode `operator`."
    )
    addons: AddonsConfig = Field(
        default=AddonsConfig(), description="Further EKS add-ons of HyperPod."
    )
    dependencies_chart: str | None = Field(
        default=None,
        description="Folder, relative to this file, of AWS's own chart of HyperPod's dependencies: "
        "helm_chart/HyperPodHelmChart in a clone. Without it the deployment brings its own "
        "objects.",
    )
