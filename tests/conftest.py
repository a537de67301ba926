"""What tests share: a guarded import root, a quiet jsii, one synth per configuration."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import tools.node  # noqa: F401 - chooses the Node that jsii starts

import hypothesis
import pytest

from kascade import ServingPlan, plan_file
from kascade.sizing.document import write_plan
from tools.outputs import Outputs, cdk_context

ROOT = Path(__file__).parents[1]

# Before aws_cdk is imported: the validator costs seconds a process and has a test of its own.
os.environ["CDK_VALIDATION"] = "false"
os.environ["JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION"] = "1"
os.environ.pop("CDK_OUTDIR", None)

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the part of the contracts that needs no other environment."""
    words = "of tests/contract, only templates and manifests of three configurations"
    parser.addoption("--few", action="store_true", help=words)


def pytest_configure() -> None:
    """Say plainly what would otherwise surface as "No module named constructs._jsii"."""
    if strays := [p.name for p in (ROOT / "constructs").iterdir() if p.suffix in {".py", ".pyi"}]:
        msg = f"constructs/ is an import root and must hold no modules of its own, found {strays}"
        raise pytest.UsageError(msg)


@pytest.fixture(scope="session")
def plan() -> Callable[[str], ServingPlan]:
    """Return a function from a configuration's name to its plan, computed once."""

    @cache
    def make(name: str) -> ServingPlan:
        return plan_file(ROOT / "config" / f"{name}.yaml")

    return make


@pytest.fixture(scope="session")
def synthesized(
    plan: Callable[[str], ServingPlan], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Outputs]:
    """Return a function from a configuration's name to everything rendered from it, made once."""
    import aws_cdk as cdk

    import app

    @cache
    def make(name: str) -> Outputs:
        root = tmp_path_factory.mktemp(name)
        outputs = Outputs(name=name, assembly=root / "cdk.out", dist=root / "dist")
        root_construct = cdk.App(outdir=str(outputs.assembly), context=cdk_context())
        charts = app.build(root_construct, plan(name), manifests=outputs.dist / "manifests")
        root_construct.synth()
        charts.synth()
        write_plan(plan(name), outputs.dist / "plan.json")
        return outputs

    return make
