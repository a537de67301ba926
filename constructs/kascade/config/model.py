"""The configuration file as types: closed, frozen, one class per block.

Every default lives here and nowhere else; the JSON Schema and the commented reference file are
generated from these classes.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from kascade.catalog.kubernetes import DEFAULT_KUBERNETES_VERSION
from kascade.catalog.schedules import SCHEDULE, SCHEDULE_WORDS

_MAX_NAME = 20
MAX_MODEL_NAME = 32
_GROUP_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""InstanceGroupName of CloudFormation's registry."""
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_ROLE_ARN = re.compile(
    r"arn:aws:iam::[0-9]{12}:role/(?!aws-service-role/)([\w+=,.@-]{1,128}/){0,8}[\w+=,.@-]{1,64}",
    re.ASCII,
)
_IMAGE = re.compile(
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_SUBDOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_NAME_PART = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = re.compile(rf"({_NAME_PART})?")
_FULL_LABEL_VALUE = re.compile(_NAME_PART)
_LABEL_KEY = re.compile(rf"(?![^/]{{254}})({_SUBDOMAIN}/)?{_NAME_PART}")
_SECRET = re.compile(_SUBDOMAIN)
_MODEL_ID = re.compile(
    r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII
)
"""Hugging Face allows neither ``--`` nor ``..``; the first is a slash in directory names."""
_REVISION = re.compile(r"[0-9a-f]{40}")
_STEP = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}"
_INNER_PATH = re.compile(rf"{_STEP}(/{_STEP}){{0,5}}")
_HOST_PATH = re.compile(rf"(/{_STEP}){{1,6}}")
_TAG_KEY = re.compile(r"(?![aA][wW][sS]:)(?=.*\S)[\w .:/=+@-]{1,128}", re.ASCII)
_TAG_VALUE = re.compile(r"[\w .:/=+@-]{0,256}", re.ASCII)
_ENDPOINT = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")
_S3_URI = re.compile(
    r"(?!.*\.\.)s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w.=+/-]{0,400})?", re.ASCII
)
_CERTIFICATE = re.compile(r"arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+")
_CHART_REPOSITORY = re.compile(
    rf"(?!.*\.\.)https://{_SUBDOMAIN}(:[0-9]{{1,5}})?(/[\w.~-]+)*/?", re.ASCII
)
_REGISTRY = re.compile(rf"(?!.*\.\.){_SUBDOMAIN}(:[0-9]{{1,5}})?(/[a-z0-9._-]+)*")
_GRAFANA_VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_IP_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_OTHER_BUCKETS = ("--x-s3", "-s3alias", "--ol-s3", ".mrap", "--table-s3")
_FOLDERS = re.compile(r"(?!\.)[\w.=+-]{1,200}(/(?!\.)[\w.=+-]{1,200}){0,9}", re.ASCII)
_NODE_RELEASE = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}-[0-9]{8}")
_KEY_ARN = re.compile(r"arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,128}")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8}([0-9a-f]{9})?")
_VPC = re.compile(r"vpc-[0-9a-f]{8}([0-9a-f]{9})?")
_EKS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ADDON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_HYPERPOD_ARN = re.compile(r"arn:aws:sagemaker:[a-z0-9-]+:[0-9]{12}:cluster/[a-z0-9]{12}")
_GROUP_ID = re.compile(r"sg-[0-9a-f]{8}([0-9a-f]{9})?")
_TRAINING_PLAN = re.compile(
    r"arn:aws:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]{1,63}"
)
_ALARM = re.compile(r"(?!\s|arn:).{1,255}(?<!\s)")
_AMP_WORKSPACE = re.compile(r"arn:aws:aps:[a-z0-9-]+:[0-9]{12}:workspace/ws-[A-Za-z0-9-]{1,64}")
_NOT_INTERNET = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/3",
)
"""Private, shared, local, multicast and reserved addresses (RFC 6890)."""
_LARGEST_RANGE, _SMALLEST_RANGE = 16, 28
"""Prefix lengths of a VPC's IPv4 ranges (VPC user guide, "VPC CIDR blocks")."""

_MOST_RANGES = 50
"""Ranges that AWS's quota may be raised to (VPC user guide, "Amazon VPC quotas")."""

_VPC_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
_FURTHER_RANGES = (*_VPC_RANGES, "198.18.0.0/15")
"""Pods of EKS may stand in 198.19.0.0/16 as well (EKS best practices, custom networking)."""


def unshort(value: str, limit: int = _MAX_NAME) -> str | None:
    """Say why a name is no short one, or None."""
    if _LABEL.fullmatch(value) and len(value) <= limit:
        return None
    return (
        f"{value!r} cannot name cloud resources; use lower-case letters, digits and inner "
        f"hyphens, beginning with a letter, at most {limit} characters"
    )


def _short_name(limit: int) -> AfterValidator:
    def check(value: str) -> str:
        if (msg := unshort(value, limit)) is not None:
            raise ValueError(msg)
        return value

    return AfterValidator(check)


