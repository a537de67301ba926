"""What a worker asks about its node's disks before it writes to one."""

from __future__ import annotations

from typing import Final

# EBS volumes are NVMe devices too on these instances; only the model's name tells the two apart. A
# device of LVM or RAID has those below it as "slaves", a partition has its disk as the parent. The
# fourth field of a mountinfo line is the directory inside the mounted file system: a bind mount of
# a real mount point shows "/" there, one of a plain directory on the root disk shows its path.
PROVE_INSTANCE_STORE: Final = """\
below() (
  whole=yes
  for disk in "$1"/slaves/*; do
    if [ -e "$disk" ]; then whole=; below "$disk"; fi
  done
  if [ -z "$whole" ]; then exit; fi
  model="no disk of a known model"
  for file in "$1/device/model" "$1/../device/model"; do
    if [ -r "$file" ]; then read -r model < "$file"; fi
  done
  if [ "$model" != "Amazon EC2 NVMe Instance Storage" ]; then echo "$model"; fi
)
device=
while read -r _ _ number root target _; do
  if [ "$target" = "$1" ] && [ "$root" = "/" ]; then device=$number; fi
done < /proc/self/mountinfo
if [ -z "$device" ]; then
  echo "$2 is a plain directory of this node's root disk, not a mounted NVMe, and blocks would" \\
    "fill it. Set hyperpod.nvme_mount to where this cluster mounts its instance storage;" \\
    "Kascade's lifecycle script writes the place into the node's log in CloudWatch." >&2
  exit 1
fi
others=$(below "/sys/dev/block/$device")
if [ -n "$others" ]; then
  echo "$2 is mounted, but not from instance storage alone: below it lies $others." \\
    "Set hyperpod.nvme_mount to where this cluster mounts its instance storage;" \\
    "Kascade's lifecycle script writes the place into the node's log in CloudWatch." >&2
  exit 1
fi
umask 077
if ! mkdir -p "$1/$3"; then
  echo "$3 could not be made below $2 with mode 700; the kubelet makes it, with the mode of $2"
fi
"""
"""Arguments: the mount in this container, the same on the node, the directory of the blocks below
it. That is made here, after the verification and at every start of the pod, since a reboot may have
emptied the instance storage. This container is root without root's rights; where they would be
needed, the kubelet makes the worker's ``subPath``, and other users of the node may read it. Nothing
but the shell's own commands and ``mkdir``, for the image is Curvine's."""
