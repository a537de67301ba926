"""Our module in LMCache's server: where it lies in the pod, and what it is told."""

from __future__ import annotations

import json
from typing import Final

from kascade.kube._objects import Fields, program_hash
from kascade.kube.l2.adapters import Adapter, FsNativeAdapter

CACHE_PROGRAM: Final = "cache"
CACHE_CONFIG_MAP: Final = "kascade-cache-module"
_VOLUME: Final = "cache-module"
_PYTHON_PATH: Final = "/opt/kascade"

MODULE: Final = "kascade_cache"
"""What Python calls it in the pod: a name that hides no package of the image."""

CACHE_MODULE_MOUNT: Final[Fields] = {
    "name": _VOLUME,
    "mountPath": f"{_PYTHON_PATH}/{MODULE}",
    "readOnly": True,
}

CACHE_MODULE_ENV: Final = {"PYTHONPATH": _PYTHON_PATH, "PYTHONDONTWRITEBYTECODE": "1"}


def cache_module_arg(adapter: Adapter | None, *, renew_seconds: int) -> str:
    """Argument of ``lmcache server``.

    Args:
        adapter: Its L2. Encrypted blocks may fail to open; files have an age.
        renew_seconds: How often at most a file that is used is made to look young.
    """
    config: dict[str, object] = {
        "opens": adapter is not None and adapter.serde is not None,
        # The text's hash, so that another text restarts the pods.
        "text": program_hash(CACHE_PROGRAM),
    }
    if isinstance(adapter, FsNativeAdapter):
        config |= {"directory": adapter.base_path, "renew_seconds": renew_seconds}
    value = {"module_path": MODULE, "config": config}
    return f"--server-module={json.dumps(value, separators=(',', ':'))}"


def cache_module_volume() -> Fields:
    """Volume of the pod."""
    return {"name": _VOLUME, "configMap": {"name": CACHE_CONFIG_MAP}}