def _group_name(value: str) -> str:
    """Whatever HyperPod takes; only a group that is there may have more than a short name."""
    if not _GROUP_NAME.fullmatch(value):
        msg = f"{unshort(value)}; HyperPod itself takes 63 letters, digits and inner hyphens"
        raise ValueError(msg)
    return value


def _matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            msg = f"{value!r} is not {wanted}"
            raise ValueError(msg)
        return value

    return AfterValidator(check)


def _cidr(value: str) -> str:
    """One way of writing it, since what comes here goes on to AWS and Kubernetes as it is."""
    try:
        network = ipaddress.IPv4Network(value, strict=False)
    except ValueError as error:
        msg = f"{value!r} is not an IPv4 network such as 10.0.0.0/16 ({error})"
        raise ValueError(msg) from None
    if "/" not in value:
        msg = f"{value!r} has no prefix length; write {value}/24 or whatever it is ({network}: one)"
        raise ValueError(msg)
    if str(network) != value:
        msg = f"{value!r} is the network {network}; write it so"
        raise ValueError(msg)
    return value


def _public_cidr(value: str) -> str:
    network = ipaddress.IPv4Network(_cidr(value))
    if any(network.subnet_of(ipaddress.IPv4Network(known)) for known in _NOT_INTERNET):
        msg = (
            f"{value!r} is not a range of the internet, and who stands in the VPC needs no entry; "
            "leave it out, or give the addresses that your network shows outside"
        )
        raise ValueError(msg)
    return value


def _bucket(value: str) -> str:
    fits = _BUCKET.fullmatch(value) and ".." not in value and not _IP_ADDRESS.fullmatch(value)
    if not fits or value.startswith(("xn--", "sthree-")):
        msg = (
            f"{value!r} cannot be the name of a bucket; it is 3 to 63 lower-case letters, digits, "
            "dots and hyphens, without s3:// before it and without a folder behind it"
        )
        raise ValueError(msg)
    if value.endswith(_OTHER_BUCKETS):
        msg = (
            f"{value!r} names a directory bucket or an access point, which take other rights; give "
            "a general purpose bucket"
        )
        raise ValueError(msg)
    return value


def _folders(value: str) -> str:
    if not _FOLDERS.fullmatch(value):
        msg = (
            f"{value!r} is no path of folders such as models/qwen2-7b/f2826a0: letters, digits and "
            "_.=+- between single slashes, none at the beginning or end, and no folder that begins "
            "with a dot"
        )
        raise ValueError(msg)
    return value


def _range_of_a_vpc(value: str, *, smallest: int, whose: str, known: tuple[str, ...]) -> str:
    network = ipaddress.IPv4Network(_cidr(value))
    if not _LARGEST_RANGE <= network.prefixlen <= smallest:
        msg = f"{value!r} is a /{network.prefixlen}; {whose} takes /{_LARGEST_RANGE} to /{smallest}"
        raise ValueError(msg)
    if not any(network.subnet_of(ipaddress.IPv4Network(whole)) for whole in known):
        msg = f"{value!r} is not in the private ranges {', '.join(known)}; give one that is"
        raise ValueError(msg)
    return value


def _vpc_cidr(value: str) -> str:
    # Below /20 no room for pods.
    return _range_of_a_vpc(value, smallest=20, whose="a VPC here", known=_VPC_RANGES)


def _further_cidr(value: str) -> str:
    return _range_of_a_vpc(
        value, smallest=_SMALLEST_RANGE, whose="a range of a VPC", known=_FURTHER_RANGES
    )


Whole = Annotated[int, Field(strict=True)]
Switch = Annotated[bool, Field(strict=True)]
Cidr = Annotated[str, AfterValidator(_cidr)]
PublicCidr = Annotated[str, AfterValidator(_public_cidr)]
RoleArn = Annotated[
    str,
    _matching(
        _ROLE_ARN,
        "the ARN of an IAM role (arn:aws:iam::ACCOUNT:role/NAME, not a service-linked one)",
    ),
]
ImageReference = Annotated[
    str, _matching(_IMAGE, "an image reference (repository:tag or repository@sha256:digest)")
]
LabelKey = Annotated[
    str,
    _matching(
        _LABEL_KEY,
        "a Kubernetes label key (a name of at most 63 letters, digits, dots, dashes or _, and "
        "before it, if any, a domain in lower case and a slash)",
    ),
]
LabelValue = Annotated[
    str,
    _matching(
        _LABEL_VALUE, "a Kubernetes label value (at most 63 letters, digits, dots, dashes or _)"
    ),
]
GroupLabelValue = Annotated[
    str,
    _matching(
        _FULL_LABEL_VALUE,
        "a label value that HyperPod takes (1 to 63 letters, digits, dots, dashes or _)",
    ),
]
ClaimName = Annotated[str, _matching(_SECRET, "the name of a PersistentVolumeClaim")]
BucketName = Annotated[str, AfterValidator(_bucket)]
Folders = Annotated[str, AfterValidator(_folders)]
KeyArn = Annotated[str, _matching(_KEY_ARN, "the ARN of a KMS key (arn:aws:kms:...:key/...)")]
SecretName = Annotated[str, _matching(_SECRET, "the name of a Kubernetes Secret")]
Share = Annotated[float, Field(strict=True, ge=0.1, le=1.0, allow_inf_nan=False)]

