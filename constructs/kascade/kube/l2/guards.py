"""Init containers that start nothing where L2 is not what it should be.

LMCache makes a missing base path with all its parents, so without them an absent mount would fill
the container's own disk and nothing would be shared.
"""

from __future__ import annotations

from typing import Final

from kascade.kube._objects import Fields
from kascade.kube._pods import HELPER_RESOURCES, NO_PRIVILEGES

MARKER: Final = ".kascade-volume"
"""Empty file at the root of every directory of L2, made by a Job before any engine. What has it is
the directory and not something that stands where a mount is missing."""

GUARD_SECONDS: Final = 120
"""Longer than a bootstrap Job needs once its master runs, shorter than a person's patience with a
pod that will not start by itself."""

PROVE_FUSE: Final = """\
import errno, os, sys, time

mount, marker, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
deadline = time.monotonic() + seconds
while True:
    kind = "nothing"
    with open("/proc/self/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[1] == mount:
                kind = fields[2]
    if not kind.startswith("fuse"):
        sys.exit(f"{mount} is {kind}, not FUSE: the cache would fill this container's disk")
    try:
        os.stat(os.path.join(mount, marker))
        print(f"{mount} is {kind} and has its marker")
        break
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            sys.exit(
                f"{mount} is dead: its CSI driver was restarted after it was mounted. A new pod "
                "gets a new mount; the program heal-mounts of curvine-csi-node on this node evicts "
                "this one. If it does not, delete all pods of the volume on this node together"
            )
        why = "" if error.errno == errno.ENOENT else f" ({error.strerror})"
    if time.monotonic() > deadline:
        sys.exit(
            f"{mount} has no {marker}{why}: has the curvine-bootstrap Job succeeded? If it has, "
            "delete this pod, which may have mounted the directory before that"
        )
    time.sleep(2)
"""
"""Arguments: the mount, the marker's name, seconds to wait for it."""

PROVE_DIRECTORY: Final = """\
import os, sys, time

mount, wanted, marker, seconds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
local = "overlay tmpfs ramfs rootfs ext2 ext3 ext4 xfs btrfs zfs".split()
deadline = time.monotonic() + seconds
while True:
    kind = "nothing"
    with open("/proc/self/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[1] == mount:
                kind = fields[2]
    if kind == "nothing":
        sys.exit(f"{mount} is no mount: the cache would fill this container's disk")
    if kind in local or wanted not in ("", kind):
        sys.exit(f"{mount} is {kind}, not {wanted or 'a file system that nodes share'}")
    if not marker:
        break
    if os.path.exists(os.path.join(mount, marker)):
        print(f"{mount} is {kind} and has its marker")
        break
    if time.monotonic() > deadline:
        sys.exit(f"{mount} has no {marker}: has the cache-directories Job succeeded?")
    time.sleep(2)
"""
"""Arguments: the mount, what must be mounted or nothing for whatever is no disk of the node, the
marker's name, seconds to wait for it. The Job that makes the marker asks without one."""

PROVE_SHARED_MEMORY: Final = """\
import mmap, os, sys, time

file, link, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
if os.path.lexists(link):
    os.unlink(link)
os.symlink(file, link)
deadline = time.monotonic() + seconds
while True:
    try:
        with open(link, "rb") as opened:
            with mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as whole:
                print(f"{file} holds {len(whole) >> 20:,} MiB")
        break
    except (OSError, ValueError) as error:
        if time.monotonic() > deadline:
            sys.exit(f"{file} cannot be mapped ({error}): is HyperPod's tiered storage on?")
    time.sleep(2)
"""
"""Arguments: the daemon's file as mounted, where LMCache looks for it, seconds to wait until it is
there and no longer empty. It leaves a link behind, which follows the file if it is made anew."""


def guard_container(image: str, program: str, args: list[str], *mounts: Fields) -> Fields:
    """Init container that runs one of the programs above.

    Args:
        image: The engine's, which is on the node anyway.
        program: Its text.
        args: Its arguments.
        mounts: What it looks at.
    """
    return {
        "name": "check-cache-mount",
        "image": image,
        "command": ["python3", "-c", program],
        "args": args,
        "resources": HELPER_RESOURCES,
        "securityContext": {**NO_PRIVILEGES, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(mounts),
    }
