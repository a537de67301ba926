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
from kascade.sizing.plan import CurvinePlan

_BACKOFF_LIMIT: Final = 50
"""The kubelet waits up to five minutes between attempts, so this is hours: a master whose volume
takes its time must not leave the pool without directories for good."""

# $1 is the command line tool, $2 its configuration, $3 the marker's name; directories follow.
#
# The tool exits with an error when the master does not answer, so "stat /" waits for it. A
# directory without marker that is to be deleted at a certain age was made through a mount, by the
# CSI plugin for a pod that came too early. It holds nothing yet and would vanish under running pods
# later, so it is made anew. Mode 0777, because the claim is the boundary, not the mode: who mounts
# it may write, and a directory of root with 0755 would silently shut out an engine image with
# another user. A refused chmod is no reason to stay without a cache.
_SCRIPT: Final = """\
cli=$1; conf=$2; marker=$3; shift 3
run() { "$cli" --conf "$conf" fs "$@"; }
until run stat / > /dev/null 2>&1; do
  echo "waiting for the Curvine master"
  sleep 5
done
set -e
for directory in "$@"; do
  if run stat "$directory/$marker" > /dev/null 2>&1; then
    echo "$directory is ready"
    continue
  fi
  if run stat "$directory" 2> /dev/null | grep -q '^Ttl action: Delete'; then
    echo "$directory was made through a mount and would expire; making it anew"
    run rm --recursive "$directory"
  fi
  run stat "$directory" > /dev/null 2>&1 || run mkdir --parents "$directory"
  run chmod 777 "$directory" || echo "$directory keeps the mode it was made with"
  run touch "$directory/$marker"
  run stat "$directory/$marker" > /dev/null
  echo "$directory is ready"
done
"""


class CurvineBootstrap(Construct):
    """Makes every volume's directory and marker file; running it again changes nothing.

    Engines must be applied after it has succeeded. A pod that mounts a volume whose directory is
    absent makes the CSI plugin create it through FUSE, with the age limit of the volume on it.
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