TagKey = Annotated[
    str, _matching(_TAG_KEY, "a tag key (1 to 128 letters, digits or _.:/=+@- , not `aws:`)")
]
TagValue = Annotated[
    str, _matching(_TAG_VALUE, "a tag value (at most 256 letters, digits or _.:/=+@- )")
]
Usd = Annotated[float, Field(strict=True, gt=0, le=10_000, allow_inf_nan=False)]


def _no_switch(value: object) -> object:
    if isinstance(value, bool):
        msg = f"got {value} (a switch); it must be a number"
        raise ValueError(msg)
    return value


NoSwitch = BeforeValidator(_no_switch)
"""Python takes true for 1, also among the members of a Literal."""

LogRetention = Annotated[
    Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827],
    NoSwitch,
]
"""Days that CloudWatch Logs accepts (aws_logs.RetentionDays), up to five years."""


class Block(BaseModel):
    """Base of every block: unknown fields are errors and nothing changes after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


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
            str, _matching(_NODE_RELEASE, "a release of EKS's node image such as 1.35.2-20261120")
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
        str, _matching(_CHART_REPOSITORY, "the https address of a Helm repository")
    ] = Field(
        default="https://kyverno.github.io/kyverno/",
        description="Helm repository, as the function that applies manifests reaches it.",
    )
    image_registry: Annotated[str, _matching(_REGISTRY, "a registry without a scheme")] | None = (
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

    name: Annotated[str, _matching(_EKS_NAME, "the name of an EKS cluster")] = Field(
        examples=["platform"], description="Its name."
    )
    security_group_id: Annotated[
        str, _matching(_GROUP_ID, "the id of a security group (sg-...)")
    ] = Field(
        examples=["sg-0123456789abcdef0"],
        description="The cluster security group that EKS made (clusterSecurityGroupId).",
    )
    addons: tuple[
        Annotated[
            str, _matching(_ADDON, "the name of an EKS add-on (letters, digits, hyphens and _)")
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
            _matching(
                _AMP_WORKSPACE, "the ARN of a Managed Prometheus workspace (arn:aws:aps:...)"
            ),
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
        description="An EKS cluster that is there already; `version` says what it runs.",
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


class SubnetConfig(Block):
    """A subnet that is there already."""

    id: Annotated[str, _matching(_SUBNET, "the id of a subnet (subnet-...)")] = Field(
        examples=["subnet-0123456789abcdef0"], description="Its id."
    )
    cidr: Cidr = Field(examples=["10.1.0.0/19"], description="Its addresses.")


class ExistingVpcConfig(Block):
    """A VPC of yours. Its routes, endpoints and flow logs stay yours."""

    vpc_id: Annotated[str, _matching(_VPC, "the id of a VPC (vpc-...)")] = Field(
        examples=["vpc-0123456789abcdef0"], description="Its id."
    )
    private_subnets: tuple[SubnetConfig, ...] = Field(
        min_length=2,
        max_length=4,
        description="Subnets of nodes and pods, one for each zone, in the order of `zones`.",
    )
    collector_subnets: tuple[SubnetConfig, ...] = Field(
        default=(),
        max_length=4,
        description="Subnets of the metrics collector, likewise. Without them it gets the private "
        "ones, and then every address in these may read the pods' metrics.",
    )
    further_cidrs: tuple[Annotated[str, AfterValidator(_further_cidr)], ...] = Field(
        default=(),
        max_length=_MOST_RANGES - 1,
        description="All other ranges of the VPC, beside `vpc_cidr`: /16 to /28 each, also those "
        "that hold none of these subnets.",
    )


class NetworkConfig(Block):
    """The VPC."""

    existing: ExistingVpcConfig | None = Field(
        default=None,
        description="A VPC that is there already. `vpc_cidr` then is its range; if it has several, "
        "one of them.",
    )

    vpc_cidr: Annotated[str, AfterValidator(_vpc_cidr)] = Field(
        default="10.0.0.0/16",
        description="Address space of the VPC, /16 to /20. Cannot be changed during the life of a "
        "deployment.",
    )
    nat: Literal["one", "per_zone", "none"] = Field(
        default="one",
        description="Ways out to the internet: one NAT gateway in all, one in each zone, or none. "
        "With none, images come from ECR of the same region and weights from S3 or a claim.",
    )
    flow_log_retention_days: LogRetention = Field(
        default=30, description="Days that flow logs are kept."
    )

    @property
    def cidrs(self) -> tuple[str, ...]:
        """Every range of the VPC, ``vpc_cidr`` first."""
        return (self.vpc_cidr, *(self.existing.further_cidrs if self.existing else ()))


class TaintConfig(Block):
    """A taint on the nodes of a group; Kascade's own pods tolerate it."""

    key: LabelKey = Field(examples=["team"], description="Taint key.")
    value: LabelValue = Field(default="", description="Empty means a taint without value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="NoSchedule", description="What happens to pods that do not tolerate it."
    )


