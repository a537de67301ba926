"""A deletion that left something fails, and names it.

CDK's kubectl function catches every error of ``kubectl delete`` and ``helm uninstall``, writes it
to its log, and reports success (apply/__init__.py and helm/__init__.py of aws-cdk-lib). The object
then stays, and with it what it holds: a load balancer, a volume, a finalizer. So after each
deletion this program asks the API server, deletes once more what is still there, since the first
failure may have been of the moment, and after a while names it. What is being deleted is waited for
as long as before: ``kubectl delete`` itself waits for finalizers, and Lambda ends the call after 15
minutes.

It lies in a layer, is called in the place of the CDK's handler, and calls that one first.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger()

PATIENCE_SECONDS = 30
"""For what an error of the moment left; finalizers have been waited for before."""

PAUSE_SECONDS = 3
COMMAND_SECONDS = 60
LONGEST_ERROR = 1000

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
RELEASE = "Custom::AWSCDK-EKS-HelmChart"

_NO_SUCH_KIND = ("no matches for kind", "the server doesn't have a resource type")
"""Its definition is gone, and every object of the kind with it."""

_FOLDER = os.environ.get("TEST_OUTDIR", "/tmp")  # noqa: S108 - where CDK's handler writes, too
_KUBECONFIG = os.path.join(_FOLDER, "kubeconfig")  # noqa: PTH118 - as CDK's handler says it
_LEFT = os.path.join(_FOLDER, "left.json")  # noqa: PTH118


class LeftoverError(Exception):
    """What is still there, for CloudFormation's event list."""


def run(*command: str) -> tuple[int, str]:
    """Run a program; its exit status and all it said."""
    done = subprocess.run(  # noqa: S603 - kubectl and helm, without a shell
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    return done.returncode, done.stdout.strip()


Command = Callable[..., tuple[int, str]]


def objects_left(manifest: str, command: Command) -> str | None:
    """Say what of a manifest is still there, or why nobody knows; None if nothing is.

    Deletes it once more, without waiting.
    """
    with open(_LEFT, "w", encoding="utf-8") as file:  # noqa: PTH123 - one module alone
        file.writelines(json.dumps(item) for item in json.loads(manifest))
    here = ("--kubeconfig", _KUBECONFIG, "--filename", _LEFT, "--ignore-not-found")
    code, found = command("kubectl", "get", *here, "--output=name")
    if code == 0 and not found:
        return None
    if code != 0:
        return None if any(words in found for words in _NO_SUCH_KIND) else found
    _, said = command("kubectl", "delete", *here, "--wait=false")
    return f"{', '.join(found.split())}: {said}"


def release_left(release: str, namespace: str, command: Command) -> str | None:
    """Say whether a Helm release is still there, or why nobody knows; None if it is not.

    Uninstalls it once more.
    """
    here = (release, "--namespace", namespace, "--kubeconfig", _KUBECONFIG)
    code, found = command("helm", "status", *here)
    if code != 0:
        return None if "not found" in found else found
    _, said = command("helm", "uninstall", *here)
    return f"release {release}: {said}"


def check(
    event: Mapping[str, Any],
    *,
    command: Command = run,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look whether what a deletion was about is gone.

    Args:
        event: What the CDK's handler was called with.
        command: Runs a program.
        sleep: Waits.

    Raises:
        LeftoverError: It is not, or cannot be asked for.
    """
    told = event["ResourceProperties"]

    def left() -> str | None:
        try:
            if event["ResourceType"] == MANIFEST:
                return objects_left(told["Manifest"], command)
            return release_left(told["Release"], told.get("Namespace") or "default", command)
        except subprocess.TimeoutExpired as error:
            return str(error)

    why = left()
    for _ in range(PATIENCE_SECONDS // PAUSE_SECONDS):
        if why is None:
            return
        log.info("still there: %s", why)
        sleep(PAUSE_SECONDS)
        why = left()
    if why is not None:
        message = (
            f"The cluster still has what was to be deleted, or does not say: "
            f"{why[:LONGEST_ERROR]}. Mend that, then delete again; docs/deletion.md says what to "
            "do where the cluster cannot be reached any more."
        )
        raise LeftoverError(message)


def handler(event: Mapping[str, Any], context: object) -> Any:
    """Lambda's entry point."""
    # CDK's, which lies beside this one in Lambda and nowhere else.
    from index import handler as cdk_handler  # type: ignore[import-not-found]  # noqa: PLC0415

    answer = cdk_handler(event, context)
    if event["RequestType"] == "Delete" and event["ResourceType"] in {MANIFEST, RELEASE}:
        check(event)
    return answer
