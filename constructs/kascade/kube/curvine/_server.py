"""What master and worker pods have in common."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._objects import Fields, Metadata, add_object
from kascade.kube.curvine.config import CurvineConfig
from kascade.kube.curvine.names import CONFIG_DIRECTORY, CONFIG_FILE, SERVER

GRACE_SECONDS: Final = 60
"""Time for an open block to be closed and the farewell heartbeat to be sent; twice the default."""

CONFIG_MOUNT: Final[Fields] = {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True}


def add_config(scope: Construct, *, meta: Metadata, config: CurvineConfig) -> Fields:
    """Add the ConfigMap with the configuration file.

    Returns:
        The ConfigMap's data, whose hash belongs on the pods that read it.
    """
    data = {CONFIG_FILE: config.to_toml()}
    add_object(scope, api_version="v1", kind="ConfigMap", meta=meta, body={"data": data})
    return data


def config_volume(name: str) -> Fields:
    """Volume with the configuration file."""
    return {"name": "config", "configMap": {"name": name}}


def server_command(service: str) -> list[str]:
    """Run the server itself as PID 1, so that SIGTERM reaches it."""
    return [SERVER, "--service", service, "--conf", f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"]


def config_path() -> str:
    """Where the configuration file is in every container."""
    return f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"