class OnDemandCapacity(Block):
    """Instances at the on-demand price, as long as there are any."""

    kind: Literal["on_demand"] = "on_demand"


class SpotCapacity(Block):
    """Spare instances, cheaper, which go with two minutes' notice when AWS wants them back."""

    kind: Literal["spot"] = "spot"


class TrainingPlanCapacity(Block):
    """Instances that a training plan reserved."""

    kind: Literal["training_plan"] = "training_plan"
    arn: Annotated[str, _matching(_TRAINING_PLAN, "the ARN of a SageMaker training plan")] = Field(
        examples=["arn:aws:sagemaker:us-west-2:111122223333:training-plan/example"],
        description="The training plan.",
    )


class InstanceGroupConfig(Block):
    """A HyperPod instance group: instances of one type, or of several that are alike."""

    name: Annotated[str, AfterValidator(_group_name)] = Field(
        examples=["gpu"],
        description="Name of the group, unique: at most 20 lower-case letters, digits and hyphens. "
        "With hyperpod.existing the group's own name, whatever it is.",
    )
    instance_type: str | None = Field(
        default=None,
        examples=["ml.g6e.4xlarge"],
        description="HyperPod instance type, such as ml.g6e.4xlarge. Give this or instance_types.",
    )
    instance_types: tuple[str, ...] = Field(
        default=(),
        max_length=20,
        description="Several types instead of one, the preferred first: HyperPod takes what it "
        "can get. They carry the same GPUs, and every engine is sized for the smallest.",
    )
    count: Whole = Field(examples=[2], ge=0, le=1000, description="Number of instances.")
    min_count: Whole | None = Field(
        default=None,
        ge=0,
        description="Instances without which HyperPod gives the group up after three hours. "
        "Without it the group may stay incomplete and keeps trying.",
    )
    capacity: Annotated[
        OnDemandCapacity | SpotCapacity | TrainingPlanCapacity, Field(discriminator="kind")
    ] = Field(default=OnDemandCapacity(), description="How the instances are bought.")
    zone: str | None = Field(
        default=None,
        description="Zone of all its instances, one of the deployment's. Without one, HyperPod "
        "chooses among the first two. Cannot be changed during the life of the group.",
    )
    efa: Literal["none", "efa", "efa-only"] = Field(
        default="none",
        description="Elastic Fabric Adapter as network interface; efa-only carries no IP traffic. "
        "Only for types that have one.",
    )
    threads_per_core: Annotated[Literal[1, 2], NoSwitch] = Field(
        default=2,
        description="1 switches the second thread of each core off, and halves the vCPUs.",
    )
    volume_gib: Whole = Field(
        default=200,
        ge=100,
        le=16384,
        description="Second encrypted volume of each instance, for container images and logs; the "
        "root volume has no size setting.",
    )
    volume_kms_key_arn: KeyArn | None = Field(
        default=None,
        description="Your own key for that volume. Without it AWS's. Cannot be "
        "changed during the life of the group.",
    )
    root_volume_kms_key_arn: KeyArn | None = Field(
        default=None,
        description="Your own key for the root volume. Without it AWS's. Cannot "
        "be changed during the life of the group.",
    )
    labels: dict[LabelKey, GroupLabelValue] = Field(
        default={}, max_length=40, description="Extra node labels."
    )
    taints: tuple[TaintConfig, ...] = Field(
        default=(), max_length=40, description="Extra node taints."
    )
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = Field(
        default=(),
        description="Checks that HyperPod runs before an instance joins; they take up to two "
        "hours. Empty skips them.",
    )
    usd_per_hour: Usd | None = Field(
        default=None,
        description="What you pay for one instance. Without it the plan uses EC2's on-demand "
        "price, of several types the dearest, and says so.",
    )

    @property
    def types(self) -> tuple[str, ...]:
        """Every type its instances may have, the preferred first."""
        return self.instance_types if self.instance_type is None else (self.instance_type,)

    @property
    def types_field(self) -> str:
        """Name of the field that says so."""
        return "instance_types" if self.instance_types else "instance_type"


class SoftwareUpdatesConfig(Block):
    """When and how HyperPod renews the system software of its nodes: some at a time."""

    schedule: Annotated[str, _matching(SCHEDULE, SCHEDULE_WORDS)] = Field(
        default="cron(0 3 ? * SUN *)",
        description="When, in UTC: minute, hour, day of month, month, day of week, year.",
    )
    batch_count: Whole | None = Field(
        default=None,
        ge=1,
        le=6758,
        description="Nodes of a group that are away at once. Without it and batch_percentage: 1.",
    )
    batch_percentage: Whole | None = Field(
        default=None, ge=1, le=100, description="The same as a share of the group, in percent."
    )
    wait_seconds: Whole = Field(default=0, ge=0, le=3600, description="Pause between two batches.")
    rollback_alarms: tuple[
        Annotated[str, _matching(_ALARM, "the name of a CloudWatch alarm, which is not its ARN")],
        ...,
    ] = Field(
        default=(),
        max_length=10,
        description="CloudWatch alarms of yours, by name; one that goes off rolls the update back.",
    )


