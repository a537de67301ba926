"""The verification inside the cluster: a Job from the suspended CronJob, followed to its end."""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from kascade.cli.kubectl import Kubectl
from kascade.errors import KascadeError
from kascade.plan import VerifyPlan

_START_SECONDS: Final = 300.0
"""For a place on a system node and the image."""

_END_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 1.0
_REPORT_SECONDS: Final = 10.0
_PROGRESS: Final = "verify: "


def run_in_cluster(
    kubectl: Kubectl,
    verify: VerifyPlan,
    arguments: argparse.Namespace,
    *,
    say: Callable[[str], None],
) -> int:
    """Run the verification as a Job and return its result.

    Args:
        kubectl: For the engine's namespace.
        verify: The plan's slice.
        arguments: Of the command line; those given are handed on.
        say: Tells a waiting person what happens.

    Raises:
        KascadeError: The Job could not be made, or did not get to a result.
    """
    template = kubectl.json("get", "cronjob", verify.name, "--ignore-not-found")
    if template is None:
        msg = (
            f"namespace {verify.namespace} has no CronJob {verify.name}; deploy the configuration "
            "with this version, or verify from here without --in-cluster"
        )
        raise KascadeError(msg)
    name = f"{verify.name}-{secrets.token_hex(3)}"
    kubectl.run("create", "--filename=-", given=json.dumps(job_from(template, name, arguments)))
    say(f"started Job {name}")
    finished = False
    try:
        pod = _await_pod(kubectl, name, say)
        _follow(kubectl, pod, verify.deadline_seconds)
        code = _result(kubectl, pod)
        finished = True
    finally:
        if not finished:
            say(f"deleting Job {name}")
            with contextlib.suppress(KascadeError):
                kubectl.run("delete", "job", name, "--wait=false", "--ignore-not-found")
    return code


def job_from(template: dict[str, Any], name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make a Job of a CronJob, as ``kubectl create job --from`` does, with arguments added.

    Args:
        template: The CronJob as the API server returns it.
        name: Of the Job.
        arguments: Those that are given are appended; the last of two counts.
    """
    meta, inner = template["metadata"], template["spec"]["jobTemplate"]
    spec = inner["spec"]
    given = {
        "--seed": arguments.seed,
        "--tokens": arguments.tokens,
        "--ttft-ratio": arguments.ttft_ratio,
    }
    container = spec["template"]["spec"]["containers"][0]
    container["args"] = [
        *container["args"],
        *(f"{flag}={value}" for flag, value in given.items() if value is not None),
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": inner.get("metadata", {}).get("labels", {}),
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            # So that the CronJob's history limits, and its deletion, reach it.
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def _await_pod(kubectl: Kubectl, job: str, say: Callable[[str], None]) -> str:
    deadline = time.monotonic() + _START_SECONDS
    told = time.monotonic()
    while True:
        pods = kubectl.items("get", "pods", f"--selector=job-name={job}")
        state = "it has no pod yet"
        for pod in pods:
            name, phase = str(pod["metadata"]["name"]), pod.get("status", {}).get("phase")
            if phase in {"Running", "Succeeded", "Failed"}:
                return name
            state = f"pod {name} is {_waits_for(pod)}"
        now = time.monotonic()
        if now > deadline:
            msg = f"Job {job} did not start within {_START_SECONDS:g} s: {state}"
            raise KascadeError(msg)
        if now - told > _REPORT_SECONDS:
            told = now
            say(f"waiting for Job {job}: {state}")
        time.sleep(_POLL_SECONDS)


def _waits_for(pod: dict[str, Any]) -> str:
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return str(waiting.get("reason", "waiting"))
    for condition in status.get("conditions", []):
        if condition.get("status") == "False" and condition.get("message"):
            return f"pending: {condition['message']}"
    return "pending"


def _follow(kubectl: Kubectl, pod: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with kubectl.child("logs", "--follow", pod) as lines:
        while True:
            try:
                line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                return
            # A container's two streams come as one; these are the lines of a waiting person.
            stream = sys.stderr if line.startswith(_PROGRESS) else sys.stdout
            stream.write(f"{line}\n")
            stream.flush()


def _result(kubectl: Kubectl, pod: str) -> int:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        status = (kubectl.json("get", "pod", pod) or {}).get("status", {})
        for container in status.get("containerStatuses", []):
            ended = container.get("state", {}).get("terminated")
            if ended is not None:
                return int(ended["exitCode"])
        if status.get("phase") == "Failed":
            msg = f"pod {pod} was ended: {status.get('reason', 'no reason given')}"
            raise KascadeError(msg)
        time.sleep(_POLL_SECONDS)
    msg = f"pod {pod} does not end; its log is all there is"
    raise KascadeError(msg)
