"""What a worker asks about its node's disks before it writes to one."""

from __future__ import annotations

from typing import Final

# The fourth field of a mountinfo line is the directory inside the mounted file system. A bind mount
# of a real mount point shows "/" there; of a plain directory on the root disk it shows its path.
PROVE_MOUNT: Final = """\
while read -r _ _ _ root target _; do
  if [ "$target" = "$1" ] && [ "$root" = "/" ]; then exit 0; fi
done < /proc/self/mountinfo
echo "$2 is a plain directory of this node's root disk, not a mounted NVMe, and blocks would" \\
  "fill it. The log of the HyperPod lifecycle script says why nothing is mounted." >&2
exit 1
"""
"""For nodes whose lifecycle script is ours: it has looked at the disk already. Both take the place
in this container and the one on the node."""

# EBS volumes are NVMe devices too on these instances; only the model's name tells the two apart. A
# device of LVM or RAID has those below it as "slaves", a partition has its disk as the parent.
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
    "fill it. Set hyperpod.nvme_mount to where this cluster mounts its instance storage." >&2
  exit 1
fi
others=$(below "/sys/dev/block/$device")
if [ -n "$others" ]; then
  echo "$2 is mounted, but not from instance storage alone: below it lies $others." \\
    "Set hyperpod.nvme_mount to where this cluster mounts its instance storage." >&2
  exit 1
fi
"""
"""For nodes that somebody else set up. Nothing but the shell's own commands, for the
image is Curvine's."""