class ExistingHyperPodConfig(Block):
    """A HyperPod cluster of yours; `instance_groups` then say what it has."""

    cluster_arn: Annotated[
        str, _matching(_HYPERPOD_ARN, "the ARN of a HyperPod cluster (arn:aws:sagemaker:...)")
    ] = Field(
        examples=["arn:aws:sagemaker:us-west-2:111122223333:cluster/0a1b2c3d4e5f"],
        description="Its ARN.",
    )


class HyperPodConfig(Block):
    """HyperPod settings that all groups share."""

    existing: ExistingHyperPodConfig | None = Field(
        default=None,
        description="A HyperPod cluster that is there already, with AWS's dependencies and device "
        "plugins; only what serves is deployed.",
    )

    node_recovery: Literal["Automatic", "None"] = Field(
        default="Automatic",
        description="Whether HyperPod replaces instances that fail health checks.",
    )
    nvme_mount: Annotated[
        str,
        _matching(
            _HOST_PATH, "an absolute path such as /opt/dlami/nvme, without a slash at its end"
        ),
    ] = Field(
        default="/opt/dlami/nvme",
        description="Where the instance's NVMe is mounted. Sources disagree between this and "
        "/opt/sagemaker; where it is another, the cache's workers do not start, and the log of the "
        "lifecycle script names the place.",
    )
    tiered_storage_percentage: Whole | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Share of host RAM lent to HyperPod's managed tiered storage, 20 to 100. "
        "Without it that tier is off and the RAM goes to L1.",
    )
    security_group_ids: tuple[
        Annotated[str, _matching(_GROUP_ID, "the id of a security group (sg-...)")], ...
    ] = Field(
        default=(),
        max_length=4,
        description="Security groups of yours that the nodes get beside the deployment's own. "
        "Cannot be changed during the life of a deployment.",
    )
    software_updates: SoftwareUpdatesConfig | None = Field(
        default=None,
        description="Scheduled updates of the nodes' system software. Without it the nodes keep "
        "what they were made with.",
    )
    autoscaling: Literal["karpenter"] | None = Field(
        default=None,
        description="karpenter lets HyperPod add an instance when a pod waits for one and take it "
        "away when it is empty; each group begins at 0 and `count` is its most. Without it every "
        "group has `count` instances.",
    )


