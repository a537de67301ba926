#!/bin/bash
# Runs as root on each new HyperPod node (Amazon Linux 2023), before the node joins the cluster,
# and again after each software update, which brings a fresh root volume and leaves the second
# volume as it was. Not at a reboot. Fetches nothing. Does three things:
#
#   1. Gives container images and pod volumes room: /var/lib/containerd and /var/lib/kubelet move
#      to the node's second EBS volume, where there is one.
#   2. Looks whether the instance's own NVMe is mounted where the cache expects it, and says so.
#   3. Lets an LMCache server see the GPUs of the engine beside it, where the image has turned off
#      what that rests on.
#
# Only step 1 can fail the node: with half of containerd's state it could run no pod. The script
# then ends with a status other than 0, upon which HyperPod discards the node; the pause before
# that lets the log reach CloudWatch. Steps 2 and 3 only advise: a node without its cache still
# serves, and the next one would look the same. Whether a block is written there is for the cache
# worker's own guard to decide.
set -euo pipefail

# Each setting may be given by the environment, which is how the tests run this file anywhere.
# >>> settings
NVME_MOUNT=${NVME_MOUNT-/opt/dlami/nvme}
CACHE_DIR=${CACHE_DIR-}
# <<< settings
: "${DATA_MOUNT:=/opt/sagemaker}"
: "${STATE_DIRS:=/var/lib/containerd /var/lib/kubelet}"
: "${FSTAB:=/etc/fstab}"
: "${LOG_FILE:=/var/log/provision/provisioning.log}"
: "${WAIT_SECONDS:=60}"
: "${PAUSE_SECONDS:=60}"
: "${NVIDIA_RUNTIME_CONFIG:=/etc/nvidia-container-runtime/config.toml}"

readonly INSTANCE_STORE="Amazon EC2 NVMe Instance Storage"

log() { printf '%s on_create: %s\n' "$(date -u +%FT%TZ)" "$*"; }

finish() {
  local status=$?
  if ((status != 0)); then
    log "ends with status ${status} after ${PAUSE_SECONDS} s, so that this log is shipped"
    sync
    sleep "${PAUSE_SECONDS}"
  fi
  exit "${status}"
}

is_mounted() { findmnt --noheadings --mountpoint "$1" >/dev/null; }

wait_for_mount() {
  local waited=0
  until is_mounted "$1"; do
    ((waited < WAIT_SECONDS)) || return 1
    sleep 1
    waited=$((waited + 1))
  done
}

has_instance_store() {
  [[ "$(lsblk --nodeps --noheadings --output MODEL)" == *"${INSTANCE_STORE}"* ]]
}

# What lies under a file system: the disks below it, through LVM and RAID.
disks_below() {
  lsblk --inverse --noheadings --list --output TYPE,MODEL "$1" | grep '^disk' || true
}

# EBS volumes are NVMe devices too on these instances; only the model name tells the two apart.
holds_other_disks() {
  grep --quiet --invert-match --fixed-strings "${INSTANCE_STORE}" <<<"$1"
}

# What keeps the cache from its NVMe, or nothing.
why_no_cache() {
  local source disks
  if ! wait_for_mount "${NVME_MOUNT}"; then
    printf '%s is no mount point after %s s, but the node has NVMe' "${NVME_MOUNT}" "${WAIT_SECONDS}"
    return
  fi
  source=$(findmnt --nofsroot --noheadings --output SOURCE --mountpoint "${NVME_MOUNT}")
  disks=$(disks_below "${source}")
  if [[ -z "${disks}" ]]; then
    printf '%s is on %s, below which there is no disk' "${NVME_MOUNT}" "${source}"
  elif holds_other_disks "${disks}"; then
    printf '%s is on %s, which is not all instance storage: %s' "${NVME_MOUNT}" "${source}" "${disks}"
  fi
}

