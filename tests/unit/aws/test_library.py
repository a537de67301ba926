"""What the library's page offers beside the cluster, given what it cannot take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kascade.aws import AppliedManifests, LifecycleScript
from kascade.aws.dependencies import LocalChart
from kascade.aws.lifecycle import PlainNodes
from kascade.aws.removal import keep_or_destroy
from kascade.errors import KascadeError
from kascade.kube.agents import hyperpod_agents
from tests.checkout import ROOT
from tests.unit.aws.builders import make_object
from tests.unit.aws.test_hyperpod import ExternalStack

CHART = ROOT / "tests" / "data" / "charts" / "hyperpod"


def apply(objects: Any) -> Callable[[ExternalStack], object]:
    return lambda stack: AppliedManifests(stack, "Objects", cluster=stack.eks, objects=objects)


def script(deployment: Any = "own", **settings: Any) -> Callable[[ExternalStack], object]:
    return lambda stack: LifecycleScript(
        stack, "Script", deployment=deployment, plan=PlainNodes(**settings)
    )


REFUSED: dict[str, tuple[Callable[[ExternalStack], object], str]] = {
    "no list": (apply({"kind": "Pod"}), "Chart Objects is given a dict; give a list of objects"),
    "an empty document": (
        apply([make_object("Pod", "a", "b"), None]),
        r"objects\[1\] is None; an object is a mapping, so take out empty documents",
    ),
    "no version": (
        apply([{"kind": "Pod", "metadata": {"name": "a"}}]),
        r"objects\[0\] has no apiVersion; add it",
    ),
    "no name": (
        apply([{"apiVersion": "v1", "kind": "Pod", "metadata": ["a"]}]),
        r"objects\[0\] has no metadata\.name; add it",
    ),
    "a Job of nowhere": (
        apply([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}]),
        r"has no metadata\.namespace, by which a Job is awaited",
    ),
    "no number": (
        apply([make_object("Pod", "a", "b", spec={"a": float("nan")})]),
        r"objects\[0\] is no JSON \(.*\); put dates and the like in quotes",
    ),
    "two at once": (
        apply([None, {"kind": "Pod"}]),
        r"objects\[0\] is None; .*; objects\[1\] has no apiVersion and no metadata\.name",
    ),
    "a deployment in capitals": (
        script("My_Team"),
        r"deployment is 'My_Team', which stands in a bucket's name; give lower-case letters",
    ),
    "a deployment without a name": (script(""), r"deployment is '', which stands in a bucket"),
    "a mount that is relative": (
        script(nvme_mount="nvme"),
        r"nvme_mount is 'nvme'; give an absolute path such as /opt/dlami/nvme",
    ),
    "a mount in the operating system": (
        script(nvme_mount="/usr/local/nvme"),
        r"none of the operating system's own",
    ),
    "a mount with a slash at its end": (
        script(nvme_mount="/opt/sagemaker/"),
        r"without a slash at its end",
    ),
    "a chart by its name": (
        lambda _: LocalChart(folder=cast("Path", str(CHART)), values={}),
        r"give the path \(pathlib\.Path\) of a chart's folder",
    ),
    "a folder without a chart": (
        lambda _: LocalChart(folder=ROOT / "config", values={}),
        r"holds no Chart\.yaml; give the path",
    ),
    "values of a list": (
        lambda _: LocalChart(folder=CHART, values=cast("Any", [])),
        r"values is a list; give a dict",
    ),
    "one type that is no list": (
        lambda _: hyperpod_agents(region="us-west-2", instance_types="ml.g6e.4xlarge"),
        r"instance_types is 'ml\.g6e\.4xlarge'; give a list of strings",
    ),
    "one taint that is no list": (
        lambda _: hyperpod_agents(
            region="us-west-2", instance_types=["ml.g6e.4xlarge"], taint_keys="team"
        ),
        r"taint_keys is 'team'; give a list of strings",
    ),
    "a key that is text": (
        lambda stack: keep_or_destroy(stack, destroy=cast("bool", "false")),
        r"destroy is 'false'; give True or False\. Context from the command line is text",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_a_sentence(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(KascadeError, match=words):
        make(ExternalStack())