class OperatorConfig(Block):
    """What HyperPod's inference operator makes of a model in mode `operator`."""

    endpoint_name: (
        Annotated[
            str,
            _matching(
                _ENDPOINT, "an endpoint's name (at most 63 letters, digits and inner hyphens)"
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="SageMaker endpoint to register. Without it only the load balancer is made.",
    )
    invocation_path: Literal["v1/chat/completions", "v1/completions"] = Field(
        default="v1/chat/completions",
        description="Path that the endpoint and the load balancer invoke.",
    )
    certificate_arn: (
        Annotated[str, _matching(_CERTIFICATE, "the ARN of an ACM certificate")] | None
    ) = Field(
        default=None,
        description="Certificate of your own for the load balancer. Without it the operator makes "
        "a self-signed one.",
    )
    certificate_domain: (
        Annotated[str, _matching(re.compile(_SUBDOMAIN), "a domain in lower case, no wildcard")]
        | None
    ) = Field(default=None, description="Domain of that certificate.")
    certificate_output: Annotated[str, _matching(_S3_URI, "an S3 address (s3://...)")] | None = (
        Field(
            default=None,
            description="Where the operator leaves the certificate it makes. Without it: the "
            "bucket that its add-on was given.",
        )
    )


class HubWeights(Block):
    """Weights that each pod downloads from Hugging Face onto a volume of its own."""

    kind: Literal["hub"] = "hub"


class S3Weights(Block):
    """Weights in a bucket of yours, mounted read-only by Mountpoint for S3."""

    kind: Literal["s3"] = "s3"
    bucket: BucketName = Field(
        examples=["example-models"],
        description="General purpose bucket in the deployment's region.",
    )
    prefix: Folders = Field(
        examples=["qwen2-7b/f2826a0"],
        description="Folder with the model's files (config.json, tokenizer, *.safetensors). Name "
        "the revision in it and never change what lies there: it is part of the cache's directory.",
    )
    kms_key_arn: KeyArn | None = Field(
        default=None, description="Your own key, where the bucket is encrypted with one."
    )


class ClaimWeights(Block):
    """Weights on a volume of yours, mounted read-only from a claim in the serving namespace."""

    kind: Literal["claim"] = "claim"
    name: ClaimName = Field(
        examples=["models"],
        description="PersistentVolumeClaim that every replica can mount at once. You make it.",
    )
    path: Folders | None = Field(
        default=None,
        description="Folder in it with the model's files. Name the revision in it and never change "
        "what lies there: it is part of the cache's directory. Without it the volume's root.",
    )


TenantName = Annotated[str, _short_name(_MAX_NAME)]
_TENANTS = Field(
    examples=[["alice", "bob"]],
    min_length=1,
    max_length=20,
    description="Short names, unique. They stand in file names, metrics and labels, so a name is "
    "no secret.",
)


class SharedTenancyConfig(Block):
    """Everybody shares the model and its cache."""

    kind: Literal["shared"] = "shared"


class SaltedTenancyConfig(Block):
    """Tenants share the engines and no cached block; each has a door of its own."""

    kind: Literal["salted"] = "salted"
    tenants: tuple[TenantName, ...] = _TENANTS


class IsolatedTenancyConfig(Block):
    """Each tenant has engines, cache, key and router of its own; `replicas` counts for each."""

    kind: Literal["isolated"] = "isolated"
    tenants: tuple[TenantName, ...] = _TENANTS


class ModelConfig(Block):
    """One model and its replicas."""

    name: Annotated[str, _short_name(MAX_MODEL_NAME)] = Field(
        examples=["qwen2-7b"],
        description="Short name, unique; names the Deployment, Service and router.",
    )
    model: Annotated[
        str, _matching(_MODEL_ID, "a Hugging Face id such as Qwen/Qwen2-7B-Instruct")
    ] = Field(
        examples=["Qwen/Qwen2-7B-Instruct"],
        description="Hugging Face id. It is part of every cache key.",
    )
    weights: Annotated[HubWeights | S3Weights | ClaimWeights, Field(discriminator="kind")] = Field(
        default=HubWeights(), description="Where the weights come from."
    )
    config_json: str | None = Field(
        default=None,
        description="Path, relative to this file, of the model's Hugging Face config.json. Needed "
        "only for a model that the catalog does not know.",
    )
    revision: Annotated[str, _matching(_REVISION, "40 lower-case hex digits")] | None = Field(
        default=None,
        description="Hugging Face commit of the weights. Without it: the catalog's, where it knows "
        "one, else whatever `main` is when a pod starts.",
    )
    replicas: Whole = Field(
        examples=[2], ge=1, le=1000, description="Engines that serve this model."
    )
    mode: Literal["deployment", "operator"] = Field(
        default="deployment",
        description="Who makes the pods. deployment: this project. operator: HyperPod's inference "
        "operator, from an InferenceEndpointConfig, with a router and a load balancer of its own; "
        "the cache is put into its pods at admission.",
    )
    operator: OperatorConfig = Field(
        default=OperatorConfig(), description="Settings of mode `operator`."
    )
    instance_group: str | None = Field(
        default=None,
        description="Group whose instances run it. May be left out when there is only one.",
    )
    tensor_parallel: Whole = Field(
        default=1, ge=1, le=8, description="GPUs that share one replica."
    )
    max_model_len: Whole | None = Field(
        default=None,
        ge=256,
        description="Longest prompt plus answer, in tokens. Without it: the model's limit, or what "
        "L0 holds if that is less.",
    )
    kv_cache_dtype: Literal["auto", "fp8"] = Field(
        default="auto",
        description="auto keeps the model's dtype; fp8 halves every tier's bytes per token.",
    )
    quantization: Literal["fp8"] | None = Field(
        default=None, description="fp8 quantizes 16-bit weights while loading."
    )
    gpu_memory_utilization: (
        Annotated[float, Field(strict=True, gt=0.1, lt=1.0, allow_inf_nan=False)] | None
    ) = Field(
        default=None,
        description="Share of GPU memory that vLLM may use. Without it: 0.92, less where the "
        "LMCache server's own GPU context needs more room.",
    )
    max_num_seqs: Whole | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Requests in one batch at most. Without it: vLLM's own default for the GPU, "
        "256 below 70 GiB and on an A100, 1024 above.",
    )
    max_batched_tokens: Whole | None = Field(
        default=None,
        ge=256,
        le=131072,
        description="Tokens in one forward pass at most; while one of that size runs, nothing "
        "decodes. Without it: vLLM's own default for the GPU, 2048 below 70 GiB and on an A100, "
        "8192 above.",
    )
    huggingface_token_secret: SecretName | None = Field(
        default=None,
        description="Secret in the serving namespace whose key `token` holds a Hugging Face token. "
        "You make it; gated models need it.",
    )
    tenancy: Annotated[
        SharedTenancyConfig | SaltedTenancyConfig | IsolatedTenancyConfig,
        Field(discriminator="kind"),
    ] = Field(
        default=SharedTenancyConfig(),
        description="Who shares what: shared keeps nobody apart. docs/tenancy.md says what each "
        "kind separates and what it leaves open.",
    )

    @property
    def tenants(self) -> tuple[str, ...]:
        """Names of the tenants that are kept apart; none where all is shared."""
        return () if self.tenancy.kind == "shared" else self.tenancy.tenants

    @property
    def engine_names(self) -> tuple[str, ...]:
        """Names of the engines that serve it: one, or one for each isolated tenant."""
        if self.tenancy.kind != "isolated":
            return (self.name,)
        return tuple(f"{self.name}-{tenant}" for tenant in self.tenants)


class L1Config(Block):
    """L1: host RAM beside each engine."""

    capacity_gib: Whole | None = Field(
        default=None,
        ge=1,
        description="L1 of one replica. Without it: all the RAM that nothing else needs.",
    )


Integrity = Literal["aesgcm", "none"]

_INTEGRITY = (
    "aesgcm encrypts and authenticates every block, so that a damaged file becomes "
    "a recompute; with none it was measured to become a wrong answer."
)


class JanitorConfig(Block):
    """What keeps each shared directory of L2 below a mark, and clears what dead pods left."""

    enabled: Switch = Field(
        default=True,
        description="False leaves it out. Then nothing but age bounds what restarted replicas "
        "leave behind, empty and short files stay hits that nobody can load, and on Curvine an "
        "engine that stores nothing for ttl_hours never stores again.",
    )
    high_water: Share = Field(
        default=0.95,
        description="Share of what the replicas of a model may write together. Above it the oldest "
        "files are deleted.",
    )
    low_water: Share = Field(default=0.85, description="Share at which it stops deleting.")
    fresh_seconds: Whole = Field(
        default=600,
        ge=60,
        le=86400,
        description="Files and directories younger than this are never deleted.",
    )
    interval_seconds: Whole = Field(
        default=60, ge=10, le=3600, description="Pause between two rounds."
    )


class CurvineConfig(Block):
    """L2 on Curvine: the NVMe of all nodes as one directory."""

    kind: Literal["curvine"] = "curvine"
    capacity_gib_per_node: Whole | None = Field(
        default=None,
        ge=10,
        description="What each node gives to the pool. Without it: 65 % of its NVMe.",
    )
    reserved_gib_per_node: Whole = Field(
        default=50, ge=10, le=1000, description="Part of that which Curvine never fills."
    )
    masters: Annotated[Literal[1, 3], NoSwitch] = Field(
        default=1,
        description="Metadata servers. Cannot be changed during the life of a deployment.",
    )
    ttl_hours: Whole = Field(
        default=24,
        ge=1,
        le=8760,
        description="Age at which Curvine deletes a cached block, used or not. With the janitor "
        "off it alone bounds the files that restarted replicas leave behind, and the pool must "
        "hold this many hours of new blocks.",
    )
    integrity: Integrity = Field(default="aesgcm", description=_INTEGRITY)
    janitor: JanitorConfig = Field(
        default=JanitorConfig(), description="What bounds each model's directory."
    )


class ManagedConfig(Block):
    """L2 in HyperPod's managed tiered storage: a share of every node's RAM, which AWS runs."""

    kind: Literal["managed"] = "managed"
    integrity: Integrity = Field(default="aesgcm", description=_INTEGRITY)


class DirectoryConfig(Block):
    """L2 in a directory of a file system that you bring, such as FSx for Lustre or EFS."""

    kind: Literal["directory"] = "directory"
    claim: ClaimName = Field(
        examples=["kv-cache"],
        description="Claim with access mode ReadWriteMany in the serving namespace. You make it.",
    )
    capacity_gib: Whole = Field(
        examples=[1200],
        ge=10,
        le=10_000_000,
        description="What the engines of all models together may fill.",
    )
    path: Annotated[str, _matching(_INNER_PATH, "a path inside the claim, such as kascade/kv")] = (
        Field(
            default="kascade",
            description="Directory inside the claim below which each model gets its own.",
        )
    )
    file_system: Literal["nfs4", "lustre"] | None = Field(
        default=None,
        description="What must be mounted. Without it: anything but a disk of the node itself.",
    )
    read_mib_per_second: Whole | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="What the file system delivers to one node. Without it the plan counts with "
        "the network alone.",
    )
    integrity: Integrity = Field(default="aesgcm", description=_INTEGRITY)
    janitor: JanitorConfig = Field(
        default=JanitorConfig(), description="What bounds each model's directory."
    )


