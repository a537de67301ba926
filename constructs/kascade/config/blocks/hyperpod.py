"""The HyperPod cluster and its instance groups."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kascade.catalog.hyperpod import (
    GROUP_NAME,
    MAX_ALARMS,
    MAX_INSTANCES,
    MAX_PERCENTAGE,
    MAX_TYPES,
    MAX_VOLUME_GIB,
    MAX_WAIT_SECONDS,
)
from kascade.catalog.kubernetes import SUBDOMAIN
from kascade.catalog.node_paths import OWN_MOUNT
from kascade.catalog.schedules import SCHEDULE, SCHEDULE_WORDS
from kascade.config.blocks.values import (
    GROUP_ID,
    PATH_STEP,
    Block,
    GroupLabelValue,
    KeyArn,
    LabelKey,
    LabelValue,
    NoSwitch,
    Usd,
    Whole,
    WrongValueError,
    matching,
    name_error,
)

_HOST_PATH = re.compile(rf"(?={OWN_MOUNT.pattern}$)(/{PATH_STEP}){{1,6}}")

_ENDPOINT = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")

_S3_URI = re.compile(
    r"(?!.*\.\.)s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w.=+/-]{0,400})?", re.ASCII
)

_CERTIFICATE = re.compile(r"arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+")

_HYPERPOD_ARN = re.compile(r"arn:aws:sagemaker:[a-z0-9-]+:[0-9]{12}:cluster/[a-z0-9]{12}")

_TRAINING_PLAN = re.compile(
    r"arn:aws:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]{1,63}"
)

_ALARM = re.compile(r"(?!\s|arn:).{1,255}(?<!\s)")


def group_name(value: str) -> str:
    """Whatever HyperPod takes; only an existing group may have more than a short name."""
    if not GROUP_NAME.fullmatch(value):
        msg = f"{name_error(value)}; HyperPod itself takes 63 letters, digits and inner hyphens"
        raise WrongValueError("not-a-group-name", msg)
    return value


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
    arn: Annotated[str, matching(_TRAINING_PLAN, "the ARN of a SageMaker training plan")] = Field(
        examples=["arn:aws:sagemaker:us-west-2:111122223333:training-plan/example"],
        description="The training plan.",
    )


class InstanceGroupConfig(Block):
    """A HyperPod instance group: instances of one type, or of several that are alike."""

    name: Annotated[str, AfterValidator(group_name)] = Field(
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
        max_length=MAX_TYPES,
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
        le=MAX_VOLUME_GIB,
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

    schedule: Annotated[str, matching(SCHEDULE, SCHEDULE_WORDS)] = Field(
        default="cron(0 3 ? * SUN *)",
        description="When, in UTC: minute, hour, day of month, month, day of week, year.",
    )
    batch_count: Whole | None = Field(
        default=None,
        ge=1,
        le=MAX_INSTANCES,
        description="Nodes of a group that are away at once. Without it and batch_percentage: 1.",
    )
    batch_percentage: Whole | None = Field(
        default=None,
        ge=1,
        le=MAX_PERCENTAGE,
        description="The same as a share of the group, in percent.",
    )
    wait_seconds: Whole = Field(
        default=0, ge=0, le=MAX_WAIT_SECONDS, description="Pause between two batches."
    )
    rollback_alarms: tuple[
        Annotated[str, matching(_ALARM, "the name of a CloudWatch alarm, which is not its ARN")],
        ...,
    ] = Field(
        default=(),
        max_length=MAX_ALARMS,
        description="CloudWatch alarms of yours, by name; one that goes off rolls the update back.",
    )


class ExistingHyperPodConfig(Block):
    """A HyperPod cluster of yours; `instance_groups` then say what it has."""

    cluster_arn: Annotated[
        str, matching(_HYPERPOD_ARN, "the ARN of a HyperPod cluster (arn:aws:sagemaker:...)")
    ] = Field(
        examples=["arn:aws:sagemaker:us-west-2:111122223333:cluster/0a1b2c3d4e5f"],
        description="Its ARN.",
    )


class HyperPodConfig(Block):
    """HyperPod settings that all groups share."""

    existing: ExistingHyperPodConfig | None = Field(
        default=None,
        description="An existing HyperPod cluster, with AWS's dependencies and device "
        "plugins; only what serves is deployed.",
    )

    node_recovery: Literal["Automatic", "None"] = Field(
        default="Automatic",
        description="Whether HyperPod replaces instances that fail health checks.",
    )
    nvme_mount: Annotated[
        str,
        matching(
            _HOST_PATH,
            "an absolute path such as /opt/dlami/nvme, without a slash at its end, that is none of "
            "the operating system's own",
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
        Annotated[str, matching(GROUP_ID, "the id of a security group (sg-...)")], ...
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
            matching(
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
        Annotated[str, matching(_CERTIFICATE, "the ARN of an ACM certificate")] | None
    ) = Field(
        default=None,
        description="Certificate of your own for the load balancer. Without it the operator makes "
        "a self-signed one.",
    )
    certificate_domain: (
        Annotated[str, matching(re.compile(SUBDOMAIN), "a domain in lower case, no wildcard")]
        | None
    ) = Field(default=None, description="Domain of that certificate.")
    certificate_output: Annotated[str, matching(_S3_URI, "an S3 address (s3://...)")] | None = (
        Field(
            default=None,
            description="Where the operator leaves the certificate it makes. Without it: the "
            "bucket that its add-on was given.",
        )
    )
