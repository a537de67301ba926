"""Changes of what is fixed, and files that are no lock."""

from pathlib import Path
from typing import Any

import yaml

from kascade import ServingConfig
from kascade.config.lock import lock_text

DEFAULT = Path(__file__).parents[4] / "config" / "default.yaml"


def lay_out(folder: Path, **changes: object) -> Path:
    """Write a deployed configuration, its lock, and then a change of it."""
    deployed: dict[str, Any] = yaml.safe_load(DEFAULT.read_text())
    deployed |= {"account": "123456789012", "cache": {"l2": {"kind": "curvine"}}}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(deployed | changes, sort_keys=False))
    path.with_suffix(".lock").write_text(lock_text(ServingConfig(**deployed), {}))
    return path


def changed(folder: Path, changes: dict[str, object]) -> Path:
    return lay_out(folder, **changes)


def broken(folder: Path, content: str) -> Path:
    path = lay_out(folder)
    path.with_suffix(".lock").write_text(content)
    return path


CHANGES: dict[str, tuple[dict[str, object], str, str]] = {
    "name": ({"name": "other"}, "name", "locked"),
    "region": ({"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}, "region", "locked"),
    "account": ({"account": "999999999999"}, "account", "locked"),
    "zones": ({"zones": ["us-west-2b", "us-west-2a"]}, "zones", "locked"),
    "hyperpod.security_group_ids": (
        {"hyperpod": {"security_group_ids": ["sg-00000001"]}},
        "hyperpod.security_group_ids",
        "locked",
    ),
    "network.vpc_cidr": ({"network": {"vpc_cidr": "10.1.0.0/16"}}, "network.vpc_cidr", "locked"),
    "network.existing": (
        {
            "network": {
                "existing": {
                    "vpc_id": "vpc-0123456789abcdef0",
                    "private_subnets": [
                        {"id": "subnet-0123456789abcdef0", "cidr": "10.0.0.0/19"},
                        {"id": "subnet-0123456789abcdef1", "cidr": "10.0.32.0/19"},
                    ],
                }
            }
        },
        "network.existing",
        "locked",
    ),
    "cache.l2.masters": (
        {
            "cache": {"l2": {"kind": "curvine", "masters": 3}},
            "kubernetes": {"system_group": {"count": 4}},
        },
        "cache.l2.masters",
        "locked",
    ),
}

STEPS: dict[str, tuple[dict[str, object], str, str]] = {
    "an account that is gone": ({"account": None}, "account", "locked"),
    "an older Kubernetes": (
        {"kubernetes": {"version": "1.34"}},
        "kubernetes.version",
        "kubernetes-downgrade",
    ),
}

WHOLE = "name: kascade\nregion: us-west-2\nzones: [us-west-2a]\nnetwork.vpc_cidr: 10.0.0.0/16\n"

BROKEN: dict[str, tuple[str, str, str]] = {
    "empty": ("", "(whole file)", "lock-file"),
    "a list": ("- a", "(whole file)", "lock-file"),
    "a misspelt field": ("nmae: kascade", "(whole file)", "lock-file"),
    "no YAML": ("a: [", "(whole file)", "lock-file"),
    "a NUL": ("\x00", "(whole file)", "lock-file"),
    "an empty block": ("{}", "(whole file)", "lock-file"),
    "a field twice": (f"{WHOLE}name: kascade", "(whole file)", "lock-file"),
    "an account as a number": (f"{WHOLE}account: 123456789012", "(whole file)", "lock-file"),
    "a version as a number": (f"{WHOLE}kubernetes.version: 1.35", "(whole file)", "lock-file"),
    **{
        f"version {version}": (
            f"{WHOLE}kubernetes.version: '{version}'",
            "(whole file)",
            "lock-file",
        )
        for version in ("newest", "1.350", "1.99", "1.5", "1.035", "1.3\u0665")
    },
    "a field nested deeply": (f"name: {'[' * 3000}", "(whole file)", "lock-file"),
}