class NoL2Config(Block):
    """No L2: what one replica computed, no other can read."""

    kind: Literal["none"] = "none"


L2Config = CurvineConfig | ManagedConfig | DirectoryConfig | NoL2Config
"""The either/or of L2."""


class CacheConfig(Block):
    """The KV cache below the GPU."""

    chunk_size: Whole = Field(
        default=256,
        ge=16,
        le=8192,
        description="Tokens of one cached chunk, the unit of L1 and L2.",
    )
    block_size: Annotated[Literal[16, 32, 64, 128], NoSwitch] = Field(
        default=16, description="Tokens of one vLLM block; the chunk must be a multiple of it."
    )
    l1: L1Config = Field(default=L1Config(), description="Host RAM beside each engine.")
    l2: Annotated[L2Config, Field(discriminator="kind")] = Field(
        default=CurvineConfig(), description="The tier that all replicas share."
    )


class RouterConfig(Block):
    """What sends each request to a replica."""

    strategy: Literal["prefixaware", "kvaware", "session", "roundrobin"] = Field(
        default="prefixaware",
        description="prefixaware: the replica that likely holds the prefix, balanced by load. "
        "session: one replica per session id. roundrobin: in turn.",
    )
    request_timeout_seconds: Whole = Field(
        default=600,
        ge=10,
        le=3600,
        description="Longest that a streaming client waits for its first token, and from one token "
        "to the next; a stream that is silent for longer ends with an error. An answer that does "
        "not stream has longest_request_seconds alone.",
    )
    longest_request_seconds: Whole | None = Field(
        default=None,
        ge=10,
        le=86_400,
        description="Longest that a request may take as a whole, however its tokens flow; engines "
        "and routers that end let what they took go on for as long. Without it: that wait and the "
        "longest answer that max_model_len allows.",
    )
    max_payload_mib: Whole = Field(default=16, ge=1, le=512, description="Largest request body.")


