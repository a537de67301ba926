"""Proves that an engine and its LMCache server are given the same GPUs, before either starts.

    python3 -m kascade_engine.gpus take COUNT FILE     the engine's view: writes their UUIDs
    python3 -m kascade_engine.gpus find FILE           the server's view: has to see each of them

The first requests GPUs as the engine does; the kubelet gives an init container's devices to the
containers after it. Only the driver's library is asked: it is what both programs begin with.
"""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LIBRARY: Final = "libcuda.so.1"
"""The driver's own, which the NVIDIA runtime brings into a container with its devices."""

_WORDS_OF: Final = {
    100: "no device is visible",
    803: "the node's driver is too old for this image",
    999: "the driver reports an unknown error",
}

_STRATEGY: Final = (
    "Does the device plugin hand devices over in a way that this node takes? It should run with "
    "DEVICE_LIST_STRATEGY=envvar,cdi-cri; with envvar alone the node's "
    "/etc/nvidia-container-runtime/config.toml must accept NVIDIA_VISIBLE_DEVICES of unprivileged "
    "containers"
)
_FLAG: Final = (
    "the server requests no GPU, and this node's NVIDIA runtime ignores its "
    "NVIDIA_VISIBLE_DEVICES=all. On the node, set "
    "accept-nvidia-visible-devices-envvar-when-unprivileged = true in "
    "/etc/nvidia-container-runtime/config.toml; nodes of Kascade's own groups are made with it"
)


class GpuError(Exception):
    """No GPU, or not the one that is wanted, in a sentence."""


def visible() -> list[str]:
    """UUIDs of the GPUs that this process sees, as nvidia-smi writes them.

    Raises:
        GpuError: The driver cannot be asked.
    """
    try:
        cuda = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        nodes = sorted(str(node) for node in Path("/dev").glob("nvidia[0-9]*"))
        there = f"there are {', '.join(nodes)}" if nodes else "there is no /dev/nvidia* either"
        msg = f"{_LIBRARY} cannot be loaded ({error}), and {there}"
        raise GpuError(msg) from None
    if status := cuda.cuInit(0):
        msg = f"cuInit says {status} ({_WORDS_OF.get(status, 'see the CUDA driver API')})"
        raise GpuError(msg)
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found = []
    for index in range(count.value):
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetUuid_v2(ctypes.byref(raw), device)
        found.append(f"GPU-{uuid.UUID(bytes=bytes(raw))}")
    return found


def take(count: int, file: str) -> str:
    """Write down the GPUs of the engine.

    Raises:
        GpuError: They are fewer than it needs, or more, so that they are not its own.
    """
    try:
        found = visible()
    except GpuError as error:
        msg = f"the engine needs {count} GPUs and sees none: {error}. {_STRATEGY}"
        raise GpuError(msg) from None
    if len(found) < count:
        msg = f"the engine needs {count} GPUs and sees {len(found)}: {_list(found)}. {_STRATEGY}"
        raise GpuError(msg)
    if len(found) > count:
        msg = (
            f"the engine was given {count} GPUs and sees {len(found)}: {_list(found)}. So it would "
            "take those of other pods; NVIDIA_VISIBLE_DEVICES of its image or pod must not say more"
        )
        raise GpuError(msg)
    Path(file).write_text(",".join(found), "ascii")
    return f"the engine has {_list(found)}"


def find(file: str) -> str:
    """Look for each GPU of the engine.

    Raises:
        GpuError: One of them is not seen.
    """
    wanted = Path(file).read_text("ascii").split(",")
    try:
        found = visible()
    except GpuError as error:
        msg = f"the engine has {_list(wanted)} and its LMCache server sees none: {error}; {_FLAG}"
        raise GpuError(msg) from None
    if missing := [one for one in wanted if one not in found]:
        msg = (
            f"the engine has {_list(wanted)} and its LMCache server sees {_list(found)}, so not "
            f"{_list(missing)}: {_FLAG}"
        )
        raise GpuError(msg)
    return f"the LMCache server sees {_list(wanted)}, the engine's"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def main(arguments: Sequence[str]) -> int:
    """Run the program; 1 with a sentence on the error output where something is wrong."""
    word, *rest = arguments
    try:
        said = take(int(rest[0]), rest[1]) if word == "take" else find(rest[0])
    except GpuError as error:
        sys.stderr.write(f"{error}.\n")
        return 1
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