# AWS's sources disagree about the place, so the log names it.
hint() {
  local target source disks
  while read -r target source; do
    [[ "${source}" == /dev/* ]] || continue
    disks=$(disks_below "${source}")
    if [[ -n "${disks}" ]] && ! holds_other_disks "${disks}"; then
      printf '; instance storage is mounted at %s: set hyperpod.nvme_mount to it' "${target}"
      return
    fi
  done < <(findmnt --nofsroot --noheadings --list --output TARGET,SOURCE)
  printf '; instance storage is mounted nowhere'
}

look_for_cache() {
  local why
  if [[ -z "${CACHE_DIR}" ]]; then
    log "no cache wanted"
    return
  fi
  if ! has_instance_store; then
    log "no instance storage on this node, no cache on it"
    return
  fi
  why=$(why_no_cache)
  if [[ -n "${why}" ]]; then
    log "WARNING: the cache worker of this node will not start: ${why}$(hint)"
    return
  fi
  log "${NVME_MOUNT} is instance storage; the cache worker will make ${CACHE_DIR}"
}

# Bind mounts keep every path as it is, for CSI drivers and for kubelet's own bookkeeping.
move_state() {
  if [[ "${DATA_MOUNT}" == "${NVME_MOUNT}" ]] || ! wait_for_mount "${DATA_MOUNT}"; then
    log "no second EBS volume, images and pod volumes stay on the root disk"
    return
  fi
  local running=() service dir target
  for service in kubelet containerd; do
    if systemctl is-active --quiet "${service}"; then
      systemctl stop "${service}"
      running=("${service}" "${running[@]}")
    fi
  done
  for dir in ${STATE_DIRS}; do
    dir=${dir%/}
    is_mounted "${dir}" && continue
    target="${DATA_MOUNT}/state/${dir##*/}"
    # What lies there is the state of the root volume before this one. Beside the new one it would
    # be a store with two indexes: containerd numbers its layers from 1 again, and finds each
    # number taken.
    rm --recursive --force --one-file-system -- "${target}"
    mkdir --parents "${dir}" "${target}"
    cp --archive "${dir}/." "${target}/"
    mount --bind "${target}" "${dir}"
    # At a reboot nobody waits for a mount with "nofail" unless told so, and containerd would open
    # the store below it.
    printf '%s %s none bind,nofail,x-systemd.requires-mounts-for=%s%s 0 0\n' \
      "${target}" "${dir}" "${DATA_MOUNT}" \
      ",x-systemd.before=containerd.service,x-systemd.before=kubelet.service" >>"${FSTAB}"
    log "moved ${dir} to ${target}"
  done
  for service in "${running[@]}"; do systemctl start "${service}"; done
}

# The server requests no GPU, since that would claim a second one: it asks by NVIDIA_VISIBLE_DEVICES.
# NVIDIA's own default heeds that; some images of nodes do not (awslabs/amazon-eks-ami#2706). The
# runtime reads the file for each container. A pod proves it before its engine starts, so that a
# node where this cannot be done is no failure of the node.
heed_visible_devices() {
  local key=accept-nvidia-visible-devices-envvar-when-unprivileged
  if [[ ! -f "${NVIDIA_RUNTIME_CONFIG}" ]]; then
    log "no ${NVIDIA_RUNTIME_CONFIG}, no NVIDIA runtime to set up"
  elif nvidia-ctk config --config-file="${NVIDIA_RUNTIME_CONFIG}" --in-place --set "${key}=true"; then
    log "set ${key} in ${NVIDIA_RUNTIME_CONFIG}"
  else
    log "could not set ${key} in ${NVIDIA_RUNTIME_CONFIG}, left as it is"
  fi
}

mkdir --parents "$(dirname "${LOG_FILE}")"
exec >>"${LOG_FILE}" 2>&1
trap finish EXIT
log "starts"
move_state
look_for_cache || log "WARNING: could not look for the cache's NVMe"
heed_visible_devices
log "done"
