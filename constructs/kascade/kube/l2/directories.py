"""The Job that makes each engine's directory in the claim of L2 before any engine mounts it."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import labels, selector
from kascade.kube._objects import Fields, Metadata, add_object, content_hash, pod_template
from kascade.kube._pods import HELPER_RESOURCES, NO_PRIVILEGES, ON_SYSTEM_NODES, POD_SECURITY
from kascade.kube.l2.guards import MARKER, PROVE_DIRECTORY
from kascade.plan import DirectoriesPlan

_CLAIM_MOUNT: Final = "/mnt/claim"

_BACKOFF_LIMIT: Final = 50
"""Hours of attempts, see the bootstrap Job of Curvine."""

# Mode 0777, because the claim is the boundary, not the mode, as on Curvine. A rejected chmod, which
# an access point with an owner of its own may give, is no reason to stay without a cache.
_SCRIPT: Final = """\
import os, sys

mount, marker = sys.argv[1], sys.argv[2]
for name in sys.argv[3:]:
    directory = os.path.join(mount, name)
    os.makedirs(directory, exist_ok=True)
    try:
        os.chmod(directory, 0o777)
    except PermissionError:
        print(f"{name} keeps the mode it was made with")
    with open(os.path.join(directory, marker), "a"):
        pass
    print(f"{name} is ready")
"""


class CacheDirectories(Construct):
    """Makes every engine's directory and marker file; running it again changes nothing.

    It first proves that the claim is what it should be, as the engines' own guard does: else the
    Job would make the directories on its own disk and call that a success.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, directories: DirectoriesPlan, image: str
    ) -> None:
        """Add the Job.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            directories: The plan's slice.
            image: Any image with a Python 3.
        """
        super().__init__(scope, construct_id)
        component = "cache-directories"
        selecting = selector(name=component, instance="kascade", component=component)
        pod = _pod(directories, image)
        # The hash, because Kubernetes lets nobody change the pod of a Job that exists.
        name = f"{component}-{content_hash(pod)}"
        add_object(
            self,
            api_version="batch/v1",
            kind="Job",
            meta=Metadata(name=name, namespace=directories.namespace, labels=labels(selecting)),
            body={
                "spec": {
                    "backoffLimit": _BACKOFF_LIMIT,
                    "template": pod_template(labels(selecting), pod),
                }
            },
        )


def _pod(plan: DirectoriesPlan, image: str) -> Fields:
    mount: Fields = {"name": "claim", "mountPath": _CLAIM_MOUNT}
    # Root, so that the directories belong to the user that engines run as.
    common: Fields = {
        "image": image,
        "resources": HELPER_RESOURCES,
        "securityContext": {**NO_PRIVILEGES, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount],
    }
    return {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        # Engines wait for it, so it must not wait for a GPU node.
        "affinity": ON_SYSTEM_NODES,
        "initContainers": [
            {
                "name": "check-claim",
                **common,
                "command": ["python3", "-c", PROVE_DIRECTORY],
                "args": [_CLAIM_MOUNT, plan.file_system or "", "", "0"],
            }
        ],
        "containers": [
            {
                "name": "make-directories",
                **common,
                "command": ["python3", "-c", _SCRIPT],
                "args": [_CLAIM_MOUNT, MARKER, *sorted(plan.directories)],
            }
        ],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": plan.claim}}],
    }