class GrafanaConfig(Block):
    """The Managed Grafana workspace."""

    auth: Literal["sso", "saml"] = Field(
        default="sso",
        description="How people sign in. sso needs IAM Identity Center enabled in the account; "
        "saml lets the identity provider be connected later.",
    )
    access: Literal["private", "public"] = Field(
        default="private",
        description="public puts the sign-in page on the internet; private admits only the VPC.",
    )
    version: Annotated[str, _matching(_GRAFANA_VERSION, "a version such as 12.4")] | None = Field(
        default=None, description="Grafana version, in quotes. Without it AWS's current one."
    )


class ObservabilityConfig(Block):
    """Managed Prometheus and Managed Grafana."""

    enabled: Switch = Field(default=True, description="False leaves the whole stack out.")
    retention_days: Whole = Field(
        default=150, ge=1, le=1095, description="Days that metrics are kept."
    )
    scrape_interval_seconds: Whole = Field(
        default=30, ge=30, le=300, description="The managed collector takes no less than 30."
    )
    grafana: GrafanaConfig = Field(
        default=GrafanaConfig(), description="The dashboards' workspace."
    )


class ImagesConfig(Block):
    """Images to use instead of the catalog's, for instance from your own registry, by digest."""

    engine: ImageReference | None = Field(default=None, description="vLLM and LMCache.")
    router: ImageReference | None = Field(default=None, description="vllm-router.")
    curvine: ImageReference | None = Field(default=None, description="Curvine master and worker.")
    curvine_csi: ImageReference | None = Field(default=None, description="Curvine CSI driver.")
    csi_provisioner: ImageReference | None = Field(default=None, description="CSI sidecar.")
    csi_registrar: ImageReference | None = Field(default=None, description="CSI sidecar.")
    door: ImageReference | None = Field(
        default=None, description="nginx, for the doors of salted tenants."
    )
    jobs: ImageReference | None = Field(
        default=None, description="Python, for the Job that makes the cache key."
    )
    nvidia_device_plugin: ImageReference | None = Field(
        default=None, description="NVIDIA's device plugin."
    )
    efa_device_plugin: ImageReference | None = Field(
        default=None, description="EFA's device plugin."
    )
    health_agent: ImageReference | None = Field(
        default=None, description="HyperPod's health monitoring agent; its registry is regional."
    )


class ServingConfig(Block):
    """A whole deployment file."""

    name: Annotated[str, _short_name(_MAX_NAME)] = Field(
        examples=["kascade"],
        description="Name of the deployment; every stack and cluster name begins with it.",
    )
    region: str = Field(examples=["us-west-2"], description="AWS region.")
    zones: tuple[str, ...] = Field(
        examples=[["us-west-2a", "us-west-2b"]],
        min_length=2,
        max_length=4,
        description="Availability zones, at least two (EKS needs them). EKS, the system nodes and "
        "groups without a zone live in the first two. More may be added at the end, for groups "
        "that name them; none can be moved or removed during the life of a deployment.",
    )
    zone_offerings: str | None = Field(
        default=None,
        description="Path, relative to this file, of the account's own list of the zones that "
        "offer each instance type, as `aws ec2 describe-instance-type-offerings` writes it; "
        "docs/groups.md has the command. Without it nothing compares zones with types.",
    )
    account: Annotated[str, _matching(re.compile(r"[0-9]{12}"), "12 digits")] | None = Field(
        default=None,
        description="AWS account, in quotes. Without it the templates fit any account.",
    )
    tags: dict[TagKey, TagValue] = Field(
        default={}, max_length=40, description="Tags on every AWS resource."
    )
    instance_groups: tuple[InstanceGroupConfig, ...] = Field(
        min_length=1, max_length=20, description="HyperPod instance groups."
    )
    models: tuple[ModelConfig, ...] = Field(
        min_length=1, max_length=20, description="What is served."
    )
    hyperpod: HyperPodConfig = Field(
        default=HyperPodConfig(), description="Settings of all groups."
    )
    kubernetes: KubernetesConfig = Field(default=KubernetesConfig(), description="The EKS cluster.")
    network: NetworkConfig = Field(default=NetworkConfig(), description="The VPC.")
    cache: CacheConfig = Field(default=CacheConfig(), description="The KV cache below the GPU.")
    router: RouterConfig = Field(default=RouterConfig(), description="What picks the replica.")
    observability: ObservabilityConfig = Field(
        default=ObservabilityConfig(), description="Metrics and dashboards."
    )
    images: ImagesConfig = Field(
        default=ImagesConfig(), description="Images instead of the catalog's pinned ones."
    )
    on_delete: Literal["retain", "destroy"] = Field(
        default="retain",
        description="What becomes of log groups and buckets when their stacks are deleted. destroy "
        "also takes the context flag kascade:allow-destroy; see docs/deletion.md.",
    )
