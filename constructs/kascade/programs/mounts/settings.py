"""What the program is told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any


def _setting(text: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSettings:
    """Every flag; a name with ``_`` is one with ``-`` on the command line."""

    node: str = _setting("name of this node")
    namespace: str = _setting("where the pods are that mount Curvine")
    driver_namespace: str = _setting("where the driver keeps what it wrote down")
    handshake: str = _setting("directory in which a starting driver asks for that to be cleared")
    volumes: str = _setting("beginning of the names of Curvine's volumes")
    pods: str = _setting("the kubelet's directory of pods", "/var/lib/kubelet/pods")
    interval_seconds: float = _setting("pause between two looks", 5)
    rest_seconds: float = _setting("after the mounts are alive again, none is healed so long", 900)
    api_url: str = _setting("Kubernetes API; the cluster's own unless given", "")


def settings(arguments: Sequence[str]) -> MountSettings:
    """Read the command line.

    Raises:
        SystemExit: It is wrong; what is wrong has been printed.
    """
    made = argparse.ArgumentParser(prog="mounts", description=__doc__, allow_abbrev=False)
    for one in fields(MountSettings):
        required = one.default is MISSING
        made.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=float if isinstance(one.default, int | float) else str,
            help=one.metadata["help"],
            required=required,
            default=None if required else one.default,
        )
    return MountSettings(**vars(made.parse_args(arguments)))
