"""The script that prepares each HyperPod node, and the bucket that HyperPod fetches it from."""

import hashlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import custom_resources as cr
from constructs import Construct

from kascade.aws._logs import log_group, log_writing, streams_of
from kascade.aws._nag import accept, accept_wildcards
from kascade.catalog.node_paths import OWN_MOUNT
from kascade.errors import KascadeError
from kascade.plan import ClusterPlan, InstanceGroupPlan

_MAX_BUCKET_NAME: Final = 63
_NAME_IN_BUCKET: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
SCRIPT: Final = Path(__file__).parent / "on_create.sh"

_WRITING: Final = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject*",
    "s3:PutObject*",
    "s3:Replicate*",
    "s3:RestoreObject",
)
"""All that changes what an object is, its tags and its locks included."""

_KEPT_DAYS: Final = 7

_MOUNT: Final = re.compile(rf"(?={OWN_MOUNT.pattern}$)(/[^/\x00-\x1f]+)+")
_SETTINGS: Final = re.compile(r"# >>> settings\n.*?# <<< settings\n", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNodes:
    """What the script is told of nodes that no plan describes: they have no cache."""

    groups: tuple[InstanceGroupPlan, ...] = ()
    nvme_mount: str = "/opt/dlami/nvme"
    cache_host_path: str = ""
    log_retention_days: int = 90


def render_script(plan: ClusterPlan | PlainNodes) -> str:
    """Write the plan's settings into the script.

    Raises:
        KascadeError: The mount is no place on a node.
    """
    if not _MOUNT.fullmatch(plan.nvme_mount):
        msg = (
            f"nvme_mount is {plan.nvme_mount!r}; give an absolute path such as /opt/dlami/nvme, "
            "without a slash at its end, that is none of the operating system's own"
        )
        raise KascadeError(msg)
    wants_cache = any(group.cache_worker for group in plan.groups)
    settings = {
        "NVME_MOUNT": plan.nvme_mount,
        "CACHE_DIR": plan.cache_host_path if wants_cache else "",  # empty: look for none
    }
    lines = [f"{name}=${{{name}-{shlex.quote(value)}}}\n" for name, value in settings.items()]
    return _SETTINGS.sub(lambda _: "".join(lines), SCRIPT.read_text(encoding="utf-8"))


def room_in_bucket_name(region: str) -> int:
    """Characters that a deployment's name may have in the lifecycle bucket's.

    >>> room_in_bucket_name("us-west-2"), room_in_bucket_name("ap-southeast-1")
    (21, 16)
    """
    return _MAX_BUCKET_NAME - len(f"sagemaker--lifecycle-{'1' * 12}-{region}")


def _bucket_name(deployment: str, stack: cdk.Stack) -> str:
    if cdk.Token.is_unresolved(deployment) or not _NAME_IN_BUCKET.fullmatch(deployment):
        msg = (
            f"deployment is {deployment!r}, which stands in a bucket's name; give lower-case "
            "letters, digits and inner hyphens, known at synth"
        )
        raise KascadeError(msg)
    rest = f"{stack.account}-{stack.region}"
    if not cdk.Token.is_unresolved(stack.region):
        room = room_in_bucket_name(stack.region)
        if len(deployment) > room:
            msg = (
                f"The deployment's name {deployment} has {len(deployment)} characters; in "
                f"{stack.region} it may have {room}, since the lifecycle bucket's name holds it "
                f"beside account and region. Choose a shorter name."
            )
            raise KascadeError(msg)
    return f"sagemaker-{deployment}-lifecycle-{rest}"


class LifecycleScript(Construct):
    """A private bucket and the script in it.

    The script's text stands in the template, so that a reviewer of ``cdk diff`` sees what will
    run as root; one SDK call puts it into the bucket, where a deployment construct would bring
    a larger function and two layers. Its name carries a hash of the text. A changed script
    therefore changes ``OnCreate`` of every instance group, an update in place: nodes made from
    then on run the new script, nodes that exist are left alone, and a rollback finds the old
    script still there, since CloudFormation deletes it last.

    The bucket's name begins with ``sagemaker-`` because HyperPod's managed instance policy
    reaches no other, and other policies of AWS for SageMaker let their roles write to every such
    bucket (AmazonSageMakerFeatureStoreAccess, AmazonSageMakerFullAccess). What lies here runs as
    root on GPU nodes, so the bucket's own policy rejects writing and deleting to all but the role
    that uploads. Who may change that policy is not restricted: that is CloudFormation's role, whose
    name nobody knows here, and no such managed policy grants it.

    Objects have versions. The upload is known by its own, and is deleted by it, since the bucket
    must be empty to go with its stack; what is left otherwise, such as by a call that was made
    twice, S3 removes after a week. The bucket uses S3's own encryption, since the nodes' managed
    policy grants no KMS key.

    Attributes:
        bucket: The bucket.
        source_uri: For ``LifeCycleConfig.SourceS3Uri``.
        on_create: For ``LifeCycleConfig.OnCreate``.
        upload: The script in its place; nodes must not be made before it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: str,
        plan: ClusterPlan | PlainNodes,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        text = render_script(plan)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=_bucket_name(deployment, stack),
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    noncurrent_version_expiration=cdk.Duration.days(_KEPT_DAYS),
                    expired_object_delete_marker=True,
                )
            ],
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.source_uri = f"s3://{self.bucket.bucket_name}"
        log = log_group(self, "UploadLog", retention_days=plan.log_retention_days)
        self._role = self._make_role(log.log_group_arn)
        self._keep_others_out()
        self.on_create = f"on_create-{hashlib.sha256(text.encode()).hexdigest()[:12]}.sh"
        self.upload = self._upload(text, log)
        accept(
            self.bucket,
            "AwsSolutions-S1",
            "One script that git holds and that one role can write; each version of it stays for "
            "days. CloudTrail records its reading and writing only where a trail of the account "
            "has data events of S3. An access log would need a second bucket.",
        )

    def _keep_others_out(self) -> None:
        self.bucket.add_to_resource_policy(
            iam.PolicyStatement(
                sid="OnlyTheUploadWrites",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=list(_WRITING),
                resources=[self.bucket.arn_for_objects("*")],
                # Who has no such key, a service of AWS, is another one, too.
                conditions={"ArnNotEquals": {"aws:PrincipalArn": self._role.role_arn}},
            )
        )

    def _upload(self, text: str, log: logs.ILogGroup) -> cr.AwsCustomResource:
        place = {"Bucket": self.bucket.bucket_name, "Key": self.on_create}
        put = cr.AwsSdkCall(
            service="S3",
            action="putObject",
            parameters={**place, "Body": text, "ContentType": "text/x-shellscript"},
            physical_resource_id=cr.PhysicalResourceId.from_response("VersionId"),
            output_paths=["ETag"],
        )
        delete = cr.AwsSdkCall(
            service="S3",
            action="deleteObject",
            parameters={**place, "VersionId": cr.PhysicalResourceIdReference()},
            # After an upload that failed there is another id, which is no version's.
            ignore_error_codes_matching="^(InvalidArgument|NoSuchVersion)$",
        )
        upload = cr.AwsCustomResource(
            self,
            "Upload",
            on_create=put,
            on_update=put,
            on_delete=delete,
            role=self._role,
            install_latest_aws_sdk=False,
            log_group=log,
            service_timeout=cdk.Duration.minutes(5),
        )
        upload.node.add_dependency(self.bucket)
        return upload

    def _make_role(self, log_group_arn: str) -> iam.Role:
        scripts = self.bucket.arn_for_objects("on_create-*.sh")
        role = iam.Role(
            self,
            "UploadRole",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Puts the lifecycle script into its bucket",
            inline_policies={
                "Upload": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"],
                            resources=[scripts],
                        ),
                        log_writing(log_group_arn),
                    ]
                )
            },
        )
        accept_wildcards(
            role,
            [scripts, streams_of(log_group_arn)],
            "The script of the next update has another hash in its name, and the one before it "
            "must be deleted; log streams are named by Lambda.",
        )
        return role
