"""The Job that makes the volumes' directories before any pod mounts them."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import labels
from kascade.kube._objects import Fields, Metadata, add_object, content_hash, pod_template
from kascade.kube._pods import HELPER_RESOURCES, NO_PRIVILEGES, ON_SYSTEM_NODES, POD_SECURITY
from kascade.kube.curvine._server import CONFIG_MOUNT, config_path, config_volume
from kascade.kube.curvine.names import CLI, WORKING_DIRECTORY, CurvineNames
from kascade.kube.l2.guards import MARKER
from kascade.plan import CurvinePlan

_BACKOFF_LIMIT: Final = 50
"""The kubelet waits up to five minutes between attempts, so this is hours: a master whose volume
takes its time must not leave the pool without directories for good."""

# $1 is the command line tool, $2 its configuration, $3 the marker's name; directories follow.
#
# The tool exits with an error when the master does not answer, so "stat /" waits for it. Whatever
# is to be deleted at a certain age was made through a mount, by the CSI plugin for a pod that came
# too early, with every parent that was missing: all of it would vanish under running pods later.
# The tool cannot take an age limit away, so the topmost such directory is made anew. What below it
# is ready is put aside meanwhile, in one rename each, and found there if the Job dies between. A
# mount may make the parents once more in between, so all is looked at until nothing expires.
#
# Mode 0777, because the claim is the boundary, not the mode: who mounts it may write, and a
# directory of root with 0755 would silently shut out an engine image with another user. A rejected
# chmod is no reason to stay without a cache.
_SCRIPT: Final = """\
cli=$1; conf=$2; marker=$3; shift 3
run() { "$cli" --conf "$conf" fs "$@"; }
exists() { run stat "$1" > /dev/null 2>&1; }
expires() { run stat "$1" 2> /dev/null | grep -q '^Ttl action: Delete'; }
aside() { echo "/.aside$(echo "$1" | tr / -)"; }
first_expiring() {
  part=; rest=${1#/}
  while [ -n "$rest" ]; do
    part="$part/${rest%%/*}"
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    if expires "$part"; then echo "$part"; return; fi
  done
}
put_back() {
  if exists "$(aside "$1")" && ! exists "$1"; then
    exists "${1%/*}" || run mkdir --parents "${1%/*}"
    run mv "$(aside "$1")" "$1"
  fi
}
make_anew() {
  echo "$1 was made through a mount and would expire with all that is in it; making it anew"
  top=$1; shift
  for each in "$@"; do
    case $each in "$top"/*)
      if exists "$each/$marker" && ! expires "$each"; then run mv "$each" "$(aside "$each")"; fi
    esac
  done
  run rm --recursive "$top"
  for each in "$@"; do put_back "$each"; done
}
until exists /; do
  echo "waiting for the Curvine master"
  sleep 5
done
set -e
for directory in "$@"; do
  tries=0
  while top=$(first_expiring "$directory") && [ -n "$top" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 5 ]; then
      echo "$top is made through a mount again and again: delete the pods that mount it" >&2
      exit 1
    fi
    make_anew "$top" "$@"
  done
  put_back "$directory"
  if ! exists "$directory/$marker"; then
    exists "$directory" || run mkdir --parents "$directory"
    run chmod 777 "$directory" || echo "$directory keeps the mode it was made with"
    run touch "$directory/$marker"
    exists "$directory/$marker"
  fi
  if [ -n "$(first_expiring "$directory")" ]; then
    echo "a mount was quicker with the parents of $directory; trying again" >&2
    exit 1
  fi
  echo "$directory is ready"
done
"""


class CurvineBootstrap(Construct):
    """Makes every volume's directory and marker file; running it again changes nothing.

    Engines must be applied after it has succeeded. A pod that mounts a volume whose directory is
    absent makes the CSI plugin create it through FUSE with all its parents, and the age limit of
    the volume on each.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, curvine: CurvinePlan, config_name: str
    ) -> None:
        """Add the Job.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            curvine: The plan's slice.
            config_name: ConfigMap with the masters' configuration.
        """
        super().__init__(scope, construct_id)
        selecting = CurvineNames(curvine).selector("bootstrap")
        pod = _pod(curvine, config_name)
        # The hash, because Kubernetes lets nobody change the pod of a Job that exists.
        name = f"curvine-bootstrap-{content_hash(pod)}"
        add_object(
            self,
            api_version="batch/v1",
            kind="Job",
            meta=Metadata(name=name, namespace=curvine.namespace, labels=labels(selecting)),
            body={
                "spec": {
                    "backoffLimit": _BACKOFF_LIMIT,
                    # No ttlSecondsAfterFinished: a Job that vanishes would be made again by the
                    # next deployment and look like a change.
                    "template": pod_template(labels(selecting), pod),
                }
            },
        )


def _pod(curvine: CurvinePlan, config_name: str) -> Fields:
    directories = sorted(volume.curvine_path for volume in curvine.volumes)
    return {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "affinity": ON_SYSTEM_NODES,
        "containers": [
            {
                "name": "bootstrap",
                "image": curvine.image,
                "command": ["/bin/sh", "-c", _SCRIPT, "bootstrap"],
                "args": [CLI, config_path(), MARKER, *directories],
                "workingDir": WORKING_DIRECTORY,
                "resources": HELPER_RESOURCES,
                # Root, so that the directories belong to the user that engines run as.
                "securityContext": NO_PRIVILEGES,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [CONFIG_MOUNT],
            }
        ],
        "volumes": [config_volume(config_name)],
    }
