"""What kinds of single settings there are, and the message for each that is not of its kind."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from kascade.catalog.kubernetes import LABEL_KEY, LABEL_VALUE, SUBDOMAIN

MAX_NAME = 20

MAX_MODEL_NAME = 32

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

_LABEL_VALUE = re.compile(rf"({LABEL_VALUE.pattern})?")

_SECRET = re.compile(SUBDOMAIN)

PATH_STEP = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}"

_TAG_KEY = re.compile(r"(?![aA][wW][sS]:)(?=.*\S)[\w .:/=+@-]{1,128}", re.ASCII)

_TAG_VALUE = re.compile(r"[\w .:/=+@-]{0,256}", re.ASCII)

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

_IP_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")

_OTHER_BUCKETS = ("--x-s3", "-s3alias", "--ol-s3", ".mrap", "--table-s3")

_FOLDERS = re.compile(r"(?!\.)[\w.=+-]{1,200}(/(?!\.)[\w.=+-]{1,200}){0,9}", re.ASCII)

_KEY_ARN = re.compile(r"arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,128}")

GROUP_ID = re.compile(r"sg-[0-9a-f]{8}([0-9a-f]{9})?")

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


class WrongValueError(ValueError):
    """A value that is not of its kind.

    Attributes:
        code: The error's stable name, as in :class:`kascade.errors.Problem`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def name_error(value: str, limit: int = MAX_NAME) -> str | None:
    """Say why a name is no short one, or None."""
    if _LABEL.fullmatch(value) and len(value) <= limit:
        return None
    return (
        f"{value!r} cannot name cloud resources; use lower-case letters, digits and inner "
        f"hyphens, beginning with a letter, at most {limit} characters"
    )


def short_name(limit: int) -> AfterValidator:
    """Let a name pass that may be part of the names of cloud resources, of so many characters."""

    def check(value: str) -> str:
        if (msg := name_error(value, limit)) is not None:
            raise WrongValueError("not-a-short-name", msg)
        return value

    return AfterValidator(check)


def matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    """Let a value pass that a pattern matches as a whole; `wanted` says what it has to be."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            msg = f"{value!r} is not {wanted}"
            raise WrongValueError("wrong-format", msg)
        return value

    return AfterValidator(check)


def checked_cidr(value: str) -> str:
    """One way of writing it, since what comes here goes on to AWS and Kubernetes as it is."""
    try:
        network = ipaddress.IPv4Network(value, strict=False)
    except ValueError as error:
        msg = f"{value!r} is not an IPv4 network such as 10.0.0.0/16 ({error})"
        raise WrongValueError("not-a-network", msg) from None
    if "/" not in value:
        msg = f"{value!r} has no prefix length; write {value}/24 or whatever it is ({network}: one)"
        raise WrongValueError("no-prefix-length", msg)
    if str(network) != value:
        msg = f"{value!r} is the network {network}; write it so"
        raise WrongValueError("host-bits", msg)
    return value


def _public_cidr(value: str) -> str:
    network = ipaddress.IPv4Network(checked_cidr(value))
    if any(network.subnet_of(ipaddress.IPv4Network(known)) for known in _NOT_INTERNET):
        msg = (
            f"{value!r} is not a range of the internet, and who stands in the VPC needs no entry; "
            "leave it out, or give the addresses that your network shows outside"
        )
        raise WrongValueError("not-of-the-internet", msg)
    return value


def _bucket(value: str) -> str:
    fits = _BUCKET.fullmatch(value) and ".." not in value and not _IP_ADDRESS.fullmatch(value)
    if not fits or value.startswith(("xn--", "sthree-")):
        msg = (
            f"{value!r} cannot be the name of a bucket; it is 3 to 63 lower-case letters, digits, "
            "dots and hyphens, without s3:// before it and without a folder behind it"
        )
        raise WrongValueError("bucket-name", msg)
    if value.endswith(_OTHER_BUCKETS):
        msg = (
            f"{value!r} names a directory bucket or an access point, which take other rights; give "
            "a general purpose bucket"
        )
        raise WrongValueError("bucket-kind", msg)
    return value


def _folders(value: str) -> str:
    if not _FOLDERS.fullmatch(value):
        msg = (
            f"{value!r} is no path of folders such as models/qwen2-7b/f2826a0: letters, digits and "
            "_.=+- between single slashes, none at the beginning or end, and no folder that begins "
            "with a dot"
        )
        raise WrongValueError("folders", msg)
    return value


Whole = Annotated[int, Field(strict=True)]

Switch = Annotated[bool, Field(strict=True)]

Cidr = Annotated[str, AfterValidator(checked_cidr)]

PublicCidr = Annotated[str, AfterValidator(_public_cidr)]

RoleArn = Annotated[
    str,
    matching(
        _ROLE_ARN,
        "the ARN of an IAM role (arn:aws:iam::ACCOUNT:role/NAME, not a service-linked one)",
    ),
]

ImageReference = Annotated[
    str, matching(_IMAGE, "an image reference (repository:tag or repository@sha256:digest)")
]

LabelKey = Annotated[
    str,
    matching(
        LABEL_KEY,
        "a Kubernetes label key (a name of at most 63 letters, digits, dots, dashes or _, and "
        "before it, if any, a domain in lower case and a slash)",
    ),
]

LabelValue = Annotated[
    str,
    matching(
        _LABEL_VALUE, "a Kubernetes label value (at most 63 letters, digits, dots, dashes or _)"
    ),
]

GroupLabelValue = Annotated[
    str,
    matching(
        LABEL_VALUE,
        "a label value that HyperPod takes (1 to 63 letters, digits, dots, dashes or _)",
    ),
]

ClaimName = Annotated[str, matching(_SECRET, "the name of a PersistentVolumeClaim")]

BucketName = Annotated[str, AfterValidator(_bucket)]

Folders = Annotated[str, AfterValidator(_folders)]

KeyArn = Annotated[str, matching(_KEY_ARN, "the ARN of a KMS key (arn:aws:kms:...:key/...)")]

SecretName = Annotated[str, matching(_SECRET, "the name of a Kubernetes Secret")]

Share = Annotated[float, Field(strict=True, ge=0.1, le=1.0, allow_inf_nan=False)]

TagKey = Annotated[
    str, matching(_TAG_KEY, "a tag key (1 to 128 letters, digits or _.:/=+@- , not `aws:`)")
]

TagValue = Annotated[
    str, matching(_TAG_VALUE, "a tag value (at most 256 letters, digits or _.:/=+@- )")
]

Usd = Annotated[float, Field(strict=True, gt=0, le=10_000, allow_inf_nan=False)]


def _no_switch(value: object) -> object:
    if isinstance(value, bool):
        msg = f"got {value} (a switch); it must be a number"
        raise WrongValueError("switch-for-a-number", msg)
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
