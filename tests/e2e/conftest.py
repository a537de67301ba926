"""One running deployment for all tests, and a table of what they measured."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from k8s.charts import build_charts
from kascade import KascadeError
from kascade.plan import CurvinePlan, ServingPlan
from kascade.planning.planner import plan_file
from tests.e2e.pool import mount
from tests.e2e.replicas import Measured
from tools import engine_env
from tools.debian import NoProgramError
from tools.local.substitutions import NOT_CARRIED_OVER, SUBSTITUTIONS, differences
from tools.local.system import Deployment, LocalSystem, running
from tools.prometheus import programs

collect_ignore = ["pool/serve.py"]
"""Runs by itself, with libfuse on its path; here its import would fail."""

CONFIG = Path(__file__).parents[2] / "config" / "laptop.yaml"
LONGEST_SECONDS = 1800
"""Nothing that this ring starts lives longer."""

_ORDER = (
    "test_pool",
    "test_pool_faults",
    "test_substitutions",
    "test_cascade",
    "test_routing",
    "test_tenancy",
    "test_faults",
    "test_janitor",
    "test_engines",
    "test_cache_life",
    "test_rollout",
    "test_encryption",
    "test_verify",
    "test_hung",
    "test_frozen",
)
"""An engine takes most of a minute to start on two cores, so it is killed where all restart next,
and frozen where nothing comes after it."""

_LONG = ("test_cache_life", "test_rollout", "test_verify", "test_hung", "test_frozen")
"""Most of them wait, for a restarted engine or for a deadline: `make e2e-long`."""

_MEASURED = pytest.StashKey[list[Measured]]()
_SUBSTITUTED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to record what dashboards are tested against."""
    words = "write the metrics pages that tests/data/metrics lacks"
    parser.addoption("--record-metrics", action="store_true", help=words)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make the engine environment before the first test, or say why nothing ran."""
    session.config.stash[_MEASURED] = []
    session.config.stash[_SUBSTITUTED] = []
    # A cancelled run, too, has servers to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        engine_env.main()
        programs()
        mount.check()
    except (NoProgramError, KascadeError, OSError) as error:
        msg = f"The engines were NOT started. {error}"
        raise pytest.UsageError(msg) from None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and put them into the order that costs the fewest restarts."""
    own = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in own:
        item.add_marker(pytest.mark.e2e)
        if item.path.stem in _LONG:
            item.add_marker(pytest.mark.long)
    own.sort(key=lambda item: _ORDER.index(item.path.stem))
    items[:] = [*(item for item in items if item not in own), *own]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Render the small configuration."""
    return Deployment.render(CONFIG, tmp_path_factory.mktemp("manifests"))


@pytest.fixture(scope="session")
def curvine(curvine_serving: ServingPlan) -> CurvinePlan:
    """Return the pool of the configuration that most begin with."""
    assert curvine_serving.curvine is not None
    return curvine_serving.curvine


@pytest.fixture(scope="session")
def curvine_serving() -> ServingPlan:
    """Plan that configuration."""
    return plan_file(CONFIG.with_name("default.yaml"))


@pytest.fixture(scope="session")
def curvine_objects(curvine_serving: ServingPlan) -> list[dict[str, Any]]:
    """Render it."""
    charts = build_charts(cdk8s.Testing.app(), curvine_serving)
    return [document for chart in charts.serving for document in chart.to_json()]


@pytest.fixture(scope="session")
def curvine_argv(curvine_objects: list[dict[str, Any]]) -> list[str]:
    """Return the arguments of its LMCache server."""
    (server,) = _containers(curvine_objects, "Deployment", "lmcache")
    arguments: list[str] = server["args"]
    return arguments


@pytest.fixture(scope="session")
def bootstrap_job(curvine_objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the container of its bootstrap Job."""
    (container,) = _containers(curvine_objects, "Job", "bootstrap")
    return container


def _containers(objects: list[dict[str, Any]], kind: str, name: str) -> list[dict[str, Any]]:
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == kind]
    every = [one for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"])]
    return [one for one in every if one["name"] == name]


@pytest.fixture(scope="session")
def local(
    deployment: Deployment, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[LocalSystem]:
    """Run it."""
    begun = time.monotonic()
    folder = tmp_path_factory.mktemp("local")
    prometheus = programs() / "prometheus"
    with running(deployment, folder, prometheus=prometheus, seconds=LONGEST_SECONDS) as system:
        seconds = time.monotonic() - begun
        pytestconfig.stash[_MEASURED].append(Measured("start to ready", f"{seconds:.0f} s"))
        pytestconfig.stash[_SUBSTITUTED] += _list_substitutions(system)
        yield system


@pytest.fixture
def system(local: LocalSystem) -> LocalSystem:
    """Return the running deployment, whole again after whatever the test before did to it."""
    local.wait_until_ready()
    return local


@pytest.fixture
def measured(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """Return a function that adds a line to the table at the end."""
    lines = pytestconfig.stash[_MEASURED]
    return lambda what, value: lines.append(Measured(what, value))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what differs from the manifests, and what was measured."""
    write = terminalreporter.write_line
    if lines := config.stash[_SUBSTITUTED]:
        terminalreporter.section("what differs from the rendered manifests")
        for line in lines:
            write(line)
    if table := config.stash[_MEASURED]:
        terminalreporter.section("measured")
        width = max(len(row.what) for row in table)
        for row in table:
            write(f"{row.what:<{width}}  {row.value}")


def _list_substitutions(system: LocalSystem) -> list[str]:
    lines = [f"{one.name}: {one.reason}" for one in SUBSTITUTIONS]
    lines += [f"{part}: {reason}" for part, reason in NOT_CARRIED_OVER.items()]
    for index, pod in enumerate(system.rendered):
        if pod.name.endswith("-0"):
            lines += [f"  {pod.name}.{line}" for line in differences(pod, system.place(pod, index))]
    return lines
