#!/bin/bash
# Runs once, as root, on each new HyperPod node (Amazon Linux 2023), before the node joins the
# cluster. Fetches nothing. Does three things:
#
#   1. Gives container images and pod volumes room: /var/lib/containerd and /var/lib/kubelet move
#      to the node's second EBS volume, where there is one.
#   2. Makes the cache directory on the instance's own NVMe, after proving that it is one. A
#      directory on the root disk would look the same to the cache, and fill the root disk.
#   3. Lets an LMCache server see the GPUs of the engine beside it, where the image has turned off
#      what that rests on.
#
# A node without NVMe skips step 2. Any failure ends with status 1, upon which HyperPod discards
# the node; the pause before that lets the log reach CloudWatch.
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

fail() {
  log "FAILED: $*"
  exit 1
}

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

require_instance_store() {
  local source disks
  source=$(findmnt --nofsroot --noheadings --output SOURCE --mountpoint "$1")
  disks=$(disks_below "${source}")
  [[ -n "${disks}" ]] || fail "$1 is on ${source}, below which there is no disk$(hint)"
  if holds_other_disks "${disks}"; then
    fail "$1 is on ${source}, which is not all instance storage: ${disks}$(hint)"
  fi
  log "$1 is on ${source}, instance storage"
}

# AWS's sources disagree about the place, so a failure names it. The charts mount the path of the
# setting; taking another one silently would leave their directory on the root disk.
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

make_cache_dir() {
  if [[ -z "${CACHE_DIR}" ]]; then
    log "no cache wanted"
    return
  fi
  if ! has_instance_store; then
    log "no instance storage on this node, no cache directory"
    return
  fi
  wait_for_mount "${NVME_MOUNT}" \
    || fail "${NVME_MOUNT} is no mount point after ${WAIT_SECONDS} s, but the node has NVMe$(hint)"
  require_instance_store "${NVME_MOUNT}"
  install --directory --mode=0700 "${CACHE_DIR}"
  log "made ${CACHE_DIR}"
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
    is_mounted "${dir}" && continue
    target="${DATA_MOUNT}/state/${dir##*/}"
    mkdir --parents "${dir}" "${target}"
    cp --archive "${dir}/." "${target}/"
    mount --bind "${target}" "${dir}"
    printf '%s %s none bind,nofail,x-systemd.requires-mounts-for=%s 0 0\n' \
      "${target}" "${dir}" "${DATA_MOUNT}" >>"${FSTAB}"
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
make_cache_dir
heed_visible_devices
log "done"
