"""A first deployment in an account that may run ten Lambda functions at once.

CDK's own provider framework, with the SDK that Lambda brings, runs the custom resources of a stack
as CloudFormation would: each as soon as the templates let it. Lambda is played, with its limit.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.node import pinned_node

import pytest

from tests.contract.deploy_order import MANIFEST, Assembly
from tests.contract.test_concurrency import OF_A_NEW_ACCOUNT, functions_of
from tools.outputs import Outputs
from tools.rehearsal_env import rehearsal_environment

pytestmark = pytest.mark.rehearsal

PROGRAM = Path(__file__).parent / "aws" / "node" / "waves.js"
NAME = "kascade"
HANDLER_MS = 3000
"""Longer than the SDK's three tries take, and shorter than kubectl in Lambda: six seconds."""

QUICK_MS = 1000
"""Where no call is rejected at all it does not matter how long one takes."""


def graph_of(assembly: Assembly, stack: str) -> dict[str, dict[str, Any]]:
    """What each custom resource of a stack waits for among the others."""
    ours = {
        node: functions
        for node, resource in assembly.resources.items()
        if node[0] == stack and (functions := functions_of(resource))
    }
    return {
        node[1]: {
            "after": sorted(other[1] for other in assembly.before(node) & ours.keys()),
            "functions": functions,
        }
        for node, functions in ours.items()
    }


def deploy(graph: dict[str, Any], framework: Path, handler_ms: int) -> dict[str, Any]:
    """Run them; return what came of it."""
    done = subprocess.run(
        [str(pinned_node()), str(PROGRAM), str(framework), str(OF_A_NEW_ACCOUNT), str(handler_ms)],
        check=True,
        input=json.dumps(graph),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NODE_PATH": str(rehearsal_environment().node_modules)},
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def outputs(synthesized: Callable[[str], Outputs]) -> Outputs:
    return synthesized("default")


@pytest.fixture(scope="module")
def framework(outputs: Outputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CDK's own function, from the assets of the synth."""
    (found,) = outputs.assembly.glob("asset.*/framework.js")
    copy = tmp_path_factory.mktemp("framework")
    shutil.copytree(found.parent, copy, dirs_exist_ok=True)
    return copy


@pytest.mark.parametrize("part", ["cluster", "serving"])
def test_the_first_deployment_succeeds(outputs: Outputs, framework: Path, part: str) -> None:
    graph = graph_of(Assembly.of(outputs), f"{NAME}-{part}")
    assert len(graph) > OF_A_NEW_ACCOUNT
    result = deploy(graph, framework, QUICK_MS)
    assert (result["failed"], result["throttled"]) == ({}, 0)
    assert result["most"] <= OF_A_NEW_ACCOUNT


def test_with_whole_waves_at_once_it_fails(outputs: Outputs, framework: Path) -> None:
    """As before objects waited for each other: only the barriers between waves are kept."""
    stack = f"{NAME}-serving"
    templates = outputs.templates()
    resources = templates[stack]["Resources"]
    applied = {name for name, item in resources.items() if item["Type"] == MANIFEST}
    for name in applied:
        depends = resources[name].get("DependsOn", ())
        resources[name]["DependsOn"] = [other for other in depends if other not in applied]
    loose = Assembly(templates=templates, stacks=Assembly.of(outputs).stacks)
    result = deploy(graph_of(loose, stack), framework, HANDLER_MS)
    assert result["failed"]
    assert all("Rate Exceeded" in reason for reason in result["failed"].values())
