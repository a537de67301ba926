"""Unpacks HyperPod's SDK, once per machine, for its models of an InferenceEndpointConfig.

It lies in the user's cache (see tools/once.py), outside every environment: the SDK pins dozens of
packages, and of all of it one module is read, which needs pydantic alone.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tools.once import built

ROOT = Path(__file__).parents[1]
PINS = ROOT / "requirements-hyperpod.txt"
MODULE = Path("sagemaker", "hyperpod", "inference", "config", "hp_endpoint_config.py")
RECIPE = 1
"""Raised when `build` changes what it makes of the same pins."""


def build(target: Path) -> None:
    """Unpack exactly the pins."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    argv += ["--no-deps", "--no-compile", "--target", str(target), "-r", str(PINS)]
    subprocess.run(argv, check=True)


def endpoint_models() -> ModuleType:
    """Return the SDK's module of models, loaded by its path: its package imports the AWS SDK."""
    folder = built("hyperpod-sdk", PINS.read_bytes() + f"{RECIPE}".encode(), build)
    spec = importlib.util.spec_from_file_location("hp_endpoint_config", folder / MODULE)
    if spec is None or spec.loader is None:
        msg = f"{folder / MODULE} cannot be loaded"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
