"""A configuration from its file, with every error that needs no arithmetic."""

from __future__ import annotations

from pathlib import Path

from kascade.config import loader
from kascade.config.blocks import ServingConfig
from kascade.errors import InvalidConfigError
from kascade.rules.configuration import check_config


def read_config(path: Path) -> loader.LoadedConfig:
    """Read a YAML file and everything it names, and collect every error in it.

    Args:
        path: The file.

    Returns:
        The configuration and its problems. Nothing is raised for an error in the file.
    """
    return loader.read_config(path, check=check_config)


def load_config(path: Path) -> ServingConfig:
    """Read a YAML file and return it validated.

    Errors that only sizing can see, such as a model too large for its GPUs, are found by
    :func:`kascade.plan_file` or :func:`kascade.plan_serving`.

    Args:
        path: The file.

    Raises:
        InvalidConfigError: With every error in the file.
    """
    loaded = read_config(path)
    if loaded.problems or loaded.config is None:
        raise InvalidConfigError(loaded.source, loaded.problems)
    return loaded.config
